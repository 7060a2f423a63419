//! Stream capture: work submitted to a stream becomes nodes of a graph instead of running.
//!
//! A capture begins in one stream and spreads to streams that wait for events recorded in it; all of them must be
//! joined before it ends in its first stream (CUDA C++ programming guide, "Creating a Graph Using Stream Capture").
//! Trap: a forbidden call must fail *and* invalidate the capture, which is reported again only at the capture's end.

use std::collections::{BTreeMap, BTreeSet};

use super::{GraphKey, Graphs, INVALID, NodeKey, Work};
use crate::status::Code;
use crate::stream::StreamKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaptureId(pub u64);

/// Of a capture: which threads' unsafe calls it forbids. Of a thread: which captures can forbid its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    /// # Errors
    /// `cudaErrorInvalidValue`.
    pub fn new(number: u32) -> Result<Mode, Code> {
        [Mode::Global, Mode::ThreadLocal, Mode::Relaxed].get(number as usize).copied().ok_or(INVALID)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    Active = 1,
    Invalidated = 2,
}

#[derive(Debug)]
pub struct Capture {
    graph: GraphKey,
    origin: StreamKey,
    mode: Mode,
    thread: u64,
    status: Status,
    /// Nodes that the next node of each stream follows.
    ends: BTreeMap<StreamKey, BTreeSet<NodeKey>>,
    /// Node handles returned to the program by address; valid until the stream's next call.
    handles: Vec<u64>,
}

/// State of a capture, as seen from one of its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureState {
    pub id: CaptureId,
    pub status: Status,
    pub graph: GraphKey,
}

impl Graphs {
    pub fn any_capture(&self) -> bool {
        !self.captures.is_empty()
    }

    /// Begins a capture in a stream, into a graph after some of its nodes, or into a new graph.
    ///
    /// # Errors
    /// `cudaErrorIllegalState` if the stream is in a capture already; `cudaErrorInvalidValue` for a wrong graph.
    pub fn begin_capture(
        &mut self,
        origin: StreamKey,
        mode: Mode,
        thread: u64,
        into: Option<(GraphKey, BTreeSet<NodeKey>)>,
    ) -> Result<(), Code> {
        if self.capturing.contains_key(&origin) {
            return Err(Code::cudaErrorIllegalState);
        }
        let (graph, after) = match into {
            Some((graph, after)) => {
                let known = self.graphs.get(&graph).ok_or(INVALID)?;
                if !after.iter().all(|node| known.contains_key(node)) {
                    return Err(INVALID);
                }
                (graph, after)
            }
            None => (self.create(), BTreeSet::new()),
        };
        let id = CaptureId(self.handle());
        let ends = BTreeMap::from([(origin, after)]);
        let status = Status::Active;
        self.captures.insert(id, Capture { graph, origin, mode, thread, status, ends, handles: Vec::new() });
        self.capturing.insert(origin, id);
        Ok(())
    }

    /// Ends a capture in the stream where it began; returns its graph.
    ///
    /// # Errors
    /// `cudaErrorIllegalState` without a capture, `…Unmatched` in another stream, `…WrongThread`; and, with the capture
    /// removed, `…Unjoined` and `…Invalidated`.
    pub fn end_capture(&mut self, stream: StreamKey, thread: u64) -> Result<GraphKey, Code> {
        let id = *self.capturing.get(&stream).ok_or(Code::cudaErrorIllegalState)?;
        let capture = &self.captures[&id];
        if capture.origin != stream {
            self.invalidate(id);
            return Err(Code::cudaErrorStreamCaptureUnmatched);
        }
        if capture.mode != Mode::Relaxed && capture.thread != thread {
            return Err(Code::cudaErrorStreamCaptureWrongThread);
        }
        let joined = self.is_joined(capture);
        self.capturing.retain(|_, capturing| *capturing != id);
        let capture = self.captures.remove(&id).expect("looked up above");
        let failure = match capture.status {
            Status::Invalidated => Code::cudaErrorStreamCaptureInvalidated,
            Status::Active if !joined => Code::cudaErrorStreamCaptureUnjoined,
            Status::Active => return Ok(capture.graph),
        };
        self.destroy(capture.graph)?;
        Err(failure)
    }

    /// True if the origin's next node follows all nodes of the other streams.
    fn is_joined(&self, capture: &Capture) -> bool {
        let mut reached: BTreeSet<NodeKey> = BTreeSet::new();
        let mut next: Vec<NodeKey> = capture.ends[&capture.origin].iter().copied().collect();
        while let Some(node) = next.pop() {
            if reached.insert(node) {
                next.extend(self.nodes.get(&node).into_iter().flat_map(|node| node.after.iter().copied()));
            }
        }
        capture.ends.values().all(|ends| ends.is_subset(&reached))
    }

