//! Runs blocks that may wait for each other, in turns on one thread, each with its own memory.
//!
//! A block that yields is put aside, and the next of the grid begins. Blocks put aside resume whenever a block has
//! ended and after every [`BEGUN_MAX`] begun, the oldest first; in every other round the newest first, so that a chain
//! of blocks each of which waits for the next ends in two rounds. So blocks that wait for an earlier one, as most do,
//! are rarely put aside, and blocks that wait for a later one end too. Trap: a block resumes in the worker it began in,
//! which must not move meanwhile: its threads know the address.

use core::ffi::c_void;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::fault::Fault;
use crate::schedule::Round;
use crate::worker::{Grid, Worker};

/// Number of blocks begun before those put aside resume.
const BEGUN_MAX: usize = 64;
/// Limits, per thread, on the number and the memory of blocks put aside; more are begun when some have ended.
const ASIDE_MAX: usize = 4096;
const ASIDE_BYTES_MAX: usize = 256 << 20;
/// A round in which no block ended and that took less than this is followed by a sleep of this length, because the
/// awaited block runs on another thread.
const REST: Duration = Duration::from_micros(50);
/// Number of fruitless rounds before the thread sleeps.
const FRUITLESS_MAX: u32 = 64;
/// Time without progress after which the place where threads wait is reported.
const LONG: Duration = Duration::from_secs(1);

/// Place where threads of the launch have waited for long without success, if any.
pub(crate) type WaitingAt = Mutex<Option<String>>;

pub(crate) struct Turns<'a> {
    pub grid: &'a Grid,
    pub args: &'a [*const c_void],
    /// Returns a worker that is prepared for blocks of the grid.
    pub prepared: &'a dyn Fn() -> Box<Worker>,
    /// Takes a block that has not begun.
    pub take: &'a dyn Fn() -> Option<u64>,
    /// True when another thread found that the launch has failed.
    pub failed: &'a dyn Fn() -> bool,
    /// All blocks of the grid must be under way at once.
    pub all_at_once: bool,
    pub waiting_at: &'a WaitingAt,
    pub time_max: Option<Duration>,
    #[expect(clippy::vec_box, reason = "the threads of a worker's block know its address")]
    pub free: Vec<Box<Worker>>,
    pub aside: VecDeque<(u64, Box<Worker>)>,
}

/// Time and number of rounds since a block last ended.
struct Patience {
    since: Instant,
    fruitless: u32,
}

impl Turns<'_> {
    /// # Errors
    /// The kernel faulted, or nothing ended within the time that a launch may take.
    ///
    /// # Safety
    /// As for [`Worker::run`].
    pub unsafe fn run(&mut self) -> Result<(), Fault> {
        let mut patience = Patience { since: Instant::now(), fruitless: 0 };
        let (mut begun, mut falling) = (0, false);
        while !(self.failed)() {
            let began = Instant::now();
            let next = self.has_room().then(|| (self.take)()).flatten();
            let mut ended = false;
            if let Some(index) = next {
                let worker = self.free.pop().unwrap_or_else(|| (self.prepared)());
                // SAFETY: the caller's promise; the worker is prepared for this grid and has no block.
                ended = unsafe { self.go(index, worker, false)? };
                begun += 1;
                if !ended && begun < BEGUN_MAX {
                    continue;
                }
            } else if self.aside.is_empty() {
                break;
            }
            begun = 0;
            let mut round = std::mem::take(&mut self.aside);
            while let Some((index, worker)) = if falling { round.pop_back() } else { round.pop_front() } {
                // SAFETY: the caller's promise; it is the worker that the block began in.
                ended |= unsafe { self.go(index, worker, true)? };
            }
            if falling {
                self.aside.make_contiguous().reverse();
            }
            falling = !falling;
            patience.look(ended || next.is_some(), began, self)?;
        }
        *self.waiting_at.lock() = None;
        Ok(())
    }

    fn has_room(&self) -> bool {
        let bytes = || self.aside.front().map_or(0, |(_, worker)| worker.bytes() * self.aside.len());
        self.all_at_once || self.aside.len() < ASIDE_MAX && bytes() < ASIDE_BYTES_MAX
    }

    /// Runs a block; true if it ended.
    ///
    /// # Safety
    /// As for [`Worker::run`].
    unsafe fn go(&mut self, index: u64, mut worker: Box<Worker>, go_on: bool) -> Result<bool, Fault> {
        // SAFETY: the caller's promise.
        let round = unsafe { worker.run(self.grid, index, self.args, go_on) };
        let yielded = round == Ok(Round::Yielded);
        if yielded {
            self.aside.push_back((index, worker));
        } else {
            self.free.push(worker);
        }
        round.map(|_| !yielded)
    }
}

impl Patience {
    fn look(&mut self, moved: bool, began: Instant, turns: &Turns) -> Result<(), Fault> {
        if moved {
            if self.fruitless > 0 {
                *self = Patience { since: Instant::now(), fruitless: 0 };
                *turns.waiting_at.lock() = None;
            }
            return Ok(());
        }
        self.fruitless = self.fruitless.saturating_add(1);
        if self.fruitless < FRUITLESS_MAX {
            return Ok(());
        }
        let waited = self.since.elapsed();
        // The time limit counts processor time, and a sleeping thread uses little.
        if turns.time_max.is_some_and(|most| waited > most) {
            return Err(Fault::TimeOut);
        }
        if waited > LONG && turns.waiting_at.lock().is_none() {
            *turns.waiting_at.lock() = turns.aside.iter().find_map(|(_, worker)| worker.polled_at());
        }
        if began.elapsed() < REST {
            std::thread::sleep(REST);
        }
        Ok(())
    }
}
