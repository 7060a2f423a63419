//! Dead buffers whose memory goes back when the device has done what it was asked for.
//!
//! Trap: whether the device is done is asked without the lock. Meanwhile an entry stays in the list, taken by the thread
//! that asks; whoever uses or frees its buffer removes the entry, and that thread finds out when it comes back. An event
//! belongs to whoever holds it: what [`DyingList::remove`] and [`DyingList::answer`] return must be destroyed.

use crate::runtime::StreamId;

/// How sure it is that a buffer is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// The compiler has shown it: its contents are lost.
    Proven,
    /// Earlier runs were so: its contents move to the host.
    Believed,
}

/// The end of work on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// This event has happened.
    Event(usize),
    /// This stream has nothing left to do.
    Idle(StreamId),
}

/// A dead buffer that a thread asks the device about.
#[derive(Debug)]
pub struct Taken {
    number: u64,
    pub address: u64,
    pub certainty: Certainty,
    /// When all of this is over; `None`: that was not found out yet.
    pub until: Option<Vec<Until>>,
}

/// What came of asking.
#[derive(Debug, PartialEq, Eq)]
pub enum Answered {
    /// The device is not done.
    Waits,
    /// Its memory may go now.
    Over,
    /// It was used or freed meanwhile, and these are left of it.
    Cancelled(Vec<Until>),
}

#[derive(Debug)]
struct Dying {
    number: u64,
    address: u64,
    certainty: Certainty,
    until: Option<Vec<Until>>,
    /// A thread has `until` and asks.
    is_taken: bool,
}

#[derive(Debug, Default)]
pub struct DyingList {
    entries: Vec<Dying>,
    next: u64,
    /// Launches since the device was last asked.
    launches: u32,
}

impl DyingList {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn push(&mut self, address: u64, certainty: Certainty) {
        let number = self.next;
        self.next += 1;
        self.entries.push(Dying { number, address, certainty, until: None, is_taken: false });
    }

    /// Those of `wanted` buffers, oldest first, that no other thread asks about.
    pub fn take(&mut self, wanted: impl Fn(u64) -> bool) -> Vec<Taken> {
        let free = self.entries.iter_mut().filter(|entry| !entry.is_taken && wanted(entry.address));
        let taken = free.map(|entry| {
            entry.is_taken = true;
            let Dying { number, address, certainty, .. } = *entry;
            Taken { number, address, certainty, until: entry.until.take() }
        });
        taken.collect()
    }

    /// The oldest of `wanted` buffers that no other thread asks about.
    pub fn first(&self, wanted: impl Fn(u64) -> bool) -> Option<u64> {
        let mut free = self.entries.iter().filter(|entry| !entry.is_taken);
        free.find(|entry| wanted(entry.address)).map(|entry| entry.address)
    }

    /// A thread has asked, and this is not over.
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

    /// These buffers keep their memory until they are freed; returns what nobody asks about any more.
    #[must_use]
    pub fn remove(&mut self, gone: impl Fn(u64, Certainty) -> bool) -> Vec<Until> {
        let removed = self.entries.extract_if(.., |entry| gone(entry.address, entry.certainty));
        removed.filter_map(|entry| entry.until).flatten().collect()
    }

    /// Everything on the devices is gone, events too.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// A kernel starts: is it time to ask the device, since the program may come to no other call?
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

    const DEAD: u64 = 0x100;

    #[test]
    fn one_thread_asks_about_a_buffer_and_hears_that_it_was_used_meanwhile() {
        let mut list = DyingList::default();
        list.push(DEAD, Certainty::Proven);
        let taken = list.take(|_| true).remove(0);
        assert!(list.take(|_| true).is_empty(), "another thread has it");
        assert_eq!(list.answer(&taken, vec![Until::Event(1)]), Answered::Waits);
        let taken = list.take(|_| true).remove(0);
        assert_eq!(taken.until, Some(vec![Until::Event(1)]));
        assert_eq!(list.remove(|address, _| address == DEAD), [], "its events are with the thread that asks");
        assert_eq!(list.answer(&taken, vec![Until::Event(1)]), Answered::Cancelled(vec![Until::Event(1)]));
        assert!(list.is_empty());
    }

    #[test]
    fn what_nobody_asks_about_is_removed_with_its_events() {
        let mut list = DyingList::default();
        list.push(DEAD, Certainty::Believed);
        let taken = list.take(|_| true).remove(0);
        list.answer(&taken, vec![Until::Event(1), Until::Idle(StreamId(7))]);
        assert_eq!(list.remove(|_, certainty| certainty == Certainty::Proven), []);
        assert_eq!(list.remove(|_, _| true), [Until::Event(1), Until::Idle(StreamId(7))]);
    }
}
