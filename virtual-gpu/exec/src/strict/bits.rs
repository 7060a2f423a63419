//! Set of the bytes of a memory, one bit for each.
//!
//! Trap: the words must come zeroed from the allocator, and only [`Bits::clear`] may walk over all of them, so that a
//! large memory of which little is used costs little.

const WORD_BITS: u64 = u64::BITS as u64;

/// A subset of bytes `0..bytes`, initially empty.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub fn new(bytes: u64) -> Bits {
        let words = usize::try_from(bytes.div_ceil(WORD_BITS)).expect("fits the address space");
        Bits { words: vec![0; words] }
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Adds `count` bytes from `start` on to the set.
    pub fn insert(&mut self, start: u64, count: u64) {
        for (word, mask) in masks(start, count) {
            self.words[word] |= mask;
        }
    }

    pub fn contains(&self, start: u64, count: u64) -> bool {
        masks(start, count).all(|(word, mask)| self.words[word] & mask == mask)
    }
}

/// The words that a range lies in, each with a mask of its bits.
fn masks(start: u64, count: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = start + count;
    (start / WORD_BITS..end.div_ceil(WORD_BITS)).filter(move |_| count > 0).map(move |word| {
        let first = start.max(word * WORD_BITS) % WORD_BITS;
        let bits = end.min((word + 1) * WORD_BITS) - word * WORD_BITS - first;
        (word as usize, (u64::MAX >> (WORD_BITS - bits)) << first)
    })
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn ranges_are_exact_at_both_ends() {
        for (start, count) in [(0, 1), (0, 64), (63, 2), (5, 59), (5, 60), (64, 128), (100, 1), (7, 200)] {
            let mut bits = Bits::new(256);
            bits.insert(start, count);
            for byte in 0..256 {
                let inside = (start..start + count).contains(&byte);
                assert_eq!(bits.contains(byte, 1), inside, "byte {byte} of {count} from {start}");
            }
            assert!(bits.contains(start, count) && !bits.contains(start, count + 1));
            assert!(bits.contains(start + count, 0));
        }
    }
}
