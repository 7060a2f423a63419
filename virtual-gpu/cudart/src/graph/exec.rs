//! Executable graphs: a snapshot of a graph, in an order in which it can run.
//!
//! Branches run in parallel, in the lanes of [`super::lanes`]: lane 0 is the stream that the graph is launched into.
//! Trap: a disabled step must keep its place, or later steps would lose their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::lanes::lanes;
use super::{GraphKey, Graphs, INVALID, Node, NodeKey, NodeKind, Work};
use crate::command::Command;
use crate::status::Code;
use crate::stream::Completion;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecKey(pub u64);

/// Action of a step.
#[derive(Debug, Clone)]
pub enum Action {
    Run(Arc<Command>),
    Record(u64),
    Wait(u64),
}

#[derive(Debug, Clone)]
struct Step {
    /// Node of the original graph.
    node: NodeKey,
    kind: NodeKind,
    /// Positions of the steps that it follows, in ascending order: the shape that an update must keep.
    after: Vec<usize>,
    enabled: bool,
    action: Action,
    lane: u32,
}

/// A step of a launch.
#[derive(Debug)]
pub struct Planned {
    pub action: Action,
    pub lane: u32,
    /// Positions of earlier steps in other lanes that it waits for.
    pub waits: Vec<usize>,
}

#[derive(Debug)]
pub struct Exec {
    steps: Vec<Step>,
    flags: u64,
    /// End of its latest launch: launches of it never overlap.
    last: Option<Arc<Completion>>,
}

/// Why an executable graph was not updated, with the node of the new graph that does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateFailure {
    TopologyChanged,
    NodeTypeChanged(NodeKey),
}

impl Graphs {
    /// # Errors
    /// `cudaErrorInvalidValue` for an unknown graph, or a graph with a cycle.
    pub fn instantiate(&mut self, graph: GraphKey, flags: u64) -> Result<ExecKey, Code> {
        let mut steps = self.steps(graph)?;
        let after: Vec<Vec<usize>> = steps.iter().map(|step| step.after.clone()).collect();
        for (step, lane) in steps.iter_mut().zip(lanes(&after)) {
            step.lane = lane;
        }
        let key = ExecKey(self.handle());
        self.execs.insert(key, Exec { steps, flags, last: None });
        Ok(key)
    }

