//! Buffers that the compiler shows to be dead: counted, traced, and watched for uses that must not be.
//!
//! Nothing is given back yet: a dead buffer keeps its memory until it is freed, so that a use after all, which is a fault
//! of the compiler's, still finds its contents. Trap: while there are dead buffers each launch looks at its arguments;
//! without any it costs one load.

use crate::runtime::{Launch, Runtime};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::{stats, trace};
use std::sync::atomic::Ordering;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `eager_buffer_dead`. A pointer that is no allocation's start means nothing.
    pub fn buffer_dead(&self, address: u64) {
        if address == 0 || self.bypass::<()>().is_some() {
            return;
        }
        let mut state = self.state.lock();
        let Some((owner, bytes)) = state.ledger.declare_dead(address) else { return };
        self.any_dead.store(true, Ordering::Relaxed);
        trace::record_dead(owner.slot, bytes);
        stats::count_dead();
    }

    /// Looks whether a launch uses a dead buffer.
    pub(crate) fn watch_launch(&self, launch: &Launch) {
        // Relaxed: whoever uses what it has itself declared dead has seen the store.
        if self.any_dead.load(Ordering::Relaxed) {
            self.watch(&self.arguments(launch), "a kernel");
        }
    }

    /// Looks whether a copy or memset uses a dead buffer.
    pub(crate) fn watch_addresses(&self, addresses: &[u64]) {
        if self.any_dead.load(Ordering::Relaxed) {
            self.watch(addresses, "a copy or memset");
        }
    }

    fn watch(&self, addresses: &[u64], user: &str) {
        let used = self.state.lock().ledger.dead_among(addresses);
        for owner in used {
            trace::record_dead_use(owner.slot);
            stats::count_dead_use();
            self.voice.once("dead", || {
                format!("a buffer that the compiler has shown to be dead was used by {user}: please report it (results are not affected)")
            });
        }
    }
}
