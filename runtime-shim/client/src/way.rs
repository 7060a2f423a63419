//! Decides how the memory of an allocation is made: managed, mapped or plain; and whether it comes later, with the
//! calls that name it.

/// Kind of memory that a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// At an address that the shim may choose: `cudaMalloc` and its like.
    Linear,
    /// At an address that the runtime chooses: allocated in stream order, from a pool, or as managed memory.
    Given,
    /// Memory that can be neither managed nor mapped: an array, a node of a graph.
    Fixed,
}

/// Memory that comes with the calls that name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByName {
    /// Granularity of mappings, in bytes, that holds for every device, as the task's is not known yet.
    pub piece: u64,
    /// The most bytes that a task can ever get, beside what each request includes.
    pub room: u64,
}

/// Facts that decide how the memory of an allocation of a bound task is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// The task's allocations must be managed, since it may have less memory than it needs.
    pub managed: bool,
    /// The policy wants the memory of dead buffers returned.
    pub releases: bool,
    pub form: Form,
    pub bytes: u64,
    /// A static site makes the allocation.
    pub has_site: bool,
    /// A graph is being recorded.
    pub is_captured: bool,
}

/// How memory is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
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
    /// `piece`: the granularity of mappings on the task's device, in bytes; `None`: nothing can be mapped there. Called
    /// only if it matters.
    pub fn choose(case: &Case, piece: impl FnOnce() -> Option<u64>) -> Way {
        let Case { managed, releases, form, bytes, has_site, is_captured } = *case;
        // Allocations that a graph records are not changed.
        if form == Form::Fixed || is_captured {
            return Way::Plain;
        }
        if managed {
            return Way::Managed;
        }
        let piece = if releases && has_site && form == Form::Linear { piece() } else { None };
        let reserved = piece.and_then(|piece| bytes.checked_next_multiple_of(piece));
        let mapped = reserved.filter(|reserved| reserved - bytes <= bytes / MAP_WASTE_SHARE);
        mapped.map_or(Way::Plain, |reserved| Way::Mapped { reserved })
    }
}

impl ByName {
    /// Bytes of addresses to reserve for an allocation. `None`: with the `wasted` bytes, its task's mapped memory would
    /// take too much beyond what the program asked for.
    pub(crate) fn reserved(&self, bytes: u64, wasted: u64) -> Option<u64> {
        let reserved = bytes.checked_next_multiple_of(self.piece)?;
        let wasted = wasted.saturating_add(reserved - bytes);
        (wasted <= WASTED_PIECES_MAX.saturating_mul(self.piece)).then_some(reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

    fn case((managed, releases): (bool, bool)) -> Case {
        Case { managed, releases, form: Form::Linear, bytes: 1000, has_site: true, is_captured: false }
    }

    /// Each row: the special case, and the ways in the order of [`TERMS`].
    #[test]
    fn every_allocation_goes_the_way_of_the_table() {
        use Way::{Managed, Plain};
        let mapped = Way::Mapped { reserved: 1008 };
        type Change = fn(&mut Case);
        let table: [(&str, Change, [Way; 4]); 6] = [
            ("of a site", |_| {}, [Plain, mapped, Managed, Managed]),
            ("of no site", |c| c.has_site = false, [Plain, Plain, Managed, Managed]),
            ("in a stream's order", |c| c.form = Form::Given, [Plain, Plain, Managed, Managed]),
            ("recorded", |c| c.is_captured = true, [Plain; 4]),
            ("fixed", |c| c.form = Form::Fixed, [Plain; 4]),
            ("a small one", |c| c.bytes = 100, [Plain, Plain, Managed, Managed]),
        ];
        for (what, change, expected) in table {
            let ways = TERMS.map(|terms| {
                let mut case = case(terms);
                change(&mut case);
                Way::choose(&case, || Some(16))
            });
            assert_eq!(ways, expected, "{what}");
        }
        assert_eq!(TERMS.map(|terms| Way::choose(&case(terms), || None)), [Plain, Plain, Managed, Managed]);
    }

    #[test]
    fn nothing_beyond_a_grant_is_plain_unless_it_cannot_be_managed() {
        for form in [Form::Linear, Form::Given] {
            for number in 0..16 {
                let is = |bit: u32| number >> bit & 1 == 1;
                let bytes = if is(1) { 1000 } else { 1 };
                let case = Case { form, bytes, has_site: is(2), ..case((true, is(0))) };
                assert_eq!(Way::choose(&case, || is(3).then_some(16)), Way::Managed);
            }
        }
    }

    #[test]
    fn a_task_by_name_wastes_at_most_so_many_pieces() {
        let by_name = ByName { piece: 16, room: 0 };
        assert_eq!(by_name.reserved(1000, 32 * 16 - 8), Some(1008));
        assert_eq!(by_name.reserved(1000, 32 * 16 - 7), None);
        assert_eq!(by_name.reserved(u64::MAX, 0), None);
    }
}
