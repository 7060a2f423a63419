//! Draws a device's memory as a bar. Pure.
//!
//! Trap: the bars of all devices must have one scale, so that their capacities end in one column. Memory to the right
//! of it is demanded but does not exist.

use eager_proto::admin::{DeviceRow, TaskRow};

/// Meaning of a cell of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Granted to tasks that have their whole requirement.
    Normal,
    /// Granted to eager tasks.
    Eager,
    /// Reserved for programs' contexts.
    Contexts,
    /// In use, but granted to no task.
    Unaccounted,
    Free,
    /// End of the device; shown only if there is demand beyond it.
    End,
    /// Demanded by eager tasks beyond their grants.
    Over,
    /// No memory.
    Blank,
}

impl Part {
    /// Each symbol differs from the others even without colours.
    pub fn symbol(self) -> char {
        match self {
            Part::Normal => '█',
            Part::Eager => '▒',
            Part::Contexts => '≡',
            Part::Unaccounted => '╳',
            Part::Free => '·',
            Part::End => '│',
            Part::Over => '≈',
            Part::Blank => ' ',
        }
    }
}

/// Memory of one device, by use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub capacity: u64,
    pub granted: u64,
    /// Part of `granted` that eager tasks hold.
    pub eager: u64,
    pub contexts: u64,
    pub unaccounted: u64,
    pub over: u64,
}

impl Memory {
    pub fn of(device: &DeviceRow, tasks: &[TaskRow]) -> Memory {
        let on_it = |row: &&TaskRow| row.device == Some(device.device) && row.class == "eager";
        let eager: u64 = tasks.iter().filter(on_it).map(|row| row.grant_bytes).sum();
        Memory {
            capacity: device.capacity_bytes,
            granted: device.granted_bytes,
            eager: eager.min(device.granted_bytes),
            contexts: device.context_bytes,
            unaccounted: device.unaccounted_bytes,
            over: device.oversubscribed_bytes,
        }
    }

    /// Returns the demand beyond the device, as a part of its capacity.
    pub fn over_ratio(&self) -> f64 {
        if self.capacity == 0 { 0.0 } else { self.over as f64 / self.capacity as f64 }
    }
}

/// Returns a bar of `width` cells in which the device's own memory takes `inside`.
pub fn cells(memory: &Memory, inside: usize, width: usize) -> Vec<Part> {
    // Any part above 0 takes at least one cell, so that it is visible.
    let length = |bytes: u64| {
        let exact = bytes as f64 / memory.capacity.max(1) as f64 * inside as f64;
        if bytes == 0 { 0 } else { (exact.round() as usize).max(1) }
    };
    let mut cells = Vec::with_capacity(width);
    let parts = [
        (Part::Normal, memory.granted - memory.eager.min(memory.granted)),
        (Part::Eager, memory.eager),
        (Part::Contexts, memory.contexts),
        (Part::Unaccounted, memory.unaccounted),
    ];
    for (part, bytes) in parts {
        cells.extend(std::iter::repeat_n(part, length(bytes)));
    }
    cells.truncate(inside);
    cells.resize(inside, Part::Free);
    if width > inside {
        cells.push(if memory.over > 0 { Part::End } else { Part::Blank });
        cells.extend(std::iter::repeat_n(Part::Over, length(memory.over)));
        cells.resize(width, Part::Blank);
    }
    cells
}

/// Returns how many of `width` cells a device's own memory takes, so that the most over-subscribed device still fits.
pub fn inside(memories: &[Memory], width: usize) -> usize {
    let most = memories.iter().map(Memory::over_ratio).fold(0.0, f64::max);
    if most == 0.0 || width < 4 {
        return width;
    }
    // One cell marks the end of the device.
    let exact = (width - 1) as f64 / (1.0 + most);
    (exact.floor() as usize).clamp(width / 3, width - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(granted: u64, eager: u64, unaccounted: u64, over: u64) -> Memory {
        Memory { capacity: 16, granted, eager, contexts: 0, unaccounted, over }
    }

    fn drawn(memory: &Memory, inside: usize, width: usize) -> String {
        cells(memory, inside, width).into_iter().map(Part::symbol).collect()
    }

    #[test]
    fn a_bar_shows_who_has_what() {
        assert_eq!(drawn(&memory(0, 0, 0, 0), 16, 16), "················");
        assert_eq!(drawn(&memory(12, 4, 2, 0), 16, 16), "████████▒▒▒▒╳╳··");
        let with_contexts = Memory { contexts: 1, ..memory(12, 4, 2, 0) };
        assert_eq!(drawn(&with_contexts, 16, 16), "████████▒▒▒▒≡╳╳·");
        assert_eq!(drawn(&memory(16, 4, 0, 5), 16, 22), "████████████▒▒▒▒│≈≈≈≈≈");
        assert_eq!(drawn(&memory(16, 4, 9, 99), 8, 12), "██████▒▒│≈≈≈", "more than there is stays inside");
    }

    #[test]
    fn the_smallest_part_is_seen() {
        let little = Memory { capacity: 1 << 34, granted: 1, eager: 0, contexts: 0, unaccounted: 0, over: 1 };
        assert_eq!(drawn(&little, 8, 12), "█·······│≈  ");
        let nothing = Memory { capacity: 0, granted: 0, eager: 0, contexts: 0, unaccounted: 0, over: 0 };
        assert_eq!(drawn(&nothing, 4, 4), "····");
    }

    #[test]
    fn all_bars_end_in_one_column() {
        let memories = [memory(16, 4, 0, 8), memory(16, 0, 0, 0)];
        let inside = inside(&memories, 25);
        assert_eq!(inside, 16);
        let bars: Vec<String> = memories.iter().map(|memory| drawn(memory, inside, 25)).collect();
        assert_eq!(bars, ["████████████▒▒▒▒│≈≈≈≈≈≈≈≈", "████████████████         "]);
        assert_eq!(super::inside(&memories[1..], 25), 25, "nothing is beyond");
        assert_eq!(super::inside(&[memory(16, 4, 0, 1600)], 24), 8, "a third is left for what is there");
    }
}
