//! Runs blocks that may wait for each other on one thread: each in memory of its own, in turns.
//!
//! A block whose threads only gave way is put aside, and the next of the grid begins; those put aside go on, the oldest first,
//! whenever a block has ended and after every [`BEGUN_MAX`] begun; in every other round the newest first, so that a chain of
//! blocks each of which waits for the next ends in two rounds. So blocks that wait for one before them, as most do, are put
//! aside rarely, and blocks that wait for one behind them end too. Trap: a block goes on in the worker it began in, which must
//! not move meanwhile: its threads know the address.

use core::ffi::c_void;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::fault::Fault;
use crate::schedule::Round;
use crate::worker::{Grid, Worker};

/// Blocks begun before those put aside go on.
const BEGUN_MAX: usize = 64;
/// Blocks put aside, and what they may take, on each thread; more are begun when some have ended.
const ASIDE_MAX: usize = 4096;
const ASIDE_BYTES_MAX: usize = 256 << 20;
/// A round in which no block ended and that took less is followed by a rest: whoever is waited for runs elsewhere.
const REST: Duration = Duration::from_micros(50);
/// Rounds without an end before the thread rests.
const FRUITLESS_MAX: u32 = 64;
/// Nothing has ended for so long: it is said where threads wait.
const LONG: Duration = Duration::from_secs(1);

/// Where threads of a launch have waited long, and for nothing so far.
pub(crate) type WaitingAt = Mutex<Option<String>>;

pub(crate) struct Turns<'a> {
    pub grid: &'a Grid,
    pub args: &'a [*const c_void],
    /// A worker that is ready for blocks of the grid.
    pub prepared: &'a dyn Fn() -> Box<Worker>,
    /// A block that nobody has begun.
    pub take: &'a dyn Fn() -> Option<u64>,
    /// Another thread found that the launch has failed.
    pub failed: &'a dyn Fn() -> bool,
    /// All blocks of the grid must be under way at once.
    pub all_at_once: bool,
    pub waiting_at: &'a WaitingAt,
    pub time_max: Option<Duration>,
    #[expect(clippy::vec_box, reason = "the threads of a worker's block know its address")]
    pub free: Vec<Box<Worker>>,
    pub aside: VecDeque<(u64, Box<Worker>)>,
}

/// Since when no block has ended.
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

    /// Whether the block ended.
    ///
    /// # Safety
    /// As for [`Worker::run`].
    unsafe fn go(&mut self, index: u64, mut worker: Box<Worker>, go_on: bool) -> Result<bool, Fault> {
        // SAFETY: the caller's promise.
        let round = unsafe { worker.run(self.grid, index, self.args, go_on) };
        let gave_way = round == Ok(Round::GivesWay);
        if gave_way {
            self.aside.push_back((index, worker));
        } else {
            self.free.push(worker);
        }
        round.map(|_| !gave_way)
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
        // The time limit counts processor time, of which there is little in a rest.
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
