//! Compares the account of a task with a ledger that recomputes everything after each step, over thousands of random
//! histories: sites that nest and overlap, allocations with and without memory, deaths, moves to the host and back,
//! frees in any order, and refusals that undo what was counted while other calls went on.
//!
//! Trap: a ledger that reads the account would agree with any fault of it. It may use only the history, and what the
//! account *returned* as due to the daemon.

use eager_client::account::{Account, Announced, FrameId, Taken};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SEEDS: u64 = 4000;
const STEPS: usize = 80;

/// Mistakes that a user of the account could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A shrink is not sent to the daemon.
    ForgottenShrink,
    /// A refused allocation stays counted.
    ForgottenUndo,
    /// A free is counted twice.
    FreedTwice,
    /// A buffer that never had memory is freed as if it had.
    FreedAsHeld,
    /// Memory that moves back from the host is counted as new.
    BroughtAsNew,
    /// The end of a site is not counted.
    ForgottenEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backing {
    Memory,
    Address,
    /// Its contents are on the host.
    Host,
}

#[derive(Debug, Clone, Copy)]
struct Buffer {
    /// Index of its site in the ledger.
    site: Option<usize>,
    bytes: u64,
    backing: Backing,
}

/// A request that the daemon has not answered, with all that a refusal must undo.
#[derive(Debug, Clone, Copy)]
struct Pending {
    buffer: Buffer,
    more: u64,
    /// Bytes of the buffer that its site had announced.
    kept: u64,
    /// The account's result, if the buffer had memory at once.
    taken: Option<Taken>,
    /// State before the request; `None` for a new buffer.
    before: Option<Backing>,
}

/// An announcement as it was made, and the allocations and returns under it since.
#[derive(Debug)]
struct Site {
    frame: FrameId,
    announced: u64,
    reuses: bool,
    is_open: bool,
    /// In order: allocations, and bytes returned by frees or refusals.
    taken: Vec<(u64, Entry)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Allocated,
    Returned,
}

impl Site {
    /// Bytes that the site may still allocate, computed from its history.
    fn promise(&self) -> u64 {
        if !self.is_open {
            return 0;
        }
        self.taken.iter().fold(self.announced, |left, (bytes, entry)| match entry {
            Entry::Allocated => left - left.min(*bytes),
            Entry::Returned => left + bytes,
        })
    }
}

#[derive(Debug, Default)]
struct Ledger {
    sites: Vec<Site>,
    buffers: Vec<Buffer>,
    pending: Option<Pending>,
    /// Bytes that the task should have reserved.
    reserved: u64,
    /// Bytes that the daemon has been told to hold.
    sent: i128,
}

impl Ledger {
    fn bytes(&self, backing: Backing) -> u64 {
        let pending = self.pending.iter().map(|pending| pending.buffer);
        let all = self.buffers.iter().copied().chain(pending);
        all.filter(|buffer| buffer.backing == backing).map(|buffer| buffer.bytes).sum()
    }

    /// Bytes that the task may still use without a request.
    fn ahead(&self) -> u64 {
        self.bytes(Backing::Address) + self.sites.iter().map(Site::promise).sum::<u64>()
    }

    /// Applies a change after which the task may need less.
    fn trim(&mut self) {
        self.reserved = self.reserved.min(self.bytes(Backing::Memory) + self.ahead());
    }

    /// Applies a change after which the task may need more.
    fn grow(&mut self) {
        self.reserved = self.reserved.max(self.bytes(Backing::Memory));
    }

    fn check(&self, account: &Account) -> Result<(), String> {
        let (memory, address, host) =
            (self.bytes(Backing::Memory), self.bytes(Backing::Address), self.bytes(Backing::Host));
        let unanswered = self.pending.map_or(0, |pending| pending.more);
        let pairs = [
            ("with memory", i128::from(account.held()), i128::from(memory)),
            ("allocated", i128::from(account.live()), i128::from(memory + address + host)),
            ("reserved", i128::from(account.reserved()), i128::from(self.reserved)),
            ("sent to the daemon", i128::from(account.reserved()), self.sent + i128::from(unanswered)),
        ];
        for (what, actual, expected) in pairs {
            if actual != expected {
                return Err(format!("{what}: the account has {actual}, the history {expected}"));
            }
        }
        if self.sent < 0 {
            return Err(format!("the daemon was told to hold {}", self.sent));
        }
        Ok(())
    }
}

/// A task, its history, and the fault injected into it.
struct Run {
    account: Account,
    ledger: Ledger,
    fault: Fault,
}

