//! Decides which buffers are believed dead, from what earlier runs of the program did with the buffers of the same
//! allocation sites. The file of what was learnt is kept by the shim.
//!
//! A buffer is believed dead after as many uses (launches, copies and fills that name it) as it had in each of the
//! last runs. Trap: a belief is a guess, and a wrong one must cost time only. It may be applied only to memory whose
//! contents can be moved away and return at any access, whether the shim sees the access or not.

use crate::ledger::BufferId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of successive runs that must agree before a buffer is believed dead (specification S-311).
const RUNS_MIN: u32 = 2;
/// Most allocation sites kept of a program; its later allocations are not watched.
const SITES_MAX: u32 = 4096;

/// Record of earlier runs about the buffers of an allocation site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learnt {
    /// Launches, copies and fills that named the buffer in the last run.
    pub uses: u64,
    /// Number of successive runs that had this many uses.
    pub runs: u32,
}

/// Records by allocation site: the index, from 0, of the allocation among those of lazy tasks, in program order.
pub type Sites = BTreeMap<u32, Learnt>;

#[derive(Debug, Clone, Copy)]
struct Watched {
    site: u32,
    uses: u64,
}

/// Where beliefs come from.
#[derive(Debug)]
enum Source {
    Runs(Sites),
    /// For tests: any buffer may die after any use, at random.
    Chance(u64),
}

/// The buffers of this run, with their uses and the beliefs about them.
#[derive(Debug)]
pub struct Beliefs {
    source: Source,
    live: BTreeMap<BufferId, Watched>,
    /// Uses in this run by site, of all sites so far.
    seen: BTreeMap<u32, u64>,
}

impl Beliefs {
    pub fn of_runs(sites: Sites) -> Beliefs {
        Beliefs::new(Source::Runs(sites))
    }

    pub fn by_chance(seed: u64) -> Beliefs {
        // Xorshift must not start at 0.
        Beliefs::new(Source::Chance(seed | 1))
    }

    fn new(source: Source) -> Beliefs {
        Beliefs { source, live: BTreeMap::new(), seen: BTreeMap::new() }
    }

    /// True if there is a buffer whose uses must be counted.
    pub fn is_watching(&self) -> bool {
        !self.live.is_empty()
    }

    /// Records the buffer of the next allocation site.
    pub fn allocated(&mut self, buffer: BufferId) {
        let Some(site) = u32::try_from(self.seen.len()).ok().filter(|&site| site < SITES_MAX) else { return };
        self.seen.insert(site, 0);
        self.live.insert(buffer, Watched { site, uses: 0 });
    }

    /// Counts a use of each of these buffers by one call.
    pub fn used(&mut self, buffers: &[BufferId]) {
        for buffer in buffers {
            if let Some(watched) = self.live.get_mut(buffer) {
                watched.uses = watched.uses.saturating_add(1);
                self.seen.insert(watched.site, watched.uses);
            }
        }
    }

    /// Returns those of these buffers that are believed dead after the use just counted.
    pub fn dead_among(&mut self, buffers: &[BufferId]) -> Vec<BufferId> {
        let mut dead = Vec::new();
        for &buffer in buffers {
            let Some(watched) = self.live.get(&buffer) else { continue };
            let is_dead = match &mut self.source {
                Source::Runs(sites) => sites
                    .get(&watched.site)
                    .is_some_and(|learnt| learnt.runs >= RUNS_MIN && learnt.uses == watched.uses),
                Source::Chance(state) => next(state).is_multiple_of(3),
            };
            if is_dead {
                dead.push(buffer);
            }
        }
        dead
    }

    pub fn freed(&mut self, buffer: BufferId) {
        self.live.remove(&buffer);
    }

    /// Forgets all buffers.
    pub fn all_freed(&mut self) {
        self.live.clear();
    }

    /// Records to keep after this run; `None`: the run teaches nothing, since its beliefs were random.
    pub fn learnt(&self) -> Option<Sites> {
        let Source::Runs(before) = &self.source else { return None };
        let merged = |(site, &uses): (&u32, &u64)| {
            let agreed = before.get(site).filter(|learnt| learnt.uses == uses);
            let runs = agreed.map_or(1, |learnt| learnt.runs.saturating_add(1));
            (*site, Learnt { uses, runs })
        };
        Some(self.seen.iter().map(merged).collect())
    }
}

/// Xorshift (Marsaglia 2003), with the shifts of its 64-bit example.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Allocation, Ledger, Origin};
    use crate::task::TaskKey;
    use eager_proto::request::Slot;

    fn buffers<const N: usize>() -> [BufferId; N] {
        let owner = TaskKey { slot: Slot::FIRST, generation: 1 };
        let mut ledger = Ledger::default();
        [(); N].map(|()| ledger.insert(Allocation::new(1, owner, None, Origin::REWRITTEN)))
    }

    /// Runs a program that uses two buffers this often; returns the records kept afterwards.
    fn run(before: Sites, uses: [u64; 2]) -> Sites {
        let mut beliefs = Beliefs::of_runs(before);
        for (buffer, uses) in buffers::<2>().into_iter().zip(uses) {
            beliefs.allocated(buffer);
            (0..uses).for_each(|_| beliefs.used(&[buffer]));
            beliefs.freed(buffer);
        }
        beliefs.learnt().expect("learnt")
    }

    #[test]
    fn a_buffer_is_believed_dead_after_its_last_use_in_two_runs_that_agree() {
        let once = run(Sites::new(), [3, 1]);
        let twice = run(once.clone(), [3, 2]);
        assert_eq!(twice[&0], Learnt { uses: 3, runs: 2 });
        assert_eq!(twice[&1], Learnt { uses: 2, runs: 1 });
        let both = buffers::<2>();
        for (sites, believed) in [(once, vec![]), (twice, vec![both[0]])] {
            let mut beliefs = Beliefs::of_runs(sites);
            both.into_iter().for_each(|buffer| beliefs.allocated(buffer));
            let mut dead = Vec::new();
            for _ in 0..3 {
                beliefs.used(&both);
                dead.extend(beliefs.dead_among(&both));
            }
            assert_eq!(dead, believed);
        }
    }

    #[test]
    fn a_run_that_does_otherwise_makes_a_belief_go() {
        let sure = run(run(Sites::new(), [3, 1]), [3, 1]);
        assert_eq!(run(sure, [4, 1])[&0], Learnt { uses: 4, runs: 1 });
    }

    #[test]
    fn beliefs_by_chance_are_the_same_for_a_seed_and_are_not_learnt_from() {
        let dead = |seed| {
            let mut beliefs = Beliefs::by_chance(seed);
            let buffer = buffers::<1>();
            beliefs.allocated(buffer[0]);
            let found: Vec<usize> = (0..50)
                .map(|_| {
                    beliefs.used(&buffer);
                    beliefs.dead_among(&buffer).len()
                })
                .collect();
            assert!(beliefs.learnt().is_none());
            found
        };
        assert_eq!(dead(5), dead(5));
        assert_ne!(dead(5), dead(6));
        assert!(dead(5).contains(&1) && dead(5).contains(&0));
    }
}
