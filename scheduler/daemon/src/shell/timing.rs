//! The daemon's part in a virtual clock: before the clock advances, the daemon takes in everything that was sent to it.
//!
//! Trap: the clock stands still until the daemon has answered, so nothing here may wait, except for a process that is
//! about to end: its memory must be free before time goes on, and its end comes within moments.

use crate::shell::Shell;
use anyhow::Context;
use eager_units::{ClientId, Nanos};
use eager_vgpu_link::{Settle, Settled};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

/// Time within which a process that closed its connection to the virtual GPUs ends, unless it lives on (it called
/// `exec`).
const DEATH_MS_MAX: u16 = 1000;

impl Shell {
    /// Answers the clock's messages.
    pub(crate) fn answer_clock(&mut self) -> anyhow::Result<()> {
        let lost = "the virtual GPU server's clock is gone";
        while let Some(settle) = self.parts.clock.as_mut().and_then(|clock| clock.asked().transpose()) {
            let settled = self.settle(&settle.context(lost)?);
            if let Some(clock) = &mut self.parts.clock {
                clock.settled(settled).context(lost)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, settle: &Settle) -> Settled {
        self.parts.dispatch.core.set_virtual_time(Nanos(settle.now.0));
        let clients: Vec<ClientId> = self.parts.dispatch.clients.keys().copied().collect();
        for client in clients {
            // Without the limits per user, which are in real time.
            let (served, _) = self.parts.dispatch.serve(client, u32::MAX, Nanos(u64::MAX));
            self.served(client, served);
        }
        for pid in &settle.gone {
            self.remove_process(*pid);
        }
        self.tick();
        let changed =
            settle.sleepers.iter().map(|s| self.parts.dispatch.answer_changed(s.pid, s.slot, s.seen));
        let awake = (0..).zip(changed).filter(|(_, changed)| *changed).map(|(index, _)| index).collect();
        let deadline = self.parts.dispatch.core.scheduler.next_deadline();
        Settled { awake, deadline }
    }

    fn remove_process(&mut self, pid: u32) {
        let is_it = |client: &&ClientId| {
            self.parts.dispatch.clients.get(*client).is_some_and(|c| u32::try_from(c.peer.pid) == Ok(pid))
        };
        let found: Vec<ClientId> = self.parts.dispatch.clients.keys().filter(is_it).copied().collect();
        for id in found {
            let Some(client) = self.parts.dispatch.clients.get(&id) else { continue };
            let mut death = [PollFd::new(client.peer.pidfd.as_fd(), PollFlags::POLLIN)];
            // An error only means that the death is seen later.
            if poll(&mut death, PollTimeout::from(DEATH_MS_MAX)).is_ok_and(|ready| ready > 0) {
                self.parts.dispatch.remove_client(id);
            }
        }
    }
}
