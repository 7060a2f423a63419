//! What was found in a launch: one race for each pair of lines, and how many more.
//!
//! Trap: whether two stores have the same value is known only when the second has happened, so such a pair waits until
//! somebody does the next thing.

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
    /// What the other one left there.
    value: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Found {
    races: Races,
    /// By lines, the smaller number first: the index of the race.
    by_lines: BTreeMap<[u32; 2], usize>,
    pending: Option<Pending>,
    /// A note of equal values was given.
    noted: bool,
    /// Texts of places by their numbers; 0 is none.
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
    /// A number for a place; 0 for one without a text, or too many.
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
            // SAFETY: needed to read what `check` was given: a constant text of the program's, which ends in NUL and stays.
            Some(&text) => unsafe { CStr::from_ptr(text as *const c_char) }.to_string_lossy().into_owned(),
        }
    }

    pub fn unwatched(&mut self, bytes: u64) {
        self.races.unwatched_bytes += bytes;
    }

    /// A race at two lines; `stored` if both accesses store, and the later one is about to do so there.
    pub fn add(&mut self, race: Race, lines: [u32; 2], stored: Option<Accessed>) {
        match stored.filter(|stored| stored.bytes <= VALUE_BYTES_MAX as u64) {
            Some(Accessed { address, bytes }) => {
                let value = bytes_at(address, bytes as usize);
                self.pending = Some(Pending { race, lines, address, value });
            }
            None => self.keep(race, lines),
        }
    }

    /// What was about to happen has.
    pub fn settle(&mut self) {
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
                // One that is wrong on every machine says more than one that is right in step.
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
    // SAFETY: needed because only the memory itself tells what was stored. Strict mode has found the access right: it is
    // memory that kernels may use, which nobody but this thread uses while its launch goes on.
    (0..bytes).map(|at| unsafe { ((address as usize + at) as *const u8).read_volatile() }).collect()
}