    pub fn capture_of(&self, stream: StreamKey) -> Option<CaptureState> {
        let id = *self.capturing.get(&stream)?;
        let capture = &self.captures[&id];
        Some(CaptureState { id, status: capture.status, graph: capture.graph })
    }

    /// Streams that are captured.
    pub fn capturing_streams(&self) -> impl Iterator<Item = StreamKey> + '_ {
        self.capturing.keys().copied()
    }

    pub fn invalidate(&mut self, id: CaptureId) {
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.status = Status::Invalidated;
        }
    }

    /// Captures work as a node; `None` if the stream is not captured.
    ///
    /// # Errors
    /// `cudaErrorStreamCaptureInvalidated`.
    pub fn capture(&mut self, stream: StreamKey, work: Work) -> Result<Option<NodeKey>, Code> {
        let Some(CaptureState { id, status, graph }) = self.capture_of(stream) else { return Ok(None) };
        if status == Status::Invalidated {
            return Err(Code::cudaErrorStreamCaptureInvalidated);
        }
        let after: Vec<NodeKey> = self.captures[&id].ends[&stream].iter().copied().collect();
        let node = self.add(graph, &after, work)?;
        self.set_ends(id, stream, BTreeSet::from([node]));
        Ok(Some(node))
    }

    /// Nodes that the stream's next node will follow, which an event recorded now represents.
    pub fn ends(&self, stream: StreamKey) -> Option<(CaptureId, BTreeSet<NodeKey>)> {
        let id = *self.capturing.get(&stream)?;
        Some((id, self.captures[&id].ends[&stream].clone()))
    }

    pub fn set_ends(&mut self, id: CaptureId, stream: StreamKey, ends: BTreeSet<NodeKey>) {
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.ends.insert(stream, ends);
        }
    }

    /// Makes the stream's next node follow nodes of a capture; joins the stream to it if it is not captured.
    ///
    /// # Errors
    /// `…Merge` if the stream is in another capture (both are invalidated), `…Invalidated`.
    pub fn wait_in_capture(
        &mut self,
        stream: StreamKey,
        id: CaptureId,
        nodes: &BTreeSet<NodeKey>,
    ) -> Result<(), Code> {
        let Some(capture) = self.captures.get_mut(&id) else {
            // The capture is over: the event's nodes are in a graph and will never run in a stream.
            return Err(Code::cudaErrorCapturedEvent);
        };
        if capture.status == Status::Invalidated {
            return Err(Code::cudaErrorStreamCaptureInvalidated);
        }
        match self.capturing.get(&stream) {
            Some(&other) if other != id => {
                self.invalidate(id);
                self.invalidate(other);
                return Err(Code::cudaErrorStreamCaptureMerge);
            }
            Some(_) => {}
            None => drop(self.capturing.insert(stream, id)),
        }
        capture_ends(&mut self.captures, id, stream).extend(nodes.iter().copied());
        Ok(())
    }

    /// Checks a call that may depend on other streams in ways that a capture cannot see, such as `cudaMalloc`.
    /// `caller_mode`: mode of the calling thread.
    ///
    /// # Errors
    /// `cudaErrorStreamCaptureUnsupported` if a capture forbids the call; that capture is then invalid.
    pub fn check_unsafe_call(&mut self, thread: u64, caller_mode: Mode) -> Result<(), Code> {
        let forbids = |capture: &Capture| match caller_mode {
            Mode::Relaxed => false,
            _ if capture.thread == thread => capture.mode != Mode::Relaxed,
            Mode::Global => capture.mode == Mode::Global,
            Mode::ThreadLocal => false,
        };
        let mut forbidden = false;
        for capture in self.captures.values_mut().filter(|capture| forbids(capture)) {
            capture.status = Status::Invalidated;
            forbidden = true;
        }
        if forbidden { Err(Code::cudaErrorStreamCaptureUnsupported) } else { Ok(()) }
    }

    /// Handles of the nodes that the stream's next node follows, at an address valid until the stream's next call.
    pub fn end_handles(&mut self, stream: StreamKey) -> Option<&[u64]> {
        let id = *self.capturing.get(&stream)?;
        let capture = self.captures.get_mut(&id)?;
        capture.handles = capture.ends[&stream].iter().map(|node| node.0).collect();
        Some(&capture.handles)
    }
}

