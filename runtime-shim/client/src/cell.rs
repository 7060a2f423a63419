//! What the daemon shows of a task slot, without the layout of its page.
//!
//! Trap: a cell is a state and not an answer. It decides on a request only if it has answered that request; before
//! that it may still show the slot's last task.

use eager_proto::reply::{
    FLAG_EXTEND_REFUSED, STATE_BOUND, STATE_REFUSED, STATE_WAITING, TaskCell, has_reached,
};
use eager_units::{DeviceId, Terms};
use std::ops::Deref;

pub use eager_proto::reply::gate;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State<D = DeviceId> {
    Free,
    Waiting,
    Bound {
        terms: Terms<D>,
        /// The last extension was refused; the task keeps what it had.
        extend_refused: bool,
    },
    Refused,
}

/// A consistent reading of a slot's cell. `D`: the device's number, the daemon's or the program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<D = DeviceId> {
    /// Changes with each change of the cell.
    pub sequence: u32,
    /// Sequence of the last request that was answered.
    pub answered: u32,
    /// Number of the reason for the state.
    pub reason: u32,
    pub state: State<D>,
}

impl From<TaskCell> for Cell {
    fn from(cell: TaskCell) -> Cell {
        let state = match cell.state {
            STATE_WAITING => State::Waiting,
            STATE_REFUSED => State::Refused,
            STATE_BOUND => {
                State::Bound { terms: cell.terms(), extend_refused: cell.flags & FLAG_EXTEND_REFUSED != 0 }
            }
            _ => State::Free,
        };
        let TaskCell { sequence, answered, reason, .. } = cell;
        Cell { sequence, answered, reason, state }
    }
}

/// Decision of the daemon on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<D = DeviceId> {
    Bound(Told<D>),
    /// With the number of the reason.
    Refused(u32),
}

impl<D: Copy> Cell<D> {
    /// The same with another number for the device.
    pub fn on<E>(self, device: impl FnOnce(D) -> E) -> Cell<E> {
        let Cell { sequence, answered, reason, state } = self;
        let state = match state {
            State::Free => State::Free,
            State::Waiting => State::Waiting,
            State::Bound { terms, extend_refused } => {
                State::Bound { terms: terms.on(device(terms.device)), extend_refused }
            }
            State::Refused => State::Refused,
        };
        Cell { sequence, answered, reason, state }
    }

    /// True if the daemon has answered the request with this sequence, or a later one. Sequences wrap.
    pub fn answers(&self, sequence: u32) -> bool {
        has_reached(self.answered, sequence)
    }

    /// True if it shows that a task waits for memory.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    /// True if it shows a task whose kernels must pass the gate.
    pub fn is_gated(&self) -> bool {
        matches!(self.state, State::Bound { terms: Terms { gated: true, .. }, .. })
    }

    /// The terms of a bound task.
    pub fn told(&self) -> Option<Told<D>> {
        let Cell { sequence, reason, .. } = *self;
        match self.state {
            State::Bound { terms, extend_refused } => Some(Told { sequence, reason, extend_refused, terms }),
            State::Free | State::Waiting | State::Refused => None,
        }
    }

    /// The decision on the request with this sequence; `None`: there is none yet, or the task waits.
    pub fn decision(&self, sequence: u32) -> Option<Decision<D>> {
        if !self.answers(sequence) {
            return None;
        }
        match self.state {
            State::Refused => Some(Decision::Refused(self.reason)),
            State::Free | State::Waiting | State::Bound { .. } => self.told().map(Decision::Bound),
        }
    }
}

/// Terms as a cell told them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told<D> {
    /// Sequence of the cell.
    pub sequence: u32,
    /// Number of the reason for these terms.
    pub reason: u32,
    /// The last extension was refused; the task keeps what it had.
    pub extend_refused: bool,
    pub terms: Terms<D>,
}

impl<D> Deref for Told<D> {
    type Target = Terms<D>;

    fn deref(&self) -> &Terms<D> {
        &self.terms
    }
}

impl<D> Told<D> {
    /// True if these terms were read after (or with) the others. Sequences wrap.
    pub fn is_newer_than(&self, other: &Told<D>) -> bool {
        has_reached(self.sequence, other.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_proto::reply::{CLASS_EAGER, FLAG_MANAGED, STATE_FREE};
    use eager_units::{Bytes, Class};
    use zerocopy::FromZeros;

    fn cell(state: u32, answered: u32) -> Cell<DeviceId> {
        let flags = FLAG_MANAGED | FLAG_EXTEND_REFUSED;
        let base = TaskCell {
            sequence: 8,
            class: CLASS_EAGER,
            flags,
            grant: 5,
            device: 3,
            ..TaskCell::new_zeroed()
        };
        TaskCell { state, answered, reason: 7, ..base }.into()
    }

    #[test]
    fn a_decision_belongs_to_the_request_that_was_answered() {
        let refused = Some(Decision::Refused(7));
        assert_eq!((cell(STATE_REFUSED, 4).decision(4), cell(STATE_REFUSED, 4).decision(5)), (refused, None));
        assert_eq!(cell(STATE_REFUSED, 1).decision(u32::MAX), refused, "sequences wrap");
        for state in [STATE_FREE, STATE_WAITING] {
            assert_eq!(cell(state, 4).decision(4), None);
        }
        let Some(Decision::Bound(told)) = cell(STATE_BOUND, 4).decision(4) else { panic!("not bound") };
        assert!(told.extend_refused && told.managed && told.is_eager() && !told.gated);
        assert_eq!(
            (told.device, told.class, told.grant, told.reason),
            (DeviceId(3), Class::Eager, Bytes(5), 7)
        );
        assert_eq!(cell(STATE_BOUND, 4).decision(5), None, "the slot's earlier task");
    }

    #[test]
    fn the_terms_of_the_later_cell_are_newer() {
        let told = |sequence| Told { sequence, ..cell(STATE_BOUND, 1).told().expect("bound") };
        assert!(told(10).is_newer_than(&told(8)) && !told(8).is_newer_than(&told(10)));
        assert!(told(2).is_newer_than(&told(u32::MAX - 1)), "sequences wrap");
    }
}
