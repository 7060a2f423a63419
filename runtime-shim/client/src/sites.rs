//! The sites that one thread has begun and not ended.
//!
//! Trap: an entry whose task or frame is gone (ended by another thread, or with a site around it) is stale. Ask
//! [`crate::Client::is_open`] before using one.

use crate::account::{Announced, FrameId, Requirement};
use crate::task::{Geometry, TaskKey};
use crate::way::ByName;

/// A site that a thread has begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSite {
    pub site: u64,
    pub key: TaskKey,
    /// The frame whose promise the site's allocations take from.
    pub frame: FrameId,
    /// Announced with the site around it: the frame is the outer site's, and the end of this site changes nothing.
    pub covered: bool,
}

/// Tasks of one thread.
#[derive(Debug, Clone, Default)]
pub struct Sites {
    /// Open sites, innermost last.
    pub open: Vec<OpenSite>,
    /// The lazy task, if this thread has used it.
    pub lazy: Option<TaskKey>,
}

impl Sites {
    pub(crate) fn push(&mut self, site: u64, key: TaskKey, frame: FrameId) {
        self.open.push(OpenSite { site, key, frame, covered: false });
    }

    /// Removes the sites that end: `ending`, and sites begun after it in functions that it called and that have
    /// returned without an end (by `longjmp`). Sites of the same function may overlap and have ends of their own.
    /// Returns the sites whose frames must be closed.
    pub(crate) fn take_ended(
        &mut self,
        ending: OpenSite,
        is_same_function: impl Fn(u64, u64) -> bool,
    ) -> Vec<OpenSite> {
        let Some(position) = self.open.iter().rposition(|open| *open == ending) else {
            return vec![ending];
        };
        let later = self.open.split_off(position + 1);
        self.open.truncate(position);
        let (kept, ended): (Vec<_>, Vec<_>) =
            later.into_iter().partition(|open| is_same_function(open.site, ending.site));
        self.open.extend(kept);
        [ending].into_iter().chain(ended).filter(|open| !open.covered).collect()
    }
}

/// A site that begins.
#[derive(Debug, Clone, Copy)]
pub struct Beginning {
    pub site: u64,
    pub requirement: Requirement,
    pub geometry: Geometry,
    /// The site may allocate again what it frees (`TASK_REUSES` of the pass).
    pub reuses: bool,
    /// Set if each use of the task's memory is a call that names it (`TASK_NAMED` of the pass), its devices can map
    /// memory, and it is known how much a task can get.
    pub by_name: Option<ByName>,
}

impl Beginning {
    pub fn announced(&self) -> Announced {
        Announced { site: self.site, bytes: self.requirement.bytes, reuses: self.reuses }
    }

    /// How the task's memory comes by name; `None`: it cannot, or no device could hold this much.
    pub(crate) fn by_name_with(&self, bytes: u64) -> Option<ByName> {
        self.by_name.filter(|by_name| bytes <= by_name.room)
    }
}

/// What the thread of a site that begins does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// Nothing. The site is open.
    Open,
    /// The daemon is asked for the site's task: wait until it has decided, then call [`crate::Client::open`].
    Asked(TaskKey),
    /// Ask for the site's bytes as an extension of this task, then call [`crate::Client::open_inside`].
    Extends(TaskKey),
    /// Wait for the device of this task, then begin again.
    Waits(TaskKey),
    /// Wait until the daemon has answered this request in this slot, then begin again.
    Unanswered(crate::task::Slot, u32),
    /// The site counts as not announced, since all slots are in use.
    Full,
}