fn capture_ends(
    captures: &mut BTreeMap<CaptureId, Capture>,
    id: CaptureId,
    stream: StreamKey,
) -> &mut BTreeSet<NodeKey> {
    captures.get_mut(&id).expect("the caller looked it up").ends.entry(stream).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::empty;

    const MAIN: StreamKey = StreamKey::Created(1);
    const SIDE: StreamKey = StreamKey::Created(2);

    fn begun(mode: Mode) -> Graphs {
        let mut graphs = Graphs::default();
        graphs.begin_capture(MAIN, mode, 1, None).unwrap();
        graphs
    }

    #[test]
    fn a_fork_that_is_joined_becomes_a_diamond() {
        let mut graphs = begun(Mode::Global);
        let first = graphs.capture(MAIN, empty()).unwrap().unwrap();
        let (id, ends) = graphs.ends(MAIN).unwrap();
        graphs.wait_in_capture(SIDE, id, &ends).unwrap();
        let side = graphs.capture(SIDE, empty()).unwrap().unwrap();
        let main = graphs.capture(MAIN, empty()).unwrap().unwrap();
        let (_, ends) = graphs.ends(SIDE).unwrap();
        graphs.wait_in_capture(MAIN, id, &ends).unwrap();
        let last = graphs.capture(MAIN, empty()).unwrap().unwrap();
        let graph = graphs.end_capture(MAIN, 1).unwrap();
        assert_eq!(graphs.edges(graph).unwrap(), [(first, side), (first, main), (side, last), (main, last)]);
        assert!(graphs.capture_of(SIDE).is_none() && graphs.capture(MAIN, empty()) == Ok(None));
    }

    #[test]
    fn work_left_in_another_stream_is_unjoined() {
        let mut graphs = begun(Mode::Global);
        graphs.capture(MAIN, empty()).unwrap();
        let (id, ends) = graphs.ends(MAIN).unwrap();
        graphs.wait_in_capture(SIDE, id, &ends).unwrap();
        graphs.capture(SIDE, empty()).unwrap();
        assert_eq!(graphs.end_capture(SIDE, 1), Err(Code::cudaErrorStreamCaptureUnmatched));
        let mut graphs = begun(Mode::Global);
        let (id, ends) = graphs.ends(MAIN).unwrap();
        graphs.wait_in_capture(SIDE, id, &ends).unwrap();
        graphs.capture(SIDE, empty()).unwrap();
        assert_eq!(graphs.end_capture(MAIN, 1), Err(Code::cudaErrorStreamCaptureUnjoined));
        assert_eq!(graphs.end_capture(MAIN, 1), Err(Code::cudaErrorIllegalState));
    }

    #[test]
    fn unsafe_calls_are_forbidden_by_both_modes() {
        use Mode::{Global, Relaxed, ThreadLocal};
        let forbidden = Err(Code::cudaErrorStreamCaptureUnsupported);
        for (capture, caller, caller_mode, expected) in [
            (Global, 1, Global, forbidden),
            (Global, 2, Global, forbidden),
            (Global, 2, ThreadLocal, Ok(())),
            (Global, 1, ThreadLocal, forbidden),
            (Global, 1, Relaxed, Ok(())),
            (ThreadLocal, 1, Global, forbidden),
            (ThreadLocal, 2, Global, Ok(())),
            (Relaxed, 1, Global, Ok(())),
        ] {
            let mut graphs = begun(capture);
            let answer = graphs.check_unsafe_call(caller, caller_mode);
            assert_eq!(answer, expected, "{capture:?}, thread {caller}, {caller_mode:?}");
            let ended = graphs.end_capture(MAIN, 1).map(drop);
            let invalid = Err(Code::cudaErrorStreamCaptureInvalidated);
            assert_eq!(ended, if expected.is_ok() { Ok(()) } else { invalid });
        }
    }

    #[test]
    fn captures_do_not_merge() {
        let mut graphs = begun(Mode::Global);
        graphs.begin_capture(SIDE, Mode::Global, 1, None).unwrap();
        let (id, ends) = graphs.ends(SIDE).unwrap();
        assert_eq!(graphs.wait_in_capture(MAIN, id, &ends), Err(Code::cudaErrorStreamCaptureMerge));
        assert_eq!(graphs.end_capture(MAIN, 1), Err(Code::cudaErrorStreamCaptureInvalidated));
        assert_eq!(graphs.end_capture(SIDE, 1), Err(Code::cudaErrorStreamCaptureInvalidated));
    }
}
