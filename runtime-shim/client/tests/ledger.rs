//! Compares the ledger of buffers with a record of every byte that recomputes everything after each step, over
//! thousands of random histories: buffers of several tasks and kinds, filled, copied to, planned to move in, sent away,
//! handed over, found dead, freed, and restored after a free that failed.
//!
//! Trap: a record that reads the ledger would agree with any fault of it. It may use only the calls, and the ids that
//! the ledger returned.

use eager_client::ledger::{Allocation, Backing, BufferId, Held, Ledger, Origin, Part, Unwritten};
use eager_client::spans::Span;
use eager_client::task::TaskKey;
use eager_proto::request::Slot;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const SEEDS: u64 = 2000;
const STEPS: usize = 80;
const TASKS: u64 = 3;

/// Mistakes that a user of the ledger could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The host's write to a buffer is not recorded.
    ForgottenFill,
    /// A copy to the device is not recorded.
    ForgottenCopy,
    /// A buffer stays with the task that gave it away.
    ForgottenHandOver,
    /// Contents that moved to the host count as on the device.
    ForgottenAway,
    /// Memory that was given back counts as there.
    ForgottenLoss,
    /// A buffer that could not be freed is entered as a new one.
    RestoredAsNew,
    /// An array stays counted after its free.
    KeptArray,
}

/// Where the contents of a byte are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Byte {
    Unwritten,
    Host,
    Device,
}

#[derive(Debug, Clone)]
struct Buffer {
    id: BufferId,
    owner: u64,
    origin: Origin,
    bytes: Vec<Byte>,
    is_away: bool,
    is_dead: bool,
}

impl Buffer {
    fn is_there(&self) -> bool {
        self.origin.backing() == Some(Backing::Present) && !self.is_away
    }

    /// Runs of bytes in this state that may move in.
    fn runs(&self, wanted: Byte) -> Vec<Span> {
        if self.is_away || self.is_dead || wanted == Byte::Unwritten && self.origin != Origin::REWRITTEN {
            return Vec::new();
        }
        let places = (0..).zip(&self.bytes).filter(|(_, byte)| **byte == wanted);
        places.fold(Vec::new(), |mut runs: Vec<Span>, (at, _)| {
            match runs.last_mut() {
                Some(run) if run.start + run.bytes == at => run.bytes += 1,
                _ => runs.push(Span { start: at, bytes: 1 }),
            }
            runs
        })
    }

    fn set(&mut self, span: Span, byte: Byte) {
        self.bytes[span.start as usize..(span.start + span.bytes) as usize].fill(byte);
    }
}

/// The history, as it should be in the ledger.
#[derive(Debug, Default)]
struct Record {
    /// In the order of allocation.
    buffers: Vec<Buffer>,
    /// Owner and bytes by handle.
    arrays: BTreeMap<u64, (u64, u64)>,
}

impl Record {
    fn of_task(&self, owner: u64) -> impl Iterator<Item = &Buffer> {
        self.buffers.iter().filter(move |buffer| buffer.owner == owner)
    }

    fn moved(&self, owner: u64) -> u64 {
        let here = self.of_task(owner).filter(|buffer| !buffer.is_away);
        here.map(|buffer| buffer.bytes.iter().filter(|byte| **byte == Byte::Device).count() as u64).sum()
    }

    fn lacks_pages(&self, owner: u64) -> bool {
        self.of_task(owner).any(|buffer| !buffer.runs(Byte::Unwritten).is_empty())
    }

