//! Habits of programs by which memory is held only while the device needs it; the scheduler chooses them.
//!
//! The core carries none of them out. Shim and simulator do, and the ledger only sees smaller requests that come later
//! and are given back earlier.

use serde::{Deserialize, Serialize};

/// Habits of a program; each can be switched by itself (specification S-302 to S-306).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Habits {
    /// A buffer that no device operation uses again gives its memory back at once, not at `cudaFree`.
    pub release_dead: bool,
    /// An allocation is only an address; memory is requested at the first use on the device.
    pub late_reservation: bool,
    /// Data that the program copies to the device before it has memory there waits in host memory.
    pub early_copies: bool,
    /// A task asks for the most that its buffers hold at once between their first and last uses, not for their sum.
    pub live_requirement: bool,
    /// Copies from and to pageable memory go through a pinned ring, at the link's rate.
    pub fast_copies: bool,
}

impl Habits {
    /// No habits: memory counts from allocation to free.
    pub const PLAIN: Habits = Habits {
        release_dead: false,
        late_reservation: false,
        early_copies: false,
        live_requirement: false,
        fast_copies: false,
    };
    pub const LIVE: Habits = Habits {
        release_dead: true,
        late_reservation: true,
        early_copies: true,
        live_requirement: true,
        fast_copies: true,
    };

    /// True if memory is mapped behind its address at the first use that names it. Such memory cannot be managed, so a
    /// task that has some runs whole or waits (specification S-320).
    pub fn comes_by_name(self) -> bool {
        self.late_reservation || self.live_requirement
    }

    /// Habits that remain for a program of which the compiler knows nothing: those that the shim has by itself.
    pub fn without_compiler(self) -> Habits {
        Habits { fast_copies: self.fast_copies, ..Habits::PLAIN }
    }
}
