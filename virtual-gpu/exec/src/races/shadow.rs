//! Records of global memory in pages, allocated when first used.
//!
//! Nearly every access is to a page that was used just before, so a small table, indexed by the last bits of the page
//! number, is asked before the map.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use super::record::Word;

/// Words per page.
const PAGE: usize = 1024;
const RECENT: usize = 256;

#[derive(Debug)]
pub(super) struct Pages {
    pages: Vec<Box<[Word; PAGE]>>,
    numbers: BTreeMap<u64, usize>,
    /// Page (one more than its number; 0: none) and index.
    recent: Box<[(u64, usize); RECENT]>,
}

impl Default for Pages {
    fn default() -> Self {
        Pages { pages: Vec::new(), numbers: BTreeMap::new(), recent: Box::new([(0, 0); RECENT]) }
    }
}

impl Pages {
    /// Returns the records of a word, given its number; `None` if all pages together would take more than `bytes_max`.
    #[inline]
    pub fn word(&mut self, word: u64, bytes_max: u64) -> Option<&mut Word> {
        let (page, within) = (word / PAGE as u64, (word % PAGE as u64) as usize);
        let slot = (page % RECENT as u64) as usize;
        if self.recent[slot].0 != page + 1 {
            self.recent[slot] = (page + 1, self.index_of(page, bytes_max)?);
        }
        Some(&mut self.pages[self.recent[slot].1][within])
    }

    /// Index of a page, which is allocated when it is first used. A function of its own, because a page on the stack of
    /// the one that is called at each access would make that slow.
    #[cold]
    #[inline(never)]
    fn index_of(&mut self, page: u64, bytes_max: u64) -> Option<usize> {
        if let Some(&index) = self.numbers.get(&page) {
            return Some(index);
        }
        let bytes = (self.pages.len() as u64 + 1) * size_of::<[Word; PAGE]>() as u64;
        if bytes > bytes_max {
            return None;
        }
        self.pages.push(Box::new([Word::default(); PAGE]));
        self.numbers.insert(page, self.pages.len() - 1);
        Some(self.pages.len() - 1)
    }

    /// Drops the records of these words.
    pub fn forget(&mut self, words: RangeInclusive<u64>) {
        for word in words {
            if let Some(&index) = self.numbers.get(&(word / PAGE as u64)) {
                self.pages[index][(word % PAGE as u64) as usize] = Word::default();
            }
        }
    }

    /// Drops all records if they take more than `bytes_max`.
    pub fn trim(&mut self, bytes_max: u64) {
        if (self.pages.len() * size_of::<[Word; PAGE]>()) as u64 > bytes_max {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        *self = Pages::default();
    }
}