    /// What must be planned to move in.
    fn plan(
        &mut self,
        owner: u64,
        grant: u64,
        first: &[BufferId],
        not: &[BufferId],
        how: Unwritten,
    ) -> Vec<Part> {
        let mut budget = grant.saturating_sub(self.moved(owner));
        let own: Vec<BufferId> = self.of_task(owner).map(|buffer| buffer.id).collect();
        let of = |named: bool| own.iter().copied().filter(move |id| first.contains(id) == named);
        let named: Vec<BufferId> = first.iter().copied().filter(|id| own.contains(id)).collect();
        let mut order: Vec<(BufferId, Byte)> =
            named.iter().copied().chain(of(false)).map(|id| (id, Byte::Host)).collect();
        if how != Unwritten::Nothing {
            order.extend(named.iter().map(|id| (*id, Byte::Unwritten)));
        }
        if how == Unwritten::All {
            order.extend(of(false).map(|id| (id, Byte::Unwritten)));
        }
        let mut plan = Vec::new();
        for (id, byte) in order.into_iter().filter(|(id, _)| !not.contains(id)) {
            let Some(buffer) = self.buffers.iter_mut().find(|buffer| buffer.id == id) else { continue };
            for run in buffer.runs(byte) {
                let span = Span { bytes: run.bytes.min(budget), ..run };
                if span.bytes > 0 {
                    buffer.set(span, Byte::Device);
                    budget -= span.bytes;
                    plan.push(Part { buffer: id, span });
                }
            }
        }
        plan
    }
}

fn key(owner: u64) -> TaskKey {
    TaskKey { slot: Slot::new(owner as usize % 2).expect("a slot"), generation: owner }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, actual: T, expected: T) -> Result<(), String> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{what}: the ledger has {actual:?}, the history {expected:?}"))
    }
}

/// A process, its history, and the fault injected into it.
struct Run {
    ledger: Ledger,
    record: Record,
    fault: Fault,
}

impl Run {
    fn check(&self) -> Result<(), String> {
        let Run { ledger, record, .. } = self;
        for owner in 0..TASKS {
            let arrays = record.arrays.values().filter(|(its, _)| *its == owner).map(|(_, bytes)| *bytes);
            let bytes = record.of_task(owner).map(|buffer| buffer.bytes.len() as u64).chain(arrays).sum();
            equal("bytes", ledger.bytes_of(key(owner)), bytes)?;
            let wasted = record.of_task(owner).map(|buffer| match buffer.origin {
                Origin::Mapped { reserved, .. } => reserved - buffer.bytes.len() as u64,
                _ => 0,
            });
            equal("wasted", ledger.waste_of(key(owner)), wasted.sum())?;
            let ids: Vec<BufferId> = record.of_task(owner).map(|buffer| buffer.id).collect();
            equal("buffers", ledger.of_task(key(owner)).map(|(id, _)| id).collect(), ids)?;
            let has_none =
                |buffer: &&Buffer| matches!(buffer.origin.backing(), Some(Backing::Awaited | Backing::Gone));
            let absent: Vec<BufferId> =
                record.of_task(owner).filter(has_none).map(|buffer| buffer.id).collect();
            equal("absent", ledger.absent_of(key(owner)).into_iter().map(|(id, _)| id).collect(), absent)?;
            let moved = record.moved(owner);
            let lacks_pages = record.lacks_pages(owner);
            equal("pages", ledger.lacks_pages(key(owner), moved + 1), lacks_pages)?;
            equal("pages beyond the grant", ledger.lacks_pages(key(owner), moved), false)?;
        }
        let has_dead = record.buffers.iter().any(|buffer| buffer.is_dead);
        let has_absent =
            record.buffers.iter().any(|b| b.origin.backing().is_some_and(|is| is != Backing::Present));
        equal("watched", ledger.is_watched(), has_dead || has_absent)?;
        record.buffers.iter().try_for_each(|buffer| self.check_buffer(buffer))
    }