impl Run {
    fn new(rng: &mut impl Rng, fault: Fault) -> Run {
        let mut run = Run { account: Account::default(), ledger: Ledger::default(), fault };
        if rng.random_bool(0.8) {
            run.begin(rng);
            if rng.random_bool(0.5) {
                // Requests the live requirement only.
                let live = rng.random_range(0..=run.ledger.reserved);
                run.account.ask_for(live);
                run.ledger.reserved = live;
            }
        }
        run.ledger.sent = i128::from(run.ledger.reserved);
        run
    }

    fn shrink(&mut self, bytes: u64) {
        if self.fault != Fault::ForgottenShrink {
            self.ledger.sent -= i128::from(bytes);
        }
    }

    fn begin(&mut self, rng: &mut impl Rng) {
        let announced = Announced {
            site: rng.random_range(0..3),
            bytes: rng.random_range(0..200),
            reuses: rng.random_bool(0.3),
        };
        let frame = self.account.open(announced);
        let Announced { bytes, reuses, .. } = announced;
        self.ledger.sites.push(Site { frame, announced: bytes, reuses, is_open: true, taken: Vec::new() });
        self.ledger.reserved += bytes;
        self.ledger.sent += i128::from(bytes);
    }

    fn end(&mut self, site: usize) {
        self.ledger.sites[site].is_open = false;
        if self.fault == Fault::ForgottenEnd {
            self.ledger.trim();
            return;
        }
        let gone = self.account.close(self.ledger.sites[site].frame);
        self.shrink(gone);
        self.ledger.trim();
    }

    fn frame(&self, site: Option<usize>) -> Option<FrameId> {
        site.map(|site| self.ledger.sites[site].frame)
    }

    fn record(&mut self, site: Option<usize>, bytes: u64, entry: Entry) {
        if let Some(site) = site.map(|site| &mut self.ledger.sites[site]).filter(|site| site.is_open) {
            site.taken.push((bytes, entry));
        }
    }

    fn allocate(&mut self, rng: &mut impl Rng) {
        let open = self.ledger.sites.iter().position(|site| site.is_open && rng.random_bool(0.5));
        let (site, bytes) = (open, rng.random_range(1..100));
        let promise = site.map_or(0, |site| self.ledger.sites[site].promise());
        let backing = if rng.random_bool(0.5) { Backing::Memory } else { Backing::Address };
        let taken = match backing {
            Backing::Memory => self.account.take(self.frame(site), bytes),
            _ => self.account.expect(self.frame(site), bytes),
        };
        self.record(site, bytes, Entry::Allocated);
        let kept = promise.min(bytes);
        self.ledger.pending = Some(Pending {
            buffer: Buffer { site, bytes, backing },
            more: taken.more,
            kept,
            taken: Some(taken),
            before: None,
        });
        self.ledger.reserved += bytes - kept;
        self.ledger.grow();
    }

    fn get_memory(&mut self, index: usize) {
        let mut buffer = self.ledger.buffers.swap_remove(index);
        let (before, as_new) = (buffer.backing, self.fault == Fault::BroughtAsNew);
        let more = match before {
            Backing::Host if as_new => self.account.take(None, buffer.bytes).more,
            Backing::Host => self.account.bring_back(buffer.bytes),
            _ => self.account.hold(buffer.bytes),
        };
        if before == Backing::Host {
            // Nothing was kept for it.
            self.ledger.reserved += buffer.bytes;
        }
        buffer.backing = Backing::Memory;
        self.ledger.pending = Some(Pending { buffer, more, kept: 0, taken: None, before: Some(before) });
        self.ledger.grow();
    }

    /// Answers the pending request as the daemon would.
    fn answer(&mut self, is_granted: bool) {
        let Some(Pending { buffer, more, kept, taken, before }) = self.ledger.pending.take() else { return };
        if is_granted {
            self.ledger.sent += i128::from(more);
            self.ledger.buffers.push(buffer);
            return;
        }
        self.ledger.reserved -= more;
        match before {
            None => {
                self.record(buffer.site, kept, Entry::Returned);
            }
            Some(backing) => self.ledger.buffers.push(Buffer { backing, ..buffer }),
        }
        if self.fault != Fault::ForgottenUndo {
            let frame = self.frame(buffer.site);
            match (before, taken) {
                (None, Some(taken)) => {
                    let lost = match buffer.backing {
                        Backing::Memory => self.account.untake(frame, buffer.bytes, taken),
                        _ => self.account.unexpect(frame, buffer.bytes, taken),
                    };
                    self.shrink(lost);
                }
                (None, None) => {}
                (Some(Backing::Host), _) => self.account.undo_bring_back(buffer.bytes, more),
                (Some(_), _) => self.account.unhold(buffer.bytes, more),
            }
        }
        if before.is_none() {
            self.ledger.trim();
        }
    }

