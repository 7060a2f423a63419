//! Processes that a reservation's process has started: their memory is the reservation's.
//!
//! `eager run --mem` reserves for a process, and that process is often a shell or a launcher of ranks: its children use
//! the memory and never connect. Counted as programs that Eager does not schedule, their memory would be missing on the
//! device a second time, beside the grant.
//!
//! Trap: a child whose parent has ended has init for its parent, and nothing shows any more where it came from. So what
//! was found once is remembered for as long as the same process lives.

use crate::clients::identity::{self, Origin};
use crate::devices::usage::ProcessUse;
use crate::dispatch::Dispatch;
use eager_units::{Bytes, ClientId};
use std::collections::{BTreeMap, BTreeSet};

/// Ancestors that are looked at (specification S-726): enough for shells in launchers in containers, and an end where
/// process ids are reused meanwhile.
const ANCESTORS_MAX: usize = 64;

/// Children of reservations that were found so far, by process id, with the time of their start.
#[derive(Debug, Default)]
pub struct Families {
    known: BTreeMap<i32, (u64, ClientId)>,
}

impl Families {
    /// Returns the reservation that each of these processes belongs to, if any. `origin` tells when a process started, and
    /// its parent.
    fn find(
        &mut self,
        pids: &BTreeSet<i32>,
        reservations: &BTreeMap<i32, ClientId>,
        origin: impl Fn(i32) -> Option<Origin>,
    ) -> BTreeMap<i32, ClientId> {
        let held: BTreeSet<ClientId> = reservations.values().copied().collect();
        self.known.retain(|pid, (_, client)| pids.contains(pid) && held.contains(client));
        if held.is_empty() {
            return BTreeMap::new();
        }
        for &pid in pids {
            let Some(own) = origin(pid) else { continue };
            if self.known.get(&pid).is_some_and(|(started, _)| *started == own.started) {
                continue;
            }
            self.known.remove(&pid);
            let ancestors = std::iter::successors(Some(own), |process| origin(process.parent));
            let mut parents = ancestors.map(|process| process.parent).take(ANCESTORS_MAX);
            if let Some(client) = parents.find_map(|parent| reservations.get(&parent)) {
                self.known.insert(pid, (own.started, *client));
            }
        }
        self.known.iter().map(|(pid, (_, client))| (*pid, *client)).collect()
    }
}

impl Dispatch {
    /// Returns the client that each process's memory belongs to: its own, or that of the reservation which an ancestor of
    /// it holds.
    pub fn owners(&mut self, uses: &[ProcessUse]) -> BTreeMap<i32, ClientId> {
        let mut owners: BTreeMap<i32, ClientId> =
            self.clients.iter().map(|(id, client)| (client.peer.pid, *id)).collect();
        let reservations = self.reservations();
        let others = uses.iter().map(|used| used.pid).filter(|pid| !owners.contains_key(pid)).collect();
        owners.extend(self.truth.families.find(&others, &reservations, identity::origin));
        owners
    }

    /// Clients whose processes hold reserved memory, by process id. A process that only waited for its device, as some
    /// policies ask, holds none: its children's memory is not in any grant.
    fn reservations(&self) -> BTreeMap<i32, ClientId> {
        let state = self.core.scheduler.state();
        let holds_memory = |id: &ClientId| {
            let tasks = state.clients.get(id).into_iter().flat_map(|client| &client.tasks);
            let mut grants = tasks.filter_map(|task| Some(state.tasks.get(task)?.bound()?.grant));
            grants.any(|grant| grant > Bytes::ZERO)
        };
        let held = self.clients.iter().filter(|(id, client)| client.is_held_by_process && holds_memory(id));
        held.map(|(id, client)| (client.peer.pid, *id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of processes: id, parent, start.
    fn origin_in(table: &[(i32, i32, u64)]) -> impl Fn(i32) -> Option<Origin> {
        let table: BTreeMap<i32, Origin> =
            table.iter().map(|&(pid, parent, started)| (pid, Origin { started, parent })).collect();
        move |pid| table.get(&pid).copied()
    }

    fn find(families: &mut Families, pids: &[i32], table: &[(i32, i32, u64)]) -> Vec<(i32, u64)> {
        let reservations = BTreeMap::from([(10, ClientId(1)), (20, ClientId(2))]);
        let found = families.find(&pids.iter().copied().collect(), &reservations, origin_in(table));
        found.into_iter().map(|(pid, client)| (pid, client.0)).collect()
    }

    #[test]
    fn a_process_belongs_to_its_nearest_ancestor_with_a_reservation() {
        let table = [(30, 20, 5), (20, 10, 4), (10, 1, 3), (31, 11, 5), (11, 10, 4), (40, 1, 2)];
        assert_eq!(find(&mut Families::default(), &[30, 31, 40, 99], &table), [(30, 2), (31, 1)]);
    }

    #[test]
    fn a_child_that_lost_its_parent_stays_until_it_ends_or_the_reservation_does() {
        let mut families = Families::default();
        assert_eq!(find(&mut families, &[30], &[(30, 11, 5), (11, 10, 4)]), [(30, 1)]);
        assert_eq!(find(&mut families, &[30], &[(30, 1, 5)]), [(30, 1)]);
        assert_eq!(find(&mut families, &[30], &[(30, 1, 6)]), [], "another process of that id");
        assert_eq!(find(&mut families, &[30], &[(30, 11, 5), (11, 10, 4)]), [(30, 1)]);
        assert!(families.find(&BTreeSet::from([30]), &BTreeMap::new(), |_| None).is_empty());
        assert_eq!(find(&mut families, &[30], &[(30, 1, 5)]), []);
    }

    #[test]
    fn parents_in_a_circle_end_the_search() {
        assert_eq!(find(&mut Families::default(), &[30], &[(30, 31, 5), (31, 30, 4)]), []);
    }
}