    fn check_buffer(&self, buffer: &Buffer) -> Result<(), String> {
        let Run { ledger, record, .. } = self;
        equal("owner", ledger.get(buffer.id).map(|found| found.owner), Some(key(buffer.owner)))?;
        equal("dead", ledger.is_dead(buffer.id), buffer.is_dead)?;
        let to_free = ledger.dead_and_present(buffer.id).is_some();
        equal("dead and present", to_free, buffer.is_dead && buffer.is_there())?;
        let movable = ledger.movable(buffer.id).is_some();
        equal("movable", movable, buffer.origin.is_rewritten() && buffer.is_there())?;
        let here = buffer.bytes.iter().filter(|byte| **byte == Byte::Device).count();
        let all = Part { buffer: buffer.id, span: Span { start: 0, bytes: buffer.bytes.len() as u64 } };
        let needed = record.moved(buffer.owner) + (buffer.bytes.len() - here) as u64;
        equal("fits", ledger.fits(key(buffer.owner), all, needed), true)?;
        equal("fits in less", needed > 0 && ledger.fits(key(buffer.owner), all, needed - 1), false)
    }

    fn allocate(&mut self, rng: &mut impl Rng) {
        let (owner, bytes) = (rng.random_range(0..TASKS), rng.random_range(1..30));
        let backing = if rng.random_bool(0.5) { Backing::Present } else { Backing::Awaited };
        let origin = match rng.random_range(0..6) {
            0 => Origin::Plain,
            1 => Origin::Program,
            2 => Origin::Mapped { reserved: bytes + rng.random_range(0..5), backing },
            _ => Origin::REWRITTEN,
        };
        let id = self.ledger.insert(Allocation::new(bytes, key(owner), None, origin));
        let bytes = vec![Byte::Unwritten; bytes as usize];
        self.record.buffers.push(Buffer { id, owner, origin, bytes, is_away: false, is_dead: false });
    }

    /// Records an access to a random part of a managed buffer.
    fn access(&mut self, rng: &mut impl Rng, index: usize, byte: Byte) {
        let buffer = &mut self.record.buffers[index];
        if !buffer.origin.is_rewritten() {
            return;
        }
        let start = rng.random_range(0..buffer.bytes.len() as u64);
        let span = Span { start, bytes: rng.random_range(0..=buffer.bytes.len() as u64 - start) };
        buffer.set(span, byte);
        let part = Part { buffer: buffer.id, span };
        match byte {
            Byte::Host if self.fault != Fault::ForgottenFill => self.ledger.filled(part),
            Byte::Device if self.fault != Fault::ForgottenCopy => self.ledger.moved_in(part),
            _ => {}
        }
    }

    fn set_backing(&mut self, index: usize, now: Backing) {
        let buffer = &mut self.record.buffers[index];
        let (Origin::Mapped { backing, .. } | Origin::Rewritten { backing }) = &mut buffer.origin else {
            return;
        };
        *backing = now;
        if now == Backing::Gone {
            buffer.bytes.fill(Byte::Unwritten);
        }
        if self.fault != Fault::ForgottenLoss {
            self.ledger.set_backing(buffer.id, now);
        }
    }

    /// Takes a buffer out; half the time the free fails, and it is restored.
    fn free(&mut self, rng: &mut impl Rng, index: usize) {
        let mut buffer = self.record.buffers.remove(index);
        let removed = self.ledger.remove(buffer.id).expect("live");
        assert!(self.ledger.get(buffer.id).is_none() && self.ledger.remove(buffer.id).is_none());
        if rng.random_bool(0.5) {
            return;
        }
        buffer.id = match self.fault {
            Fault::RestoredAsNew => self.ledger.insert(removed.allocation()),
            _ => self.ledger.restore(removed),
        };
        buffer.is_dead = false;
        self.record.buffers.insert(index, buffer);
    }

    fn fetch(&mut self, rng: &mut impl Rng) -> Result<(), String> {
        let owner = rng.random_range(0..TASKS);
        let grant = self.record.moved(owner) + rng.random_range(0..60);
        let mut some = |of: f64| {
            let chosen = self.record.buffers.iter().filter(|_| rng.random_bool(of));
            chosen.map(|buffer| buffer.id).collect::<Vec<BufferId>>()
        };
        let (mut first, not) = (some(0.3), some(0.1));
        first.reverse();
        let how =
            [Unwritten::Nothing, Unwritten::First, Unwritten::All][usize::from(rng.random_range(0_u8..3))];
        let planned = self.ledger.plan_fetch(key(owner), grant, &first, &not, how);
        equal("plan", planned, self.record.plan(owner, grant, &first, &not, how))
    }

