//! What each task has and may still allocate, added up from the calls.

use eager_client::account::{Announced, FrameId};
use eager_client::sites::OpenSite;
use eager_client::task::TaskKey;

/// An announcement as it was made, and what happened under it.
#[derive(Debug)]
struct Frame {
    key: TaskKey,
    id: FrameId,
    announced: Announced,
    is_open: bool,
    /// Bytes allocated (true) and returned (false), in order.
    history: Vec<(u64, bool)>,
}

impl Frame {
    fn promise(&self) -> u64 {
        let left = self.history.iter().fold(self.announced.bytes, |left, (bytes, is_taken)| {
            if *is_taken { left.saturating_sub(*bytes) } else { left + bytes }
        });
        if self.is_open { left } else { 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    pub key: TaskKey,
    pub frame: Option<FrameId>,
    pub bytes: u64,
    /// An address so far.
    pub is_expected: bool,
    /// Its request is not decided on.
    pub is_pending: bool,
}

#[derive(Debug, Default)]
pub struct Books {
    frames: Vec<Frame>,
    pub buffers: Vec<Buffer>,
    /// Tasks that are bound as the program knows.
    pub bound: Vec<TaskKey>,
}

impl Books {
    fn frame(&mut self, key: TaskKey, id: Option<FrameId>) -> Option<&mut Frame> {
        self.frames.iter_mut().find(|frame| frame.key == key && Some(frame.id) == id)
    }

    /// A site has opened. Nothing is announced for one that is covered, or refused.
    pub fn open(&mut self, open: &OpenSite, announced: Announced) {
        if !open.covered {
            let (key, id) = (open.key, open.frame);
            self.frames.push(Frame { key, id, announced, is_open: true, history: Vec::new() });
        }
    }

    pub fn is_open(&self, open: &OpenSite) -> bool {
        self.frames.iter().any(|frame| frame.key == open.key && frame.id == open.frame && frame.is_open)
    }

    /// The frame that another thread's end of a site closes.
    pub fn others(&self, site: u64) -> Option<(TaskKey, FrameId)> {
        let of_site = self.frames.iter().filter(|frame| frame.is_open && frame.announced.site == site);
        let found = of_site.min_by_key(|frame| (frame.key.slot, std::cmp::Reverse(frame.id)));
        found.map(|frame| (frame.key, frame.id))
    }

    pub fn close(&mut self, key: TaskKey, id: FrameId) {
        if let Some(frame) = self.frame(key, Some(id)) {
            frame.is_open = false;
        }
    }

    pub fn allocate(&mut self, buffer: Buffer) {
        if let Some(frame) = self.frame(buffer.key, buffer.frame) {
            let kept = buffer.bytes.min(frame.promise());
            frame.history.push((kept, true));
        }
        self.buffers.push(buffer);
    }

    pub fn free(&mut self, buffer: Buffer) {
        if let Some(place) = self.buffers.iter().position(|other| *other == buffer) {
            self.buffers.swap_remove(place);
        }
        if let Some(frame) = self.frame(buffer.key, buffer.frame).filter(|frame| frame.announced.reuses) {
            frame.history.push((buffer.bytes, false));
        }
    }

    /// Bytes allocated for a task.
    pub fn live(&self, key: TaskKey) -> u64 {
        self.buffers.iter().filter(|buffer| buffer.key == key).map(|buffer| buffer.bytes).sum()
    }

    /// Bytes that the daemon must hold for a bound task.
    pub fn needed(&self, key: TaskKey) -> u64 {
        let promised = self.frames.iter().filter(|frame| frame.key == key).map(Frame::promise);
        self.live(key) + promised.sum::<u64>()
    }

    /// True if nothing is left of a task.
    pub fn is_over(&self, key: TaskKey) -> bool {
        let has_site = self.frames.iter().any(|frame| frame.key == key && frame.is_open);
        !has_site && self.live(key) == 0
    }
}