    /// The graph's nodes in running order, with the nodes of child graphs in place of their parents.
    fn steps(&self, graph: GraphKey) -> Result<Vec<Step>, Code> {
        let mut steps: Vec<Step> = Vec::new();
        // The step of each node, or for a child graph its last steps.
        let mut ends: BTreeMap<NodeKey, usize> = BTreeMap::new();
        for node in self.sorted(graph)? {
            let Node { work, after, .. } = &self.nodes[&node];
            let mut after: Vec<usize> = after.iter().filter_map(|before| ends.get(before)).copied().collect();
            let action = match work {
                Work::Run(command) => Action::Run(Arc::clone(command)),
                Work::Record(event) => Action::Record(*event),
                Work::Wait(event) => Action::Wait(*event),
                Work::Child(child) => {
                    after = append(&mut steps, self.steps(*child)?, after);
                    Action::Run(Arc::new(Command::Nothing))
                }
            };
            ends.insert(node, steps.len());
            steps.push(Step { node, kind: work.kind(), after, enabled: true, action, lane: 0 });
        }
        Ok(steps)
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for an unknown executable graph, here and below.
    pub fn destroy_exec(&mut self, exec: ExecKey) -> Result<(), Code> {
        self.execs.remove(&exec).map(drop).ok_or(INVALID)
    }

    pub fn exec_flags(&self, exec: ExecKey) -> Result<u64, Code> {
        self.execs.get(&exec).map(|exec| exec.flags).ok_or(INVALID)
    }

    /// Steps of a launch, in order, and the end of the previous launch.
    pub fn plan(&self, exec: ExecKey) -> Result<(Vec<Planned>, Option<Arc<Completion>>), Code> {
        let exec = self.execs.get(&exec).ok_or(INVALID)?;
        let planned = exec.steps.iter().map(|step| {
            let nothing = || Action::Run(Arc::new(Command::Nothing));
            let action = if step.enabled { step.action.clone() } else { nothing() };
            let elsewhere = |before: &usize| exec.steps[*before].lane != step.lane;
            let waits = step.after.iter().copied().filter(elsewhere).collect();
            Planned { action, lane: step.lane, waits }
        });
        Ok((planned.collect(), exec.last.clone()))
    }

    pub fn launched(&mut self, exec: ExecKey, end: Arc<Completion>) {
        if let Some(exec) = self.execs.get_mut(&exec) {
            exec.last = Some(end);
        }
    }

    /// Replaces a step's action for later launches.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the executable graph has no such node, or the node is of another kind.
    pub fn set_action(&mut self, exec: ExecKey, node: NodeKey, work: Work) -> Result<(), Code> {
        let exec = self.execs.get_mut(&exec).ok_or(INVALID)?;
        let step = exec.steps.iter_mut().find(|step| step.node == node).ok_or(INVALID)?;
        step.action = match work {
            _ if work.kind() != step.kind => return Err(INVALID),
            Work::Run(command) => Action::Run(command),
            Work::Record(event) => Action::Record(event),
            Work::Wait(event) => Action::Wait(event),
            Work::Child(_) => return Err(INVALID),
        };
        Ok(())
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for a node that cannot be disabled: all but kernels, copies and fills.
    pub fn enabled(&mut self, exec: ExecKey, node: NodeKey) -> Result<&mut bool, Code> {
        let exec = self.execs.get_mut(&exec).ok_or(INVALID)?;
        let step = exec.steps.iter_mut().find(|step| step.node == node).ok_or(INVALID)?;
        match step.kind {
            NodeKind::Kernel | NodeKind::Copy | NodeKind::Fill => Ok(&mut step.enabled),
            _ => Err(INVALID),
        }
    }

    /// Copies all of a graph's work into an executable graph of the same shape.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue`; the inner error is why the graph does not match.
    pub fn update(&mut self, exec: ExecKey, graph: GraphKey) -> Result<Result<(), UpdateFailure>, Code> {
        let fresh = self.steps(graph)?;
        let exec = self.execs.get_mut(&exec).ok_or(INVALID)?;
        let shape = |steps: &[Step]| steps.iter().map(|step| step.after.clone()).collect::<Vec<_>>();
        if shape(&fresh) != shape(&exec.steps) {
            return Ok(Err(UpdateFailure::TopologyChanged));
        }
        let differs = fresh.iter().zip(&exec.steps).find(|(new, old)| new.kind != old.kind);
        if let Some((new, _)) = differs {
            return Ok(Err(UpdateFailure::NodeTypeChanged(new.node)));
        }
        for (old, new) in exec.steps.iter_mut().zip(fresh) {
            old.action = new.action;
        }
        Ok(Ok(()))
    }
}

/// Appends a child graph after the steps that its node follows; returns the steps that its successors follow: its
/// leaves or, if it is empty, `before`.
fn append(steps: &mut Vec<Step>, child: Vec<Step>, before: Vec<usize>) -> Vec<usize> {
    let offset = steps.len();
    let mut leaves: BTreeSet<usize> = (offset..offset + child.len()).collect();
    for mut step in child {
        step.after.iter_mut().for_each(|position| *position += offset);
        leaves.retain(|leaf| !step.after.contains(leaf));
        if step.after.is_empty() {
            step.after.clone_from(&before);
        }
        steps.push(step);
    }
    if leaves.is_empty() { before } else { leaves.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::empty;
    use crate::transfer::{Extent, Fill, Region};

    #[test]
    fn an_update_keeps_the_shape_and_the_kinds() {
        let mut graphs = Graphs::default();
        let [first, same, other, record] = [(); 4].map(|()| graphs.create());
        for (graph, work) in [(first, empty()), (same, empty()), (record, Work::Record(7))] {
            let before = graphs.add(graph, &[], empty()).unwrap();
            graphs.add(graph, &[before], work).unwrap();
        }
        graphs.add(other, &[], empty()).unwrap();
        graphs.add(other, &[], empty()).unwrap();
        let exec = graphs.instantiate(first, 0).unwrap();
        assert_eq!(graphs.update(exec, same), Ok(Ok(())));
        assert_eq!(graphs.update(exec, other), Ok(Err(UpdateFailure::TopologyChanged)));
        let changed = graphs.nodes(record).unwrap()[1];
        assert_eq!(graphs.update(exec, record), Ok(Err(UpdateFailure::NodeTypeChanged(changed))));
        graphs.destroy_exec(exec).unwrap();
        assert_eq!(graphs.update(exec, same), Err(INVALID));
    }

    /// For each step of a plan: the event that it records, its lane, and the steps of other lanes that it waits for.
    fn seen(graphs: &Graphs, exec: ExecKey) -> Vec<(Option<u64>, u32, Vec<usize>)> {
        let (plan, _) = graphs.plan(exec).unwrap();
        let row = |step: Planned| {
            let event = if let Action::Record(event) = step.action { Some(event) } else { None };
            (event, step.lane, step.waits)
        };
        plan.into_iter().map(row).collect()
    }

    #[test]
    fn child_graphs_run_in_their_place() {
        let mut graphs = Graphs::default();
        let (child, graph) = (graphs.create(), graphs.create());
        let inner = graphs.add(child, &[], Work::Record(1)).unwrap();
        graphs.add(child, &[inner], Work::Record(2)).unwrap();
        graphs.add(child, &[inner], Work::Record(3)).unwrap();
        let first = graphs.add(graph, &[], Work::Record(0)).unwrap();
        let middle = graphs.add(graph, &[first], Work::Child(child)).unwrap();
        graphs.add(graph, &[middle], Work::Record(4)).unwrap();
        let exec = graphs.instantiate(graph, 0).unwrap();
        let expected = [
            (Some(0), 0, vec![]),
            (Some(1), 0, vec![]),
            (Some(2), 0, vec![]),
            (Some(3), 1, vec![1]),
            (None, 0, vec![3]),
            (Some(4), 0, vec![]),
        ];
        assert_eq!(seen(&graphs, exec), expected);
    }

    #[test]
    fn an_empty_child_graph_and_a_step_that_is_off_keep_the_order() {
        let mut graphs = Graphs::default();
        let (child, graph) = (graphs.create(), graphs.create());
        let first = graphs.add(graph, &[], Work::Record(0)).unwrap();
        let root = graphs.add(graph, &[], Work::Record(1)).unwrap();
        let nothing = graphs.add(graph, &[first, root], Work::Child(child)).unwrap();
        let region = Region::line(0);
        let extent = Extent { width: 0, height: 0, depth: 0 };
        let fill = Command::Fill(Fill { to: region, extent, value: 0, element_bytes: 1 });
        let off = graphs.add(graph, &[nothing], Work::Run(Arc::new(fill))).unwrap();
        graphs.add(graph, &[off], Work::Record(2)).unwrap();
        let exec = graphs.instantiate(graph, 0).unwrap();
        *graphs.enabled(exec, off).unwrap() = false;
        let expected = [
            (Some(0), 0, vec![]),
            (Some(1), 1, vec![]),
            (None, 0, vec![1]),
            (None, 0, vec![]),
            (Some(2), 0, vec![]),
        ];
        assert_eq!(seen(&graphs, exec), expected);
    }
}