    fn array(&mut self, rng: &mut impl Rng) {
        let (handle, owner, bytes) =
            (rng.random_range(0..3), rng.random_range(0..TASKS), rng.random_range(1..50));
        if rng.random_bool(0.5) {
            self.ledger.insert_array(handle, Held { owner: key(owner), frame: None, bytes });
            self.record.arrays.insert(handle, (owner, bytes));
        } else {
            self.record.arrays.remove(&handle);
            if self.fault != Fault::KeptArray {
                self.ledger.remove_array(handle);
            }
        }
    }

    fn step(&mut self, rng: &mut impl Rng) -> Result<(), String> {
        let kind = rng.random_range(0..16);
        if self.record.buffers.is_empty() || kind < 3 {
            self.allocate(rng);
            return Ok(());
        }
        let index = rng.random_range(0..self.record.buffers.len());
        let buffer = &mut self.record.buffers[index];
        match kind {
            3 | 4 => self.access(rng, index, Byte::Host),
            5 | 6 => self.access(rng, index, Byte::Device),
            7 | 8 => self.fetch(rng)?,
            9 => {
                buffer.is_away = !buffer.is_away;
                if self.fault != Fault::ForgottenAway {
                    self.ledger.set_away(buffer.id, buffer.is_away);
                }
            }
            10 => {
                buffer.owner = rng.random_range(0..TASKS);
                if self.fault != Fault::ForgottenHandOver {
                    self.ledger.hand_over(buffer.id, key(buffer.owner));
                }
            }
            11 => {
                let is_new = self.ledger.declare_dead(buffer.id).is_some();
                equal("declared dead", is_new, !buffer.is_dead)?;
                buffer.is_dead = true;
            }
            12 => self.set_backing(index, Backing::Gone),
            13 => self.set_backing(index, Backing::Present),
            14 => self.free(rng, index),
            _ => self.array(rng),
        }
        Ok(())
    }
}

/// Runs one random history. `Err`: the step after which ledger and history differ, and how.
fn run(seed: u64, fault: Fault) -> Result<(), String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut run = Run { ledger: Ledger::default(), record: Record::default(), fault };
    for step in 0..STEPS {
        run.step(&mut rng).and_then(|()| run.check()).map_err(|wrong| format!("step {step}: {wrong}"))?;
    }
    for buffer in std::mem::take(&mut run.record.buffers) {
        run.ledger.remove(buffer.id).expect("live");
    }
    run.check().map_err(|wrong| format!("in the end: {wrong}"))
}

#[test]
fn the_ledger_is_what_its_history_adds_up_to() {
    for seed in 0..SEEDS {
        if let Err(wrong) = run(seed, Fault::None) {
            panic!("seed {seed}: {wrong}");
        }
    }
    println!("{SEEDS} seeds from 0, {STEPS} steps each");
}

#[test]
fn the_history_finds_each_careless_use_of_the_ledger() {
    use Fault::{
        ForgottenAway, ForgottenCopy, ForgottenFill, ForgottenHandOver, ForgottenLoss, KeptArray,
        RestoredAsNew,
    };
    for fault in [
        ForgottenFill,
        ForgottenCopy,
        ForgottenHandOver,
        ForgottenAway,
        ForgottenLoss,
        RestoredAsNew,
        KeptArray,
    ] {
        let found = (0..1000).find(|&seed| run(seed, fault).is_err());
        let seed = found.unwrap_or_else(|| panic!("{fault:?} is not found within 1,000 seeds"));
        println!("{fault:?}: seed {seed}: {:?}", run(seed, fault));
    }
}
