//! Decides how an allocation is made: by name, managed, mapped, plain, or not at all.
//!
//! Trap: pass the task's standing *after* the answer to the request that the allocation needed. An extension may be
//! granted over-subscribed; memory allocated with it must be managed, and an earlier standing would make it plain.

/// A task's state at the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Refused,
    /// The device is not known yet; the task requests one at its first use of a device.
    Deferred,
    /// The device is not known yet.
    Unbound,
    Bound {
        /// Allocations must be managed, since the task may have less memory than it needs.
        managed: bool,
        /// The policy wants the memory of dead buffers returned.
        releases: bool,
    },
}

/// Kind of memory that a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An address, from `cudaMalloc` and its like.
    Linear,
    /// An address allocated in stream order, or from a pool.
    OnStream,
    /// Memory that can be neither managed nor mapped: an array, a node of a graph.
    Fixed,
}

/// Facts that decide how an allocation is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub standing: Standing,
    pub form: Form,
    pub bytes: u64,
    /// A static site makes the allocation.
    pub has_site: bool,
    /// The task's memory comes with the calls that name it, provided some device could hold all of it.
    pub by_name: bool,
    /// A graph is being recorded.
    pub is_captured: bool,
    /// Granularity of mappings on the task's device, in bytes; where the device is not known, one that holds for
    /// every device. `None`: nothing can be mapped there.
    pub piece: Option<u64>,
    /// Bytes that the task's mapped memory takes beyond what the program asked for.
    pub wasted: u64,
}

/// How an allocation is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The call fails with an out-of-memory error.
    Refused,
    /// Reserves this many bytes of addresses; memory comes with the first call that names them.
    ByName { reserved: u64 },
    /// Unified Memory.
    Managed,
    /// Reserves this many bytes of addresses and maps device memory to them that can be freed before they are; plain
    /// if that fails.
    Mapped { reserved: u64 },
    /// Device memory as the runtime allocates it; managed if the device has no room.
    Plain,
}

/// Mapped memory comes in whole multiples of the device's granularity. An allocation of which this would waste more
/// than one part in this number is not mapped, since no ledger counts the waste (specification S-310).
const MAP_WASTE_SHARE: u64 = 50;

/// Pieces of the device's granularity that a task's allocations by name may waste together (specification S-310).
const WASTED_PIECES_MAX: u64 = 32;

impl Way {
    pub fn choose(case: &Case) -> Way {
        if case.standing == Standing::Refused {
            return Way::Refused;
        }
        if let Some(reserved) = case.reserved_by_name() {
            return Way::ByName { reserved };
        }
        match case.standing {
            _ if case.form == Form::Fixed => Way::Plain,
            Standing::Refused | Standing::Deferred | Standing::Unbound => Way::Managed,
            // Allocations that a graph records are not changed.
            Standing::Bound { .. } if case.is_captured => Way::Plain,
            Standing::Bound { managed: true, .. } => Way::Managed,
            Standing::Bound { managed: false, releases } => {
                let reserved = case.reserved_to_map().filter(|_| releases);
                reserved.map_or(Way::Plain, |reserved| Way::Mapped { reserved })
            }
        }
    }
}

impl Case {
    /// The size rounded up to whole pieces, and the piece; `None` if the shim may not choose the addresses.
    fn rounded(&self) -> Option<(u64, u64)> {
        let piece = self.piece.filter(|_| self.has_site && !self.is_captured && self.form == Form::Linear)?;
        Some((self.bytes.checked_next_multiple_of(piece)?, piece))
    }

    fn reserved_by_name(&self) -> Option<u64> {
        let can_wait = matches!(self.standing, Standing::Deferred | Standing::Bound { managed: false, .. });
        let (rounded, piece) = self.rounded().filter(|_| self.by_name && can_wait)?;
        let wasted = self.wasted.saturating_add(rounded - self.bytes);
        (wasted <= WASTED_PIECES_MAX.saturating_mul(piece)).then_some(rounded)
    }

    fn reserved_to_map(&self) -> Option<u64> {
        let (rounded, _) = self.rounded()?;
        (rounded - self.bytes <= self.bytes / MAP_WASTE_SHARE).then_some(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDINGS: [Standing; 7] = [
        Standing::Refused,
        Standing::Deferred,
        Standing::Unbound,
        Standing::Bound { managed: false, releases: false },
        Standing::Bound { managed: false, releases: true },
        Standing::Bound { managed: true, releases: false },
        Standing::Bound { managed: true, releases: true },
    ];

    fn case(standing: Standing) -> Case {
        Case {
            standing,
            form: Form::Linear,
            bytes: 1000,
            has_site: true,
            by_name: false,
            is_captured: false,
            piece: Some(16),
            wasted: 0,
        }
    }

    fn ways(change: impl Fn(&mut Case)) -> [Way; 7] {
        STANDINGS.map(|standing| {
            let mut case = case(standing);
            change(&mut case);
            Way::choose(&case)
        })
    }

    /// Each row: the special case, and the ways in the order of [`STANDINGS`].
    #[test]
    fn every_allocation_goes_the_way_of_the_table() {
        use Way::{Managed, Plain, Refused};
        let (mapped, named) = (Way::Mapped { reserved: 1008 }, Way::ByName { reserved: 1008 });
        type Change = fn(&mut Case);
        let table: [(&str, Change, [Way; 7]); 9] = [
            ("of a site", |_| {}, [Refused, Managed, Managed, Plain, mapped, Managed, Managed]),
            (
                "of no site",
                |c| c.has_site = false,
                [Refused, Managed, Managed, Plain, Plain, Managed, Managed],
            ),
            ("by name", |c| c.by_name = true, [Refused, named, Managed, named, named, Managed, Managed]),
            (
                "by name, much wasted",
                |c| (c.by_name, c.wasted) = (true, 32 * 16 - 7),
                [Refused, Managed, Managed, Plain, mapped, Managed, Managed],
            ),
            (
                "by name, in a stream's order",
                |c| (c.by_name, c.form) = (true, Form::OnStream),
                [Refused, Managed, Managed, Plain, Plain, Managed, Managed],
            ),
            (
                "by name, recorded",
                |c| (c.by_name, c.is_captured) = (true, true),
                [Refused, Managed, Managed, Plain, Plain, Plain, Plain],
            ),
            ("fixed", |c| c.form = Form::Fixed, [Refused, Plain, Plain, Plain, Plain, Plain, Plain]),
            (
                "a device that maps nothing",
                |c| (c.by_name, c.piece) = (true, None),
                [Refused, Managed, Managed, Plain, Plain, Managed, Managed],
            ),
            ("a small one", |c| c.bytes = 100, [Refused, Managed, Managed, Plain, Plain, Managed, Managed]),
        ];
        for (what, change, expected) in table {
            assert_eq!(ways(change), expected, "{what}");
        }
    }

    #[test]
    fn nothing_beyond_a_grant_is_plain_unless_it_cannot_be_managed() {
        for form in [Form::Linear, Form::OnStream] {
            for number in 0..64 {
                let is = |bit: u32| number >> bit & 1 == 1;
                let way = Way::choose(&Case {
                    standing: Standing::Bound { managed: true, releases: is(0) },
                    form,
                    bytes: if is(1) { 1000 } else { 1 },
                    has_site: is(2),
                    by_name: is(3),
                    is_captured: false,
                    piece: is(4).then_some(16),
                    wasted: if is(5) { u64::MAX } else { 0 },
                });
                assert_eq!(way, Way::Managed);
            }
        }
    }
}
