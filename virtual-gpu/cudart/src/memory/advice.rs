//! The program's advice on ranges of managed memory, and where it last prefetched them. Pure.
//!
//! A query about a range has an answer only where all of its pages agree.

use std::collections::{BTreeMap, BTreeSet};

const PAGE_BYTES: u64 = 4 << 10;

/// A location as CUDA numbers it: a device, or the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Host,
    Device(u32),
}

/// The advice in force for a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advised {
    pub read_mostly: bool,
    pub preferred: Option<Side>,
    pub accessed_by: BTreeSet<Side>,
    pub prefetched: Option<Side>,
}

/// Advice on all managed memory, by first page. Pages without advice have no entry.
#[derive(Debug, Default)]
pub struct Advice {
    /// Start of a range to its end and advice; ranges do not overlap.
    ranges: BTreeMap<u64, (u64, Advised)>,
}

fn pages(address: u64, bytes: u64) -> (u64, u64) {
    let start = address / PAGE_BYTES * PAGE_BYTES;
    (start, address.saturating_add(bytes).next_multiple_of(PAGE_BYTES))
}

impl Advice {
    /// Changes the advice in force for the pages of a range.
    pub fn change(&mut self, address: u64, bytes: u64, change: impl Fn(&mut Advised)) {
        let (start, end) = pages(address, bytes);
        let mut at = start;
        for (from, to, mut advised) in self.take(start, end) {
            self.put(at, from, &change);
            change(&mut advised);
            self.ranges.insert(from, (to, advised));
            at = to;
        }
        self.put(at, end, &change);
    }

    /// Inserts a range of pages that have had no advice so far.
    fn put(&mut self, start: u64, end: u64, change: impl Fn(&mut Advised)) {
        if start < end {
            let mut advised = Advised::default();
            change(&mut advised);
            self.ranges.insert(start, (end, advised));
        }
    }

    /// Removes all advice on a range.
    pub fn forget(&mut self, address: u64, bytes: u64) {
        let (start, end) = pages(address, bytes);
        self.take(start, end);
    }

    /// Removes the entries between `start` and `end`; the parts of them outside stay.
    fn take(&mut self, start: u64, end: u64) -> Vec<(u64, u64, Advised)> {
        let before = self.ranges.range(..start).next_back().map(|(from, _)| *from);
        let first = before.filter(|from| self.ranges[from].0 > start).unwrap_or(start);
        let touched: Vec<u64> = self.ranges.range(first..end).map(|(from, _)| *from).collect();
        let mut taken = Vec::new();
        for from in touched {
            let Some((to, advised)) = self.ranges.remove(&from) else { continue };
            if from < start {
                self.ranges.insert(from, (start, advised.clone()));
            }
            if to > end {
                self.ranges.insert(end, (to, advised.clone()));
            }
            taken.push((from.max(start), to.min(end), advised));
        }
        taken
    }

    /// Advice in force for each part of a range.
    pub fn of(&self, address: u64, bytes: u64) -> Vec<Advised> {
        let (start, end) = pages(address, bytes);
        let mut at = start;
        let mut found = Vec::new();
        for (from, (to, advised)) in self.ranges.range(..end).filter(|(_, (to, _))| *to > start) {
            if *from > at {
                found.push(Advised::default());
            }
            found.push(advised.clone());
            at = *to;
        }
        if at < end {
            found.push(Advised::default());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES;

    #[test]
    fn ranges_are_cut_where_advice_changes() {
        let mut advice = Advice::default();
        advice.change(PAGE, 4 * PAGE, |a| a.read_mostly = true);
        advice.change(2 * PAGE, PAGE, |a| a.preferred = Some(Side::Device(1)));
        let all = advice.of(0, 6 * PAGE);
        let said: Vec<_> = all.iter().map(|a| (a.read_mostly, a.preferred)).collect();
        let there = Some(Side::Device(1));
        assert_eq!(said, [(false, None), (true, None), (true, there), (true, None), (false, None)]);
        assert_eq!(advice.of(2 * PAGE + 5, 1).len(), 1, "a byte is its page");
        advice.forget(0, 3 * PAGE);
        let said: Vec<_> = advice.of(0, 5 * PAGE).iter().map(|a| a.read_mostly).collect();
        assert_eq!(said, [false, true]);
    }
}
