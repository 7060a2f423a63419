//! The three possible results of a hook; a hook never panics.

use crate::runtime::{CudaError, CudaResult};

/// Result of a hook; the export layer turns it into a CUDA return value.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The shim did what the call asks for.
    Handled(T),
    /// The call goes to the real runtime unchanged.
    PassThrough(Why),
    /// The call fails with this error.
    Fail(CudaError),
}

impl<T> Outcome<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Handled(value) => Outcome::Handled(change(value)),
            Outcome::PassThrough(why) => Outcome::PassThrough(why),
            Outcome::Fail(error) => Outcome::Fail(error),
        }
    }
}

/// Reason why a call goes to the real runtime unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// `EAGER_DISABLE=1`.
    Disabled,
    /// There is no daemon, or none any more.
    NoDaemon,
    /// A child forked after CUDA was used.
    ForkedChild,
    /// The call came from inside the shim or the runtime, or while the thread was ending.
    Reentrant,
    /// The hook panicked.
    Panicked,
    /// The call uses memory or a stream that the shim does not manage.
    NotOurs,
    /// The shim has prepared the call (right device, counted) and changes nothing in it.
    AsItIs,
    /// The call is recorded into a graph.
    Captured,
}

impl Why {
    /// All reasons in the order of their numbers.
    pub const ALL: [Why; 8] = [
        Why::Disabled,
        Why::NoDaemon,
        Why::ForkedChild,
        Why::Reentrant,
        Why::Panicked,
        Why::NotOurs,
        Why::AsItIs,
        Why::Captured,
    ];

    /// Description for people, to follow a number of calls.
    pub fn words(self) -> &'static str {
        match self {
            Why::Disabled => "switched off",
            Why::NoDaemon => "without a daemon",
            Why::ForkedChild => "in a forked child",
            Why::Reentrant => "from inside a call",
            Why::Panicked => "after an internal error",
            Why::NotOurs => "on memory or streams that are not managed",
            Why::AsItIs => "on the task's device",
            Why::Captured => "recorded into a graph",
        }
    }
}

impl<T> From<CudaResult<T>> for Outcome<T> {
    fn from(result: CudaResult<T>) -> Outcome<T> {
        match result {
            Ok(value) => Outcome::Handled(value),
            Err(error) => Outcome::Fail(error),
        }
    }
}
