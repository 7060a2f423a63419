//! A set of address ranges, such as the parts of a managed buffer that are on the device.

use std::collections::BTreeMap;

/// A range of device or managed addresses, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub start: u64,
    pub bytes: u64,
}

impl Span {
    /// True if `self` contains all of `other`. False when `other` wraps around.
    pub fn holds(self, other: Span) -> bool {
        let end = |span: Span| span.start.checked_add(span.bytes);
        matches!((end(self), end(other)), (Some(own), Some(its)) if self.start <= other.start && its <= own)
    }
}

/// Disjoint, non-adjacent ranges in address order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    /// Start to end (exclusive).
    ranges: BTreeMap<u64, u64>,
    /// Sum of the ranges.
    bytes: u64,
}

impl Spans {
    pub fn total_bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        self.ranges.iter().map(|(&start, &end)| Span { start, bytes: end - start })
    }

    /// Adds a range and joins it with ranges that it overlaps or touches. `span` must not wrap around.
    pub fn insert(&mut self, span: Span) {
        if span.bytes == 0 {
            return;
        }
        let (mut start, mut end) = (span.start, span.start + span.bytes);
        let joined: Vec<u64> = self
            .ranges
            .range(..=end)
            .filter(|&(_, &its_end)| its_end >= start)
            .map(|(&key, _)| key)
            .collect();
        for key in joined {
            let its_end = self.ranges.remove(&key).unwrap_or(key);
            self.bytes -= its_end - key;
            (start, end) = (start.min(key), end.max(its_end));
        }
        self.ranges.insert(start, end);
        self.bytes += end - start;
    }

    /// Removes a range, splitting ranges that cross its borders.
    pub fn remove(&mut self, span: Span) {
        if span.bytes == 0 {
            return;
        }
        let (start, end) = (span.start, span.start + span.bytes);
        let cut: Vec<(u64, u64)> = self
            .ranges
            .range(..end)
            .filter(|&(_, &its_end)| its_end > start)
            .map(|(&key, &its_end)| (key, its_end))
            .collect();
        for (its_start, its_end) in cut {
            self.ranges.remove(&its_start);
            self.bytes -= its_end.min(end) - its_start.max(start);
            if its_start < start {
                self.ranges.insert(its_start, start);
            }
            if its_end > end {
                self.ranges.insert(end, its_end);
            }
        }
    }

    /// The first `bytes` of the set, in address order.
    pub fn prefix(&self, bytes: u64) -> Vec<Span> {
        let mut left = bytes;
        let mut taken = Vec::new();
        for span in self.iter() {
            if left == 0 {
                break;
            }
            let part = Span { start: span.start, bytes: span.bytes.min(left) };
            left -= part.bytes;
            taken.push(part);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(spans: &Spans) -> Vec<u64> {
        spans.iter().flat_map(|span| span.start..span.start + span.bytes).collect()
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_addresses(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40)) {
            let mut spans = Spans::default();
            let mut model = std::collections::BTreeSet::new();
            for (add, start, bytes) in steps {
                let span = Span { start, bytes };
                if add {
                    spans.insert(span);
                    model.extend(start..start + bytes);
                } else {
                    spans.remove(span);
                    model.retain(|address| !(start..start + bytes).contains(address));
                }
                prop_assert_eq!(members(&spans), model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(spans.total_bytes(), model.len() as u64);
                let ends: Vec<_> = spans.iter().map(|s| (s.start, s.start + s.bytes)).collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "adjacent ranges are joined");
            }
        }
    }

    #[test]
    fn prefix_takes_no_more_than_asked() {
        let mut spans = Spans::default();
        spans.insert(Span { start: 10, bytes: 5 });
        spans.insert(Span { start: 20, bytes: 5 });
        assert_eq!(spans.prefix(7), [Span { start: 10, bytes: 5 }, Span { start: 20, bytes: 2 }]);
        assert_eq!(spans.prefix(0), []);
        assert_eq!(spans.prefix(100).iter().map(|span| span.bytes).sum::<u64>(), 10);
    }
}
