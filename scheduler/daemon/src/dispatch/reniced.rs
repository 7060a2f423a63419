//! Nice values of clients' processes, as the kernel has them: policies that share a device's time weigh tasks by them.
//!
//! Read at connection and again with each observation of the devices, so `renice` has its usual effect and its usual
//! rules. Never believed from the program itself.

use crate::clients::identity;
use crate::dispatch::Dispatch;
use eager_core::event::Event;
use eager_units::ClientId;

impl Dispatch {
    /// Reports clients whose nice value is another one than before, where the policy looks at it.
    pub fn look_for_reniced(&mut self) {
        if !self.core.scheduler.traits().shares_time() {
            return;
        }
        let known = &self.core.scheduler.state().clients;
        let reniced: Vec<(ClientId, i8)> = self
            .clients
            .iter()
            .map(|(id, client)| (*id, identity::nice(client.peer.pid)))
            .filter(|(id, nice)| known.get(id).is_some_and(|client| client.nice != *nice))
            .collect();
        for (client, nice) in reniced {
            self.step(Event::Reniced { client, nice }, None);
        }
    }
}
