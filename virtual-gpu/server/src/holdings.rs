//! Memory and work that each user's processes hold of the server, with limits: all users share the server's own memory.
//!
//! Device memory is bounded by the card, but managed memory only by the limits here.

use std::collections::BTreeMap;

use eager_vgpu_link::Refusal;

/// Allocations of one user.
const ALLOCS_MAX: u64 = 1 << 18;
/// Operations of one user that were submitted and have not ended.
const OPEN_MAX: u64 = 1 << 14;
/// Touched ranges that these operations name.
const RANGES_MAX: u64 = 1 << 22;
/// Managed memory of one user, as a multiple of the memory of all devices.
const MANAGED_FACTOR: u64 = 64;

/// A user by uid; `None` for the process that the service runs in.
pub type User = Option<u32>;

/// Sums over one user's processes, or over one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    pub allocs: u64,
    /// Modelled bytes.
    pub managed_bytes: u64,
    pub open: u64,
    pub ranges: u64,
}

impl Held {
    pub fn plus(self, more: Held) -> Held {
        Held {
            allocs: self.allocs.saturating_add(more.allocs),
            managed_bytes: self.managed_bytes.saturating_add(more.managed_bytes),
            open: self.open.saturating_add(more.open),
            ranges: self.ranges.saturating_add(more.ranges),
        }
    }

    pub fn minus(self, less: Held) -> Held {
        Held {
            allocs: self.allocs.saturating_sub(less.allocs),
            managed_bytes: self.managed_bytes.saturating_sub(less.managed_bytes),
            open: self.open.saturating_sub(less.open),
            ranges: self.ranges.saturating_sub(less.ranges),
        }
    }
}

/// Sums of all users.
#[derive(Debug)]
pub struct Holdings {
    managed_bytes_max: u64,
    users: BTreeMap<User, Held>,
}

impl Holdings {
    /// `capacity_bytes`: modelled memory of all devices together.
    pub fn new(capacity_bytes: u64) -> Holdings {
        Holdings { managed_bytes_max: capacity_bytes.saturating_mul(MANAGED_FACTOR), users: BTreeMap::new() }
    }

    /// # Errors
    /// [`Refusal::TooMuch`] with the limit that the user has reached; then nothing is taken.
    pub fn take(&mut self, user: User, more: Held) -> Result<(), Refusal> {
        let after = self.users.get(&user).copied().unwrap_or_default().plus(more);
        let limits = [
            ("allocations", after.allocs, ALLOCS_MAX),
            ("modelled bytes of managed memory", after.managed_bytes, self.managed_bytes_max),
            ("operations under way", after.open, OPEN_MAX),
            ("touched ranges of operations under way", after.ranges, RANGES_MAX),
        ];
        if let Some((what, wanted, most)) = limits.into_iter().find(|(_, wanted, most)| wanted > most) {
            return Err(Refusal::TooMuch(format!("{wanted} {what}; {most} are possible")));
        }
        self.users.insert(user, after);
        Ok(())
    }

    pub fn give_back(&mut self, user: User, less: Held) {
        let Some(held) = self.users.get_mut(&user) else { return };
        *held = held.minus(less);
        if *held == Held::default() {
            self.users.remove(&user);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_at_a_limit_is_refused_and_another_is_not() {
        let mut holdings = Holdings::new(1 << 30);
        let all = Held { managed_bytes: 64 << 30, ..Held::default() };
        holdings.take(Some(1), all).unwrap();
        let more = Held { allocs: 1, managed_bytes: 1, ..Held::default() };
        assert!(matches!(holdings.take(Some(1), more), Err(Refusal::TooMuch(_))));
        holdings.take(Some(2), more).unwrap();
        holdings.give_back(Some(1), all);
        holdings.take(Some(1), more).unwrap();
        holdings.give_back(Some(1), more);
        holdings.give_back(Some(2), more);
        assert!(holdings.is_empty(), "{holdings:?}");
    }

    #[test]
    fn no_sum_overflows() {
        let mut holdings = Holdings::new(u64::MAX);
        let most = Held { allocs: 0, managed_bytes: u64::MAX, open: 0, ranges: 0 };
        holdings.take(None, most).unwrap();
        holdings.take(None, most).unwrap();
        let many = Held { allocs: u64::MAX, ..most };
        assert!(holdings.take(None, many).is_err());
    }
}
