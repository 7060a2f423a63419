//! A daemon that takes requests in order, whenever the schedule lets it, and rejects those that make no sense.

use eager_client::cell::{Cell, State};
use eager_client::request::{Outbox, Request};
use eager_client::task::{Slot, lazy_slot};
use eager_proto::TASK_SLOTS;
use eager_proto::reply::REASON_TOO_LARGE;
use eager_units::{Bytes, DeviceId, Terms};
use rand::{Rng, RngExt};

/// The most bytes that a task can get whose memory comes by name.
pub const ROOM: u64 = 300;

/// What was sent in one slot, at the time of sending.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    /// Bytes that the daemon was told to hold.
    pub bytes: u64,
    /// The task is begun and not ended.
    pub is_begun: bool,
    /// Sequence of the last end.
    ended: Option<u32>,
}

#[derive(Debug)]
pub struct Daemon {
    cells: [Cell; TASK_SLOTS],
    queue: Vec<(u32, Slot, Request)>,
    sequence: u32,
    pub sent: [Sent; TASK_SLOTS],
    /// Begins since the last look.
    pub begun: Vec<Slot>,
    pub drops_shrinks: bool,
    pub drops_ends: bool,
    pub wrong: Option<String>,
}

impl Default for Daemon {
    fn default() -> Daemon {
        let cell = Cell { sequence: 0, answered: u32::MAX, reason: 0, state: State::Free };
        Daemon {
            cells: [cell; TASK_SLOTS],
            queue: Vec::new(),
            sequence: 0,
            sent: Default::default(),
            begun: Vec::new(),
            drops_shrinks: false,
            drops_ends: false,
            wrong: None,
        }
    }
}

impl Outbox for Daemon {
    fn send(&mut self, slot: Slot, request: Request) -> u32 {
        self.sequence += 1;
        let (sent, cell) = (&mut self.sent[slot.index()], &self.cells[slot.index()]);
        let is_dropped = match request {
            Request::Begin(begin) => {
                if sent.is_begun || sent.ended.is_some_and(|end| !cell.answers(end)) {
                    self.wrong = Some(format!("a begin after {sent:?} in slot {}", slot.index()));
                }
                self.begun.push(slot);
                *sent = Sent { bytes: begin.bytes, is_begun: true, ended: None };
                false
            }
            Request::Extend(_) if !sent.is_begun => {
                self.wrong = Some(format!("{request:?} of {sent:?} in slot {}", slot.index()));
                true
            }
            Request::Shrink(_) if self.drops_shrinks => true,
            Request::Shrink(bytes) => {
                if bytes > sent.bytes {
                    self.wrong = Some(format!("{request:?} of {sent:?} in slot {}", slot.index()));
                }
                sent.bytes = sent.bytes.saturating_sub(bytes);
                false
            }
            Request::Extend(_)
            | Request::AllLaunched
            | Request::Held(_)
            | Request::Busy
            | Request::Idle
            | Request::Promoted => false,
            Request::End if self.drops_ends => true,
            Request::End => {
                *sent = Sent { ended: Some(self.sequence), ..Sent::default() };
                false
            }
        };
        if !is_dropped {
            self.queue.push((self.sequence, slot, request));
        }
        self.sequence
    }
}

impl Daemon {
    pub fn cell(&self, slot: Slot) -> Cell {
        self.cells[slot.index()]
    }

    pub fn cells(&self) -> [Cell; TASK_SLOTS] {
        self.cells
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.cells.iter().all(|cell| cell.state != State::Waiting)
    }

    /// Exchanges the first two requests of a slot that have not been taken.
    pub fn swap(&mut self) {
        let first = self.queue.first().map(|(_, slot, _)| *slot);
        let second = self.queue.iter().skip(1).position(|(_, slot, _)| Some(*slot) == first);
        if let Some(second) = second {
            let (one, other) = (self.queue[0].2, self.queue[second + 1].2);
            (self.queue[0].2, self.queue[second + 1].2) = (other, one);
        }
    }

    /// Takes one request, or decides on a task that waits.
    pub fn step(&mut self, rng: &mut impl Rng, serves: bool) {
        if let Some(slot) = Slot::all().find(|slot| self.cell(*slot).state == State::Waiting)
            && (serves || rng.random_bool(0.3))
        {
            self.decide(rng, slot, self.sequence, serves);
        } else if !self.queue.is_empty() {
            let (sequence, slot, request) = self.queue.remove(0);
            self.take(rng, sequence, slot, request);
        }
    }

    fn take(&mut self, rng: &mut impl Rng, sequence: u32, slot: Slot, request: Request) {
        let state = self.cell(slot).state;
        let is_bound = matches!(state, State::Bound { .. });
        let is_sensible = match request {
            Request::Begin(begin) => {
                let is_lazy = slot == lazy_slot();
                let can_fit = !begin.flags.whole || begin.bytes <= ROOM;
                state == State::Free && begin.flags.lazy == is_lazy && (begin.site == 0) == is_lazy && can_fit
            }
            Request::Shrink(bytes) => is_bound && bytes > 0,
            Request::AllLaunched => is_bound && slot != lazy_slot(),
            Request::Extend(_) | Request::Held(_) | Request::Busy | Request::Idle | Request::Promoted => {
                is_bound
            }
            Request::End => state != State::Free,
        };
        if !is_sensible {
            self.wrong = Some(format!("{request:?} in slot {} while it is {state:?}", slot.index()));
        }
        match request {
            Request::Begin(_) if rng.random_bool(0.4) => self.show(slot, State::Waiting, None),
            Request::Begin(_) => self.decide(rng, slot, sequence, false),
            Request::End => self.show(slot, State::Free, Some(sequence)),
            Request::Extend(bytes) => self.extend(rng, slot, sequence, bytes),
            _ => self.show(slot, state, Some(sequence)),
        }
    }

    fn decide(&mut self, rng: &mut impl Rng, slot: Slot, sequence: u32, serves: bool) {
        if !serves && rng.random_bool(0.2) {
            self.cells[slot.index()].reason =
                if rng.random() { REASON_TOO_LARGE } else { REASON_TOO_LARGE + 1 };
            return self.show(slot, State::Refused, Some(sequence));
        }
        let grant = Bytes(self.sent[slot.index()].bytes);
        let (managed, releases) = (rng.random_bool(0.2), rng.random());
        let device = DeviceId(rng.random_range(0..2));
        let terms = Terms { grant, managed, releases, ..Terms::none(device) };
        self.show(slot, State::Bound { terms, extend_refused: false }, Some(sequence));
    }

    fn extend(&mut self, rng: &mut impl Rng, slot: Slot, sequence: u32, bytes: u64) {
        let State::Bound { mut terms, .. } = self.cell(slot).state else { return };
        let extend_refused = rng.random_bool(0.2);
        if !extend_refused {
            self.sent[slot.index()].bytes += bytes;
            terms.grant.0 += bytes;
        }
        self.show(slot, State::Bound { terms, extend_refused }, Some(sequence));
    }

    fn show(&mut self, slot: Slot, state: State, answered: Option<u32>) {
        let cell = &mut self.cells[slot.index()];
        cell.state = state;
        cell.answered = answered.unwrap_or(cell.answered);
        cell.sequence += 2;
    }
}
