//! Dead buffers whose memory is freed once the device has finished the work requested before their death.
//!
//! Trap: the device is queried without the lock. Meanwhile the entry stays in the list, marked as taken by the
//! querying thread; a thread that uses or frees the buffer removes the entry, and the querying thread finds that out
//! when it answers. Each event is owned by the thread that got it: a caller that does not destroy the events returned
//! by [`DyingList::remove`] and [`DyingList::answer`] leaks them.

use crate::ledger::BufferId;
use crate::runtime::StreamId;

/// How certain it is that a buffer is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// Proven by the compiler: the contents may be lost.
    Proven,
    /// Expected from earlier runs: the contents move to the host.
    Believed,
}

/// A condition under which work on a device is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// This event has completed.
    Event(usize),
    /// This stream is idle.
    Idle(StreamId),
}

/// A dead buffer about which a thread queries the device.
#[derive(Debug)]
pub struct Taken {
    number: u64,
    pub buffer: BufferId,
    pub certainty: Certainty,
    /// Conditions that must all be met; `None`: not determined yet.
    pub until: Option<Vec<Until>>,
}

/// Result of a query.
#[derive(Debug, PartialEq, Eq)]
pub enum Answered {
    /// The device has not finished.
    Waits,
    /// The buffer's memory may be freed now.
    Over,
    /// The buffer was used or freed meanwhile; holds the conditions that remain, whose events the caller must
    /// destroy.
    Cancelled(Vec<Until>),
}

#[derive(Debug)]
struct Dying {
    number: u64,
    buffer: BufferId,
    certainty: Certainty,
    until: Option<Vec<Until>>,
    /// A thread holds `until` and queries the device.
    is_taken: bool,
}

#[derive(Debug, Default)]
pub struct DyingList {
    entries: Vec<Dying>,
    next: u64,
    /// Launches since the device was last queried.
    launches: u32,
}

impl DyingList {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn push(&mut self, buffer: BufferId, certainty: Certainty) {
        let number = self.next;
        self.next += 1;
        self.entries.push(Dying { number, buffer, certainty, until: None, is_taken: false });
    }

    /// Takes those of the `wanted` buffers, oldest first, that no other thread is querying.
    pub fn take(&mut self, wanted: impl Fn(BufferId) -> bool) -> Vec<Taken> {
        let free = self.entries.iter_mut().filter(|entry| !entry.is_taken && wanted(entry.buffer));
        let taken = free.map(|entry| {
            entry.is_taken = true;
            let Dying { number, buffer, certainty, .. } = *entry;
            Taken { number, buffer, certainty, until: entry.until.take() }
        });
        taken.collect()
    }

    /// The oldest of the `wanted` buffers that no other thread is querying.
    pub fn first(&self, wanted: impl Fn(BufferId) -> bool) -> Option<BufferId> {
        let mut free = self.entries.iter().filter(|entry| !entry.is_taken);
        free.find(|entry| wanted(entry.buffer)).map(|entry| entry.buffer)
    }

    /// Records a query's result: the conditions that are `left`.
    pub fn answer(&mut self, taken: &Taken, left: Vec<Until>) -> Answered {
        let Some(index) = self.entries.iter().position(|entry| entry.number == taken.number) else {
            return Answered::Cancelled(left);
        };
        if left.is_empty() {
            self.entries.remove(index);
            return Answered::Over;
        }
        (self.entries[index].until, self.entries[index].is_taken) = (Some(left), false);
        Answered::Waits
    }

    /// Removes buffers that keep their memory until they are freed. Returns the conditions that no thread holds.
    #[must_use]
    pub fn remove(&mut self, gone: impl Fn(BufferId, Certainty) -> bool) -> Vec<Until> {
        let removed = self.entries.extract_if(.., |entry| gone(entry.buffer, entry.certainty));
        removed.filter_map(|entry| entry.until).flatten().collect()
    }

    /// Forgets all entries and events, when everything on the devices is gone.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Called when a kernel starts: true if the device should be queried now, since the program may make no other
    /// calls.
    pub fn is_due(&mut self, launches_per_look: u32) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        self.launches = (self.launches + 1) % launches_per_look;
        self.launches == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Allocation, Ledger, Origin};
    use crate::task::TaskKey;
    use eager_proto::request::Slot;

    fn buffer() -> BufferId {
        let owner = TaskKey { slot: Slot::FIRST, generation: 1 };
        Ledger::default().insert(Allocation::new(1, owner, None, Origin::Plain))
    }

    #[test]
    fn one_thread_asks_about_a_buffer_and_hears_that_it_was_used_meanwhile() {
        let mut list = DyingList::default();
        list.push(buffer(), Certainty::Proven);
        let taken = list.take(|_| true).remove(0);
        assert!(list.take(|_| true).is_empty(), "another thread has it");
        assert_eq!(list.answer(&taken, vec![Until::Event(1)]), Answered::Waits);
        let taken = list.take(|_| true).remove(0);
        assert_eq!(taken.until, Some(vec![Until::Event(1)]));
        assert_eq!(list.remove(|dying, _| dying == buffer()), [], "its events are with the thread that asks");
        assert_eq!(list.answer(&taken, vec![Until::Event(1)]), Answered::Cancelled(vec![Until::Event(1)]));
        assert!(list.is_empty());
    }

    #[test]
    fn what_nobody_asks_about_is_removed_with_its_events() {
        let mut list = DyingList::default();
        list.push(buffer(), Certainty::Believed);
        let taken = list.take(|_| true).remove(0);
        list.answer(&taken, vec![Until::Event(1), Until::Idle(StreamId(7))]);
        assert_eq!(list.remove(|_, certainty| certainty == Certainty::Proven), []);
        assert_eq!(list.remove(|_, _| true), [Until::Event(1), Until::Idle(StreamId(7))]);
    }
}
