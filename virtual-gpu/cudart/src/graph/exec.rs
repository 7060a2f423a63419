//! Executable graphs: a graph at one moment, in an order it can run in.
//!
//! Trap: branches of a graph run one after the other in the stream that it is launched into. Results are those of CUDA;
//! the modelled time is that of a GPU that overlaps none of them.

use std::sync::Arc;

use super::{GraphKey, Graphs, INVALID, NodeKey, NodeKind, Work};
use crate::command::Command;
use crate::status::Code;
use crate::stream::Completion;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecKey(pub u64);

/// One thing to do.
#[derive(Debug, Clone)]
pub enum Action {
    Run(Arc<Command>),
    Record(u64),
    Wait(u64),
}

#[derive(Debug, Clone)]
struct Step {
    /// Of the graph that it was made from.
    node: NodeKey,
    kind: NodeKind,
    /// Positions of the steps that it follows, in rising order: the shape that an update must keep.
    after: Vec<usize>,
    enabled: bool,
    action: Action,
}

#[derive(Debug)]
pub struct Exec {
    steps: Vec<Step>,
    flags: u64,
    /// End of its latest launch: it never runs beside itself.
    last: Option<Arc<Completion>>,
}

/// Why an executable graph was not updated, with the node of the new graph that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateFailure {
    TopologyChanged,
    NodeTypeChanged(NodeKey),
}

impl Graphs {
    /// # Errors
    /// `cudaErrorInvalidValue` for no graph, or one with a circle.
    pub fn instantiate(&mut self, graph: GraphKey, flags: u64) -> Result<ExecKey, Code> {
        let steps = self.steps(graph)?;
        let key = ExecKey(self.handle());
        self.execs.insert(key, Exec { steps, flags, last: None });
        Ok(key)
    }

    /// The graph's nodes in running order, with those of child graphs in their place.
    fn steps(&self, graph: GraphKey) -> Result<Vec<Step>, Code> {
        let mut steps: Vec<Step> = Vec::new();
        // Last step of each node: what comes behind a child graph follows the child's end.
        let mut ends: std::collections::BTreeMap<NodeKey, usize> = std::collections::BTreeMap::new();
        for node in self.sorted(graph)? {
            let after: Vec<usize> =
                self.nodes[&node].after.iter().filter_map(|before| ends.get(before)).copied().collect();
            let work = &self.nodes[&node].work;
            let action = match work {
                Work::Run(command) => Action::Run(Arc::clone(command)),
                Work::Record(event) => Action::Record(*event),
                Work::Wait(event) => Action::Wait(*event),
                Work::Child(child) => {
                    let offset = steps.len();
                    steps.extend(self.steps(*child)?.into_iter().map(|mut step| {
                        step.after.iter_mut().for_each(|position| *position += offset);
                        step
                    }));
                    Action::Run(Arc::new(Command::Nothing))
                }
            };
            ends.insert(node, steps.len());
            steps.push(Step { node, kind: work.kind(), after, enabled: true, action });
        }
        Ok(steps)
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for no executable graph, here and below.
    pub fn destroy_exec(&mut self, exec: ExecKey) -> Result<(), Code> {
        self.execs.remove(&exec).map(drop).ok_or(INVALID)
    }

    pub fn exec_flags(&self, exec: ExecKey) -> Result<u64, Code> {
        self.execs.get(&exec).map(|exec| exec.flags).ok_or(INVALID)
    }

    /// What a launch does, in order, and the end of the launch before it.
    pub fn actions(&self, exec: ExecKey) -> Result<(Vec<Action>, Option<Arc<Completion>>), Code> {
        let exec = self.execs.get(&exec).ok_or(INVALID)?;
        let enabled = exec.steps.iter().filter(|step| step.enabled);
        Ok((enabled.map(|step| step.action.clone()).collect(), exec.last.clone()))
    }

    pub fn launched(&mut self, exec: ExecKey, end: Arc<Completion>) {
        if let Some(exec) = self.execs.get_mut(&exec) {
            exec.last = Some(end);
        }
    }

    /// What a step does is replaced for later launches.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the executable graph has no such node, or it is of another kind.
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
    /// `cudaErrorInvalidValue` for a node that cannot be switched: all but kernels, copies and fills.
    pub fn enabled(&mut self, exec: ExecKey, node: NodeKey) -> Result<&mut bool, Code> {
        let exec = self.execs.get_mut(&exec).ok_or(INVALID)?;
        let step = exec.steps.iter_mut().find(|step| step.node == node).ok_or(INVALID)?;
        match step.kind {
            NodeKind::Kernel | NodeKind::Copy | NodeKind::Fill => Ok(&mut step.enabled),
            _ => Err(INVALID),
        }
    }

    /// Takes all of a graph's work over into an executable one of the same shape.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue`; inside, why the graph does not fit.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::empty;

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

    #[test]
    fn child_graphs_run_in_their_place() {
        let mut graphs = Graphs::default();
        let (child, graph) = (graphs.create(), graphs.create());
        let inner = graphs.add(child, &[], Work::Record(1)).unwrap();
        graphs.add(child, &[inner], Work::Record(2)).unwrap();
        let middle = graphs.add(graph, &[], Work::Child(child)).unwrap();
        graphs.add(graph, &[middle], Work::Record(3)).unwrap();
        let exec = graphs.instantiate(graph, 0).unwrap();
        let (actions, _) = graphs.actions(exec).unwrap();
        let events: Vec<u64> = actions
            .iter()
            .filter_map(|action| if let Action::Record(event) = action { Some(*event) } else { None })
            .collect();
        assert_eq!(events, [1, 2, 3]);
    }
}
