//! What each task has and may still allocate, added up from the calls.

use eager_client::account::{Announced, FrameId};
use eager_client::ledger::{BufferId, Origin};
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

/// Where a buffer's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The task is asked for with it.
    Asked,
    /// Counted, and not made yet; or made again for a buffer that had none.
    Coming,
    /// An address so far.
    Awaited,
    Present,
    /// Given back.
    Gone,
    /// Its contents are on the host.
    Away,
}

#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    pub number: u64,
    pub key: TaskKey,
    pub frame: Option<FrameId>,
    pub bytes: u64,
    pub place: Place,
    /// The client's name for it, once it is made, and how it was made.
    pub made: Option<(BufferId, Origin)>,
    pub is_dead: bool,
}

impl Buffer {
    /// True if its memory may be given back before it is freed.
    pub fn is_mine(&self) -> bool {
        self.made.is_some_and(|(_, origin)| origin.backing().is_some())
    }

    pub fn is_managed(&self) -> bool {
        self.made.is_some_and(|(_, origin)| origin.is_rewritten())
    }
}

#[derive(Debug, Default)]
pub struct Books {
    frames: Vec<Frame>,
    pub buffers: Vec<Buffer>,
    numbers: u64,
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

    /// Returns the buffer's number, and the bytes that the site had announced for it.
    pub fn allocate(&mut self, key: TaskKey, frame: Option<FrameId>, bytes: u64, place: Place) -> (u64, u64) {
        let kept = self.frame(key, frame).map_or(0, |frame| {
            let kept = bytes.min(frame.promise());
            frame.history.push((kept, true));
            kept
        });
        self.numbers += 1;
        let number = self.numbers;
        self.buffers.push(Buffer { number, key, frame, bytes, place, made: None, is_dead: false });
        (number, kept)
    }

    pub fn get(&mut self, number: u64) -> Option<&mut Buffer> {
        self.buffers.iter_mut().find(|buffer| buffer.number == number)
    }

    pub fn remove(&mut self, number: u64) -> Option<Buffer> {
        let place = self.buffers.iter().position(|buffer| buffer.number == number)?;
        Some(self.buffers.swap_remove(place))
    }

    /// A buffer is not made after all, and its site may allocate `kept` bytes again.
    pub fn undo(&mut self, number: u64, kept: u64) {
        let Some(Buffer { key, frame, .. }) = self.remove(number) else { return };
        if let Some(frame) = self.frame(key, frame) {
            frame.history.push((kept, false));
        }
    }

    /// A site that reuses may allocate again what it has freed, or what is dead.
    pub fn renew(&mut self, buffer: Buffer) {
        if let Some(frame) = self.frame(buffer.key, buffer.frame).filter(|frame| frame.announced.reuses) {
            frame.history.push((buffer.bytes, false));
        }
    }

    fn sum(&self, key: TaskKey, places: &[Place]) -> u64 {
        let of_task =
            self.buffers.iter().filter(|buffer| buffer.key == key && places.contains(&buffer.place));
        of_task.map(|buffer| buffer.bytes).sum()
    }

    /// Bytes that a task's buffers hold, or are about to.
    pub fn held(&self, key: TaskKey) -> u64 {
        self.sum(key, &[Place::Present, Place::Coming, Place::Asked])
    }

    /// Bytes allocated for a task, unless they were given back.
    pub fn live(&self, key: TaskKey) -> u64 {
        self.held(key) + self.sum(key, &[Place::Awaited, Place::Away])
    }

    /// The most bytes that a bound task can hold from now on, as the daemon must hold unless it was asked for less.
    pub fn needed(&self, key: TaskKey) -> u64 {
        let promised = self.frames.iter().filter(|frame| frame.key == key).map(Frame::promise);
        self.held(key) + self.sum(key, &[Place::Awaited]) + promised.sum::<u64>()
    }

    /// True if nothing is left of a task.
    pub fn is_over(&self, key: TaskKey) -> bool {
        let has_site = self.frames.iter().any(|frame| frame.key == key && frame.is_open);
        !has_site && self.live(key) == 0
    }
}
