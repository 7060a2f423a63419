//! Races found in a launch: one for each pair of lines, and how many more.
//!
//! Trap: the values of two racing stores can be compared only after the second one, so such a pair stays pending until
//! the next event.

use core::ffi::{CStr, c_char};
use std::collections::BTreeMap;

use super::record::Record;
use super::report::{Distance, Race, Races};

/// Pairs of lines that are kept of a launch (specification S-690).
const PAIRS_MAX: usize = 32;
const RECENT: usize = 256;
const VALUE_BYTES_MAX: usize = 16;

/// Memory that is about to be written.
pub(super) struct Accessed {
    pub address: u64,
    pub bytes: u64,
}

/// A store that races with another one.
#[derive(Debug)]
struct Pending {
    race: Race,
    lines: [u32; 2],
    address: u64,
    /// Bytes that the earlier store left there.
    value: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Found {
    races: Races,
    /// Index of the race, by its two place numbers, the smaller first.
    by_lines: BTreeMap<[u32; 2], usize>,
    pending: Option<Pending>,
    /// A race of two equal values was already recorded.
    noted: bool,
    /// Addresses of place texts by number; 0 is none.
    texts: Vec<usize>,
    numbers: BTreeMap<usize, u32>,
    recent: Box<[(usize, u32); RECENT]>,
}

impl Default for Found {
    fn default() -> Self {
        Found {
            races: Races::default(),
            by_lines: BTreeMap::new(),
            pending: None,
            noted: false,
            texts: vec![0],
            numbers: BTreeMap::new(),
            recent: Box::new([(0, 0); RECENT]),
        }
    }
}

impl Found {
    /// Returns the number of a place; 0 for a place without a text, or if there are too many.
    pub fn place(&mut self, text: *const c_char) -> u32 {
        let text = text as usize;
        let recent = &mut self.recent[text % RECENT];
        if recent.0 != text {
            let texts = &mut self.texts;
            let number = *self.numbers.entry(text).or_insert_with(|| {
                if text == 0 || texts.len() >= Record::PLACES as usize {
                    return 0;
                }
                texts.push(text);
                texts.len() as u32 - 1
            });
            *recent = (text, number);
        }
        recent.1
    }

    pub fn text(&self, place: u32) -> String {
        match self.texts.get(place as usize) {
            None | Some(0) => String::new(),
            // SAFETY: needed to read the text passed to `check`: a constant of the program, NUL-terminated.
            Some(&text) => unsafe { CStr::from_ptr(text as *const c_char) }.to_string_lossy().into_owned(),
        }
    }

    pub fn unwatched(&mut self, bytes: u64) {
        self.races.unwatched_bytes += bytes;
    }

    /// Adds a race of two lines. `stored` is the memory about to be written, if both accesses store.
    pub fn add(&mut self, race: Race, lines: [u32; 2], stored: Option<Accessed>) {
        match stored.filter(|stored| stored.bytes <= VALUE_BYTES_MAX as u64) {
            Some(Accessed { address, bytes }) => {
                let value = bytes_at(address, bytes as usize);
                self.pending = Some(Pending { race, lines, address, value });
            }
            None => self.keep(race, lines),
        }
    }

    /// Decides a pending pair of stores: the second store has happened by now.
    pub fn settle(&mut self) {
        // Called at each access, and a pair is large.
        if self.pending.is_some() {
            self.settle_pending();
        }
    }

    #[cold]
    fn settle_pending(&mut self) {
        let Some(Pending { race, lines, address, value }) = self.pending.take() else { return };
        if bytes_at(address, value.len()) != value {
            self.keep(race, lines);
        } else if !self.noted {
            self.noted = true;
            self.races.equal = Some(race);
        }
    }

    fn keep(&mut self, race: Race, lines: [u32; 2]) {
        let key = [lines[0].min(lines[1]), lines[0].max(lines[1])];
        match self.by_lines.get(&key) {
            Some(&index) => {
                let known = &mut self.races.races[index];
                let more = known.more + 1;
                // A race that is wrong on every machine is more useful than one that is right where warps run in step.
                if known.distance == Distance::SameWarp && race.distance > known.distance {
                    *known = race;
                }
                known.more = more;
            }
            None if self.races.races.len() < PAIRS_MAX => {
                self.by_lines.insert(key, self.races.races.len());
                self.races.races.push(race);
            }
            None => self.races.left_out += 1,
        }
    }

    pub fn take(&mut self) -> Races {
        self.by_lines.clear();
        std::mem::take(&mut self.races)
    }
}

fn bytes_at(address: u64, bytes: usize) -> Vec<u8> {
    // SAFETY: needed because the stored value can only be read from memory. Strict mode has found the access valid: it
    // is memory that kernels may use, and only this thread uses it while its launch runs.
    (0..bytes).map(|at| unsafe { ((address as usize + at) as *const u8).read_volatile() }).collect()
}
