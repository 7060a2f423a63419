//! Graphs: work as nodes with dependencies, made node by node or by capturing streams.
//!
//! [`Graphs`] holds all graphs of the process, with their nodes, executable copies ([`exec`]), current captures
//! ([`capture`]) and the assignment of branches to streams ([`lanes`]). Trap: handles are numbers that must never be
//! reused, so that a stale handle is refused, not followed.

mod capture;
mod exec;
mod lanes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use capture::{CaptureId, Mode};
pub use exec::{Action, ExecKey, Planned, UpdateFailure};

use crate::command::Command;
use crate::status::Code;
use crate::stream::StreamKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GraphKey(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeKey(pub u64);

/// Work of a node.
#[derive(Debug, Clone)]
pub enum Work {
    Run(Arc<Command>),
    /// A whole graph, owned by the node.
    Child(GraphKey),
    /// Records an event (`Record`) or waits for one (`Wait`), by its handle.
    Record(u64),
    Wait(u64),
}

#[derive(Debug, Clone)]
struct Node {
    graph: GraphKey,
    work: Work,
    /// Nodes that it follows.
    after: BTreeSet<NodeKey>,
}

/// A node and a node that follows it.
pub type Edge = (NodeKey, NodeKey);

/// All graphs of the process.
#[derive(Debug, Default)]
pub struct Graphs {
    /// Nodes of each graph, in the order of addition; in a clone, with the original's node.
    graphs: BTreeMap<GraphKey, BTreeMap<NodeKey, Option<NodeKey>>>,
    nodes: BTreeMap<NodeKey, Node>,
    execs: BTreeMap<ExecKey, exec::Exec>,
    captures: BTreeMap<CaptureId, capture::Capture>,
    capturing: BTreeMap<StreamKey, CaptureId>,
    last_handle: u64,
}

const INVALID: Code = Code::cudaErrorInvalidValue;

impl Graphs {
    fn handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }

    pub fn create(&mut self) -> GraphKey {
        let key = GraphKey(self.handle());
        self.graphs.insert(key, BTreeMap::new());
        key
    }

    /// Destroys a graph and its nodes; executable copies stay.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` for an unknown graph, here and below.
    pub fn destroy(&mut self, graph: GraphKey) -> Result<(), Code> {
        let nodes = self.graphs.remove(&graph).ok_or(INVALID)?;
        for node in nodes.keys() {
            if let Some(Node { work: Work::Child(child), .. }) = self.nodes.remove(node) {
                self.destroy(child)?;
            }
        }
        Ok(())
    }

    /// Adds a node after other nodes of its graph.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if one of these is not in the graph, or named twice.
    pub fn add(&mut self, graph: GraphKey, after: &[NodeKey], work: Work) -> Result<NodeKey, Code> {
        let known = self.graphs.get(&graph).ok_or(INVALID)?;
        let distinct: BTreeSet<NodeKey> = after.iter().copied().collect();
        if distinct.len() != after.len() || !distinct.iter().all(|node| known.contains_key(node)) {
            return Err(INVALID);
        }
        let key = NodeKey(self.handle());
        self.nodes.insert(key, Node { graph, work, after: distinct });
        self.graphs.get_mut(&graph).ok_or(INVALID)?.insert(key, None);
        Ok(key)
    }

    pub fn remove(&mut self, node: NodeKey) -> Result<(), Code> {
        let removed = self.nodes.remove(&node).ok_or(INVALID)?;
        if let Work::Child(child) = removed.work {
            self.destroy(child)?;
        }
        let siblings = self.graphs.get_mut(&removed.graph).ok_or(INVALID)?;
        siblings.remove(&node);
        for sibling in siblings.keys() {
            if let Some(sibling) = self.nodes.get_mut(sibling) {
                sibling.after.remove(&node);
            }
        }
        Ok(())
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for nodes of another graph, a node after itself, and an existing edge.
    pub fn add_edge(&mut self, graph: GraphKey, (from, to): Edge) -> Result<(), Code> {
        let known = self.graphs.get(&graph).ok_or(INVALID)?;
        if !known.contains_key(&from) || !known.contains_key(&to) || from == to {
            return Err(INVALID);
        }
        let added = self.nodes.get_mut(&to).ok_or(INVALID)?.after.insert(from);
        if added { Ok(()) } else { Err(INVALID) }
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for a missing edge.
    pub fn remove_edge(&mut self, graph: GraphKey, (from, to): Edge) -> Result<(), Code> {
        let to = self.nodes.get_mut(&to).filter(|to| to.graph == graph).ok_or(INVALID)?;
        if to.after.remove(&from) { Ok(()) } else { Err(INVALID) }
    }

    /// Nodes of a graph, in the order of addition.
    pub fn nodes(&self, graph: GraphKey) -> Result<Vec<NodeKey>, Code> {
        Ok(self.graphs.get(&graph).ok_or(INVALID)?.keys().copied().collect())
    }

    pub fn edges(&self, graph: GraphKey) -> Result<Vec<Edge>, Code> {
        let nodes = self.nodes(graph)?;
        let edges = nodes.iter().flat_map(|to| self.nodes[to].after.iter().map(move |from| (*from, *to)));
        Ok(edges.collect())
    }

    pub fn dependencies(&self, node: NodeKey) -> Result<Vec<NodeKey>, Code> {
        Ok(self.nodes.get(&node).ok_or(INVALID)?.after.iter().copied().collect())
    }

    pub fn dependents(&self, node: NodeKey) -> Result<Vec<NodeKey>, Code> {
        let graph = self.nodes.get(&node).ok_or(INVALID)?.graph;
        let edges = self.edges(graph)?;
        Ok(edges.into_iter().filter(|(from, _)| *from == node).map(|(_, to)| to).collect())
    }

    pub fn work(&self, node: NodeKey) -> Result<&Work, Code> {
        self.nodes.get(&node).map(|node| &node.work).ok_or(INVALID)
    }

    /// # Errors
    /// `cudaErrorInvalidValue` if the node's work is of another kind.
    pub fn set_work(&mut self, node: NodeKey, work: Work) -> Result<(), Code> {
        let node = self.nodes.get_mut(&node).filter(|node| node.work.kind() == work.kind()).ok_or(INVALID)?;
        node.work = work;
        Ok(())
    }

    /// Makes a copy of a graph with its own nodes, including child graphs.
    pub fn duplicate(&mut self, graph: GraphKey) -> Result<GraphKey, Code> {
        let originals = self.nodes(graph)?;
        let clone = self.create();
        let mut copies = BTreeMap::new();
        for original in originals {
            let copy = NodeKey(self.handle());
            let mut node = self.nodes[&original].clone();
            if let Work::Child(child) = node.work {
                node.work = Work::Child(self.duplicate(child)?);
            }
            node.graph = clone;
            self.nodes.insert(copy, node);
            copies.insert(original, copy);
        }
        for copy in copies.values() {
            let node = self.nodes.get_mut(copy).ok_or(INVALID)?;
            node.after = node.after.iter().filter_map(|after| copies.get(after)).copied().collect();
        }
        let nodes = copies.into_iter().map(|(original, copy)| (copy, Some(original))).collect();
        self.graphs.insert(clone, nodes);
        Ok(clone)
    }

    /// The node of a clone that was copied from `original`.
    pub fn find_in_clone(&self, original: NodeKey, clone: GraphKey) -> Result<NodeKey, Code> {
        let nodes = self.graphs.get(&clone).ok_or(INVALID)?;
        nodes.iter().find(|(_, from)| **from == Some(original)).map(|(node, _)| *node).ok_or(INVALID)
    }

    /// Nodes in an order in which each follows all its predecessors, otherwise in the order of addition.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` for a cycle.
    fn sorted(&self, graph: GraphKey) -> Result<Vec<NodeKey>, Code> {
        let mut left = self.nodes(graph)?;
        let mut done = BTreeSet::new();
        let mut order = Vec::new();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|node| {
                let ready = self.nodes[node].after.is_subset(&done);
                if ready {
                    done.insert(*node);
                    order.push(*node);
                }
                !ready
            });
            if left.len() == before {
                return Err(INVALID);
            }
        }
        Ok(order)
    }
}

