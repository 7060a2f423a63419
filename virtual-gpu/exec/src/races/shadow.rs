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
    pub fn word(&mut self, word: u64, bytes_max: u64) -> Option<&mut Word> {
        let (page, within) = (word / PAGE as u64, (word % PAGE as u64) as usize);
        let recent = &mut self.recent[(page % RECENT as u64) as usize];
        if recent.0 != page + 1 {
            let index = match self.numbers.get(&page) {
                Some(&index) => index,
                None => {
                    let bytes = (self.pages.len() as u64 + 1) * size_of::<[Word; PAGE]>() as u64;
                    if bytes > bytes_max {
                        return None;
                    }
                    self.pages.push(Box::new([Word::default(); PAGE]));
                    self.numbers.insert(page, self.pages.len() - 1);
                    self.pages.len() - 1
                }
            };
            *recent = (page + 1, index);
        }
        Some(&mut self.pages[recent.1][within])
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