    fn move_to_host(&mut self, index: usize) {
        self.ledger.buffers[index].backing = Backing::Host;
        let gone = self.account.send_away(self.ledger.buffers[index].bytes);
        self.shrink(gone);
        self.ledger.trim();
    }

    fn free(&mut self, index: usize) {
        let Buffer { site, bytes, backing } = self.ledger.buffers.swap_remove(index);
        let frame = self.frame(site);
        let times = if self.fault == Fault::FreedTwice { 2 } else { 1 };
        for _ in 0..times {
            let gone = match backing {
                Backing::Host => self.account.forget_away(bytes),
                Backing::Address if self.fault != Fault::FreedAsHeld => self.account.forgo(frame, bytes),
                _ => self.account.give(frame, bytes),
            };
            self.shrink(gone);
        }
        if backing != Backing::Host && site.is_some_and(|site| self.ledger.sites[site].reuses) {
            self.record(site, bytes, Entry::Returned);
        }
        self.ledger.trim();
    }

    fn step(&mut self, rng: &mut impl Rng) {
        let any = |backing: &[Backing], run: &Run, rng: &mut dyn FnMut(usize) -> usize| {
            let fit =
                run.ledger.buffers.iter().enumerate().filter(|(_, buffer)| backing.contains(&buffer.backing));
            let fit: Vec<usize> = fit.map(|(index, _)| index).collect();
            (!fit.is_empty()).then(|| fit[rng(fit.len())])
        };
        let kind = rng.random_range(0..10);
        let mut pick = |below: usize| rng.random_range(0..below);
        match kind {
            0 => self.begin(rng),
            1 => {
                let open: Vec<usize> =
                    (0..self.ledger.sites.len()).filter(|&s| self.ledger.sites[s].is_open).collect();
                if !open.is_empty() {
                    self.end(open[pick(open.len())]);
                }
            }
            2..=4 if self.ledger.pending.is_none() => self.allocate(rng),
            5 | 6 if self.ledger.pending.is_none() => {
                if let Some(index) = any(&[Backing::Address, Backing::Host], self, &mut pick) {
                    self.get_memory(index);
                }
            }
            7 => {
                if let Some(index) = any(&[Backing::Memory], self, &mut pick) {
                    self.move_to_host(index);
                }
            }
            8 => {
                if let Some(index) = any(&[Backing::Memory, Backing::Address, Backing::Host], self, &mut pick)
                {
                    self.free(index);
                }
            }
            _ => self.answer(rng.random_bool(0.7)),
        }
    }

    /// Frees every buffer and ends every site.
    fn finish(&mut self) {
        self.answer(true);
        while !self.ledger.buffers.is_empty() {
            self.free(0);
        }
        for site in 0..self.ledger.sites.len() {
            if self.ledger.sites[site].is_open {
                self.end(site);
            }
        }
    }
}

/// Runs one random history. `Err`: the step after which account and history differ, and how.
fn run(seed: u64, fault: Fault) -> Result<(), String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut run = Run::new(&mut rng, fault);
    run.ledger.check(&run.account)?;
    for step in 0..STEPS {
        run.step(&mut rng);
        run.ledger.check(&run.account).map_err(|wrong| format!("step {step}: {wrong}"))?;
    }
    run.finish();
    run.ledger.check(&run.account)?;
    let left = (run.account.held(), run.account.live(), run.account.reserved(), run.ledger.sent);
    if left == (0, 0, 0, 0) { Ok(()) } else { Err(format!("in the end there is {left:?}")) }
}

#[test]
fn the_account_is_what_its_history_adds_up_to() {
    for seed in 0..SEEDS {
        if let Err(wrong) = run(seed, Fault::None) {
            panic!("seed {seed}: {wrong}");
        }
    }
    println!("{SEEDS} seeds from 0, {STEPS} steps each");
}

#[test]
fn the_history_finds_each_careless_use_of_the_account() {
    use Fault::{BroughtAsNew, ForgottenEnd, ForgottenShrink, ForgottenUndo, FreedAsHeld, FreedTwice};
    for fault in [ForgottenShrink, ForgottenUndo, FreedTwice, FreedAsHeld, BroughtAsNew, ForgottenEnd] {
        let found = (0..1000).find(|&seed| run(seed, fault).is_err());
        let seed = found.unwrap_or_else(|| panic!("{fault:?} is not found within 1,000 seeds"));
        println!("{fault:?}: seed {seed}: {:?}", run(seed, fault));
    }
}
