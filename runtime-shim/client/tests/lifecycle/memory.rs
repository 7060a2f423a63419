//! What the program's threads do with memory. Memory is made, brought and handed over in two entries: other threads go
//! on while the daemon is asked.

use crate::books::{Buffer, Place};
use crate::program::{Doing, Fault, Program, Then};
use eager_client::ledger::{Backing, BufferId, Origin};
use eager_client::task::{Phase, TaskKey};
use eager_client::way::{Form, Way};
use eager_client::{Allocating, AllocationAsked, Coming, Counted, Dead, Step, Wanted};
use rand::RngExt;
use rand::seq::IndexedRandom;

impl Program {
    fn any(&mut self, wanted: impl Fn(&Buffer) -> bool) -> Option<Buffer> {
        let made = self.books.buffers.iter().filter(|buffer| buffer.made.is_some() && wanted(buffer));
        let made = made.filter(|buffer| buffer.place != Place::Coming);
        made.copied().collect::<Vec<_>>().choose(&mut self.rng).copied()
    }

    fn is_bound(&self, key: TaskKey) -> bool {
        self.books.bound.contains(&key)
    }

    pub fn allocate(&mut self, thread: usize, bytes: u64, form: Form) -> Doing {
        let sites = &mut self.threads[thread].sites;
        let wanted = Wanted { bytes, form, is_captured: false };
        let frame = self.client.innermost(sites).map(|open| open.frame);
        match self.client.allocate(sites, wanted) {
            Allocating::Refused => Doing::Nothing,
            Allocating::Needs(key) => Doing::Needs(key, Then::Allocate(bytes, form)),
            Allocating::Asks(key, frame) => {
                let cell = self.cell(key);
                match self.client.ask_for_allocation(key, frame, wanted, &cell, &mut self.daemon) {
                    Ok(asked) => {
                        let (number, _) = self.books.allocate(key, Some(frame), bytes, Place::Asked);
                        Doing::AllocatesAsked(number, asked)
                    }
                    Err(Step::Decided(decided, _)) => {
                        self.note(key, &decided);
                        Doing::Allocates(bytes, form)
                    }
                    Err(Step::First(first)) => Doing::Needs(first, Then::Allocate(bytes, form)),
                    Err(_) => Doing::Allocates(bytes, form),
                }
            }
            Allocating::Counted(counted) => {
                let place = if counted.by_name.is_some() { Place::Awaited } else { Place::Coming };
                let (number, kept) = self.books.allocate(counted.key, frame, bytes, place);
                Doing::Makes(number, kept, counted)
            }
        }
    }

    pub fn allocate_asked(&mut self, number: u64, asked: AllocationAsked) -> Doing {
        let key = asked.counted.key;
        if !self.client.is_refused(&asked) && self.look(key) {
            return Doing::AllocatesAsked(number, asked);
        }
        if self.client.is_refused(&asked) {
            return Doing::Nothing;
        }
        match self.books.get(number) {
            Some(buffer) => buffer.place = Place::Coming,
            None => self.daemon.wrong = Some(format!("{asked:?} was refused and seems granted")),
        }
        // A refused site had announced nothing.
        Doing::Makes(number, 0, asked.counted)
    }

    pub fn make(&mut self, number: u64, kept: u64, counted: Counted) -> Doing {
        let is_granted = self.extend(counted.key, counted.more);
        if is_granted {
            self.client.granted(&counted);
        }
        let is_made = is_granted && self.rng.random_bool(0.9);
        if !is_made {
            self.books.undo(number, kept);
            if self.fault != Fault::ForgottenUndo {
                let is_told = is_granted && self.fault != Fault::ForgottenGrant;
                self.client.not_made(&counted, is_told, &mut self.daemon);
            }
            self.forget_over();
            let Wanted { bytes, .. } = counted.wanted;
            let again = is_granted && counted.by_name.is_some();
            return if again { Doing::Allocates(bytes, Form::Given) } else { Doing::Nothing };
        }
        let origin = match (counted.by_name, self.client.case(&counted)) {
            (Some(reserved), _) => Origin::Mapped { reserved, backing: Backing::Awaited },
            (None, None) => Origin::REWRITTEN,
            (None, Some((_, case))) => Way::choose(&case, || Some(1)).origin(),
        };
        let id = self.client.ledger.insert(counted.allocation(origin));
        if let Some(buffer) = self.books.get(number) {
            buffer.made = Some((id, origin));
            buffer.place = if counted.by_name.is_some() { Place::Awaited } else { Place::Present };
        }
        Doing::Nothing
    }

    /// A call names a buffer, which must have memory then.
    pub fn use_any(&mut self) -> Doing {
        // One at a time: the user makes memory under a lock that whoever frees it needs.
        if self.is_bringing() {
            return Doing::Nothing;
        }
        let Some(Buffer { number, key, bytes, place, made: Some((id, _)), .. }) = self.any(|_| true) else {
            return Doing::Nothing;
        };
        let is_bound = self.is_bound(key);
        // What is asked for addresses that are not allocated yet serves no memory.
        let asked = self.threads.iter().map(|thread| match thread.doing {
            Doing::Makes(_, _, counted) if counted.key == key && counted.by_name.is_some() => counted.more,
            _ => 0,
        });
        let asked = i128::from(asked.sum::<u64>());
        let is_short = i128::from(self.books.held(key) + bytes) > self.reserved(key) - asked;
        let expected = (is_bound && place == Place::Awaited && is_short).then_some(key);
        if self.client.short_task(id) != expected {
            self.daemon.wrong = Some(format!("short is {expected:?}: {:?}", self.books));
        }
        match self.client.count_coming(id) {
            Some(coming) => {
                if let Some(buffer) = self.books.get(number) {
                    buffer.place = Place::Coming;
                    buffer.frame = buffer.frame.filter(|_| place != Place::Gone);
                }
                Doing::Brings(number, place, coming)
            }
            None => {
                if is_bound && place != Place::Present {
                    self.daemon.wrong = Some(format!("no memory for {number}: {:?}", self.books));
                }
                Doing::Nothing
            }
        }
    }