/// CUDA's number of a kind of node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum NodeKind {
    Kernel = 0,
    Copy = 1,
    Fill = 2,
    Host = 3,
    Child = 4,
    Empty = 5,
    Wait = 6,
    Record = 7,
}

impl Work {
    pub fn kind(&self) -> NodeKind {
        match self {
            Work::Child(_) => NodeKind::Child,
            Work::Record(_) => NodeKind::Record,
            Work::Wait(_) => NodeKind::Wait,
            Work::Run(command) => match **command {
                Command::Kernel(_) => NodeKind::Kernel,
                Command::Copy(_) => NodeKind::Copy,
                Command::Fill(_) => NodeKind::Fill,
                Command::Host(_) => NodeKind::Host,
                Command::Nothing
                | Command::Release(_)
                | Command::Prefetch(..)
                | Command::Discard(_)
                | Command::Callback(_) => NodeKind::Empty,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn empty() -> Work {
        Work::Run(Arc::new(Command::Nothing))
    }

    #[test]
    fn nodes_are_sorted_behind_what_they_follow_and_circles_are_refused() {
        let mut graphs = Graphs::default();
        let graph = graphs.create();
        let [a, b, c] = [(); 3].map(|()| graphs.add(graph, &[], empty()).unwrap());
        graphs.add_edge(graph, (c, a)).unwrap();
        graphs.add_edge(graph, (a, b)).unwrap();
        assert_eq!(graphs.sorted(graph).unwrap(), [c, a, b]);
        assert_eq!(graphs.add_edge(graph, (a, b)), Err(INVALID), "it is there");
        graphs.add_edge(graph, (b, c)).unwrap();
        assert_eq!(graphs.sorted(graph), Err(INVALID));
        graphs.remove_edge(graph, (b, c)).unwrap();
        graphs.remove(a).unwrap();
        assert_eq!((graphs.sorted(graph).unwrap(), graphs.edges(graph).unwrap()), (vec![b, c], vec![]));
        assert_eq!(graphs.add(graph, &[a], empty()), Err(INVALID), "it is gone");
    }

    #[test]
    fn a_clone_is_independent_down_to_its_child_graphs() {
        let mut graphs = Graphs::default();
        let (child, graph) = (graphs.create(), graphs.create());
        graphs.add(child, &[], empty()).unwrap();
        let first = graphs.add(graph, &[], Work::Child(child)).unwrap();
        let second = graphs.add(graph, &[first], empty()).unwrap();
        let clone = graphs.duplicate(graph).unwrap();
        graphs.destroy(graph).unwrap();
        assert!(graphs.nodes(graph).is_err() && graphs.nodes(child).is_err());
        let [one, two] = graphs.nodes(clone).unwrap()[..] else { panic!("two nodes") };
        assert_eq!(graphs.dependencies(two).unwrap(), [one]);
        assert_eq!(graphs.find_in_clone(second, clone), Ok(two));
        let Work::Child(copied) = *graphs.work(one).unwrap() else { panic!("a child graph") };
        assert_eq!(graphs.nodes(copied).unwrap().len(), 1);
    }
}
