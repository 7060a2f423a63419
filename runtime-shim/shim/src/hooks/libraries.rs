//! Handles and plans of NVIDIA's libraries: their memory is measured as the decrease of the device's free memory.
//!
//! Trap: the decrease also includes memory that other programs allocate and free at the same moment. So more than
//! [`LEARNT_BYTES_MAX`] is ignored, and an increase counts as 0.

use crate::ledger::Held;
use crate::outcome::{Outcome, Why};
use crate::runtime::Runtime;
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::state::Thread;
use crate::task::Kind;
use eager_units::shown;

/// No handle or plan of a library takes more than a fraction of this many bytes; a larger difference is another
/// program's (specification S-717).
const LEARNT_BYTES_MAX: u64 = 4 << 30;

/// A handle of a library. Handles of different libraries may have equal numbers, also equal to an array's handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryHandle {
    /// Number of the library, from 1.
    pub library: u8,
    pub handle: u64,
}

impl LibraryHandle {
    /// A key that is unique among handles: the library is in the highest byte, which addresses leave 0.
    fn key(self) -> u64 {
        u64::from(self.library) << 56 | self.handle & (u64::MAX >> 8)
    }
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// A call that makes a handle or plan: `make` returns the library's status and, if that is 0, the handle.
    ///
    /// `refused`: the library's own status for a lack of memory, returned to a program whose task is refused.
    pub fn library_create(
        &self,
        thread: &mut Thread,
        refused: i32,
        make: impl FnOnce() -> (i32, LibraryHandle),
    ) -> Outcome<i32> {
        match self.on_a_device(thread) {
            Outcome::PassThrough(Why::AsItIs) => {}
            Outcome::PassThrough(why) => return Outcome::PassThrough(why),
            Outcome::Handled(()) | Outcome::Fail(_) => return Outcome::Handled(refused),
        }
        let before = self.runtime.free_bytes();
        let (status, handle) = make();
        let after = self.runtime.free_bytes();
        if let (0, Ok(before), Ok(after)) = (status, before, after) {
            self.count_learnt(thread, handle, before.saturating_sub(after));
        }
        Outcome::Handled(status)
    }

    /// A call that destroys a handle or plan; returns the library's status.
    pub fn library_destroy(&self, handle: LibraryHandle, destroy: impl FnOnce() -> i32) -> Outcome<i32> {
        let status = destroy();
        if status == 0 {
            let held = self.state.lock().client.ledger.remove_array(handle.key());
            held.into_iter().for_each(|held| self.uncount(held));
        }
        Outcome::Handled(status)
    }

    /// Counts a handle's memory. It is allocated already, so a refusal only means that it stays uncounted.
    fn count_learnt(&self, thread: &mut Thread, handle: LibraryHandle, bytes: u64) {
        if bytes == 0 || bytes > LEARNT_BYTES_MAX || self.bypass::<()>().is_some() {
            return;
        }
        let (owner, _) = self.state.lock().client.owner_of_new(&thread.sites);
        match self.ask_extension(thread, owner, bytes) {
            Ok(None) => {
                let mut state = self.state.lock();
                let Some(task) = state.client.task_mut(owner) else { return };
                task.account.take(None, bytes);
                if task.kind == Kind::Lazy {
                    thread.sites.lazy = Some(owner);
                }
                state.client.ledger.insert_array(handle.key(), Held { owner, frame: None, bytes });
            }
            Ok(Some(refusal)) => self.reporter.report_once("library", || {
                let size = shown::size(bytes);
                format!("{size} that a library took for a handle are not counted: {refusal}")
            }),
            Err(_) => {}
        }
    }
}