    fn is_bringing(&self) -> bool {
        self.threads.iter().any(|thread| matches!(thread.doing, Doing::Brings(..)))
    }

    pub fn bring(&mut self, number: u64, before: Place, coming: Coming) -> Doing {
        let is_granted = self.extend(coming.owner, coming.more);
        if is_granted && self.rng.random_bool(0.9) {
            self.client.ledger.set_backing(coming.buffer, Backing::Present);
            if let Some(buffer) = self.books.get(number) {
                buffer.place = Place::Present;
            }
            return Doing::Nothing;
        }
        if self.fault != Fault::ForgottenUndo {
            let is_told = is_granted && self.fault != Fault::ForgottenGrant;
            self.client.uncount_coming(&coming, is_told, &mut self.daemon);
        }
        if let Some(buffer) = self.books.get(number) {
            buffer.place = before;
        }
        self.forget_over();
        Doing::Nothing
    }

    pub fn declare_dead(&mut self) -> Doing {
        let Some(buffer) = self.any(|buffer| !buffer.is_dead) else { return Doing::Nothing };
        let Some((id, _)) = buffer.made else { return Doing::Nothing };
        let dead = self.client.declare_dead(id, &mut self.daemon);
        let is_unused = buffer.place == Place::Awaited;
        if is_unused != matches!(dead, Some(Dead::Unused(_))) {
            self.daemon.wrong = Some(format!("{dead:?} for {buffer:?}"));
        }
        if let Some(entry) = self.books.get(buffer.number) {
            entry.is_dead = true;
            if is_unused {
                entry.place = Place::Gone;
            }
        }
        if is_unused {
            self.books.renew(buffer);
        }
        self.forget_over();
        Doing::Nothing
    }

    /// The device has finished with a dead buffer.
    pub fn give_up(&mut self) -> Doing {
        let Some(buffer) = self.any(|buffer| buffer.is_dead) else { return Doing::Nothing };
        let Some((id, _)) = buffer.made.filter(|_| self.is_bound(buffer.key)) else { return Doing::Nothing };
        self.client.give_up(id, &mut self.daemon);
        if buffer.is_mine() && buffer.place == Place::Present {
            if let Some(entry) = self.books.get(buffer.number) {
                entry.place = Place::Gone;
            }
            self.books.renew(buffer);
        }
        self.forget_over();
        Doing::Nothing
    }

    /// A buffer outside sites is believed dead, and the device has finished with it.
    pub fn send_away(&mut self) -> Doing {
        let Some(buffer) = self.any(|buffer| buffer.frame.is_none()) else { return Doing::Nothing };
        let Some((id, _)) = buffer.made.filter(|_| self.is_bound(buffer.key)) else { return Doing::Nothing };
        self.client.send_away(id, &mut self.daemon);
        if buffer.is_managed()
            && buffer.place == Place::Present
            && let Some(entry) = self.books.get(buffer.number)
        {
            entry.place = Place::Away;
        }
        self.forget_over();
        Doing::Nothing
    }

    /// A kernel of the thread's task uses memory of the lazy task, which is not bound.
    pub fn take_over(&mut self, thread: usize) -> Doing {
        let task = self.client.innermost_task(&self.threads[thread].sites);
        let Some(to) = task.filter(|task| task.phase == Phase::Bound).map(|task| task.key) else {
            return Doing::Nothing;
        };
        let lazy = self.client.lazy_task().filter(|task| task.phase == Phase::Unbound).map(|task| task.key);
        let Some(buffer) = self.any(|buffer| Some(buffer.key) == lazy && lazy != Some(to)) else {
            return Doing::Nothing;
        };
        let Buffer { number, bytes, .. } = buffer;
        let Some((id, _)) = buffer.made.filter(|_| self.extend(to, bytes)) else { return Doing::Nothing };
        Doing::HandsOver(number, id, to, bytes)
    }

    pub fn hand_over(&mut self, number: u64, id: BufferId, to: TaskKey, bytes: u64) -> Doing {
        let (_, is_moved) = self.client.hand_over(id, bytes, to, &mut self.daemon);
        if is_moved && let Some(buffer) = self.books.get(number) {
            (buffer.key, buffer.frame) = (to, None);
        }
        self.forget_over();
        Doing::Nothing
    }

    pub fn free(&mut self) -> Doing {
        if self.is_bringing() {
            return Doing::Nothing;
        }
        let Some(buffer) = self.any(|_| true) else { return Doing::Nothing };
        let removed = buffer.made.and_then(|(id, _)| self.client.ledger.remove(id));
        let Some(removed) = removed else { return Doing::Nothing };
        self.books.remove(buffer.number);
        if !matches!(buffer.place, Place::Gone | Place::Away) {
            self.books.renew(buffer);
        }
        for _ in 0..if self.fault == Fault::FreedTwice { 2 } else { 1 } {
            self.client.freed(&removed.allocation(), &mut self.daemon);
        }
        self.forget_over();
        Doing::Nothing
    }
}
