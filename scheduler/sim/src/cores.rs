//! Cores of the host: decides which host phases run, and when they end.
//!
//! Trap: the ends of shared phases move whenever a phase begins or ends. They are therefore kept as the core time
//! that each phase needs, not as moments.

use eager_units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// How host phases share the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreOrder {
    /// A phase has a core to itself until it ends; others wait in order of arrival (specification S-634).
    #[default]
    Arrival,
    /// Like `Arrival`, but programs that hold device memory go first.
    HoldersFirst,
    /// All phases run at once, as under an operating system; with more phases than cores, all of them slow down
    /// equally.
    Shared,
}

/// Running and waiting phases, by client.
#[derive(Debug)]
pub(crate) struct Cores {
    order: CoreOrder,
    count: u32,
    running: BTreeSet<(Nanos, usize)>,
    holders: VecDeque<(usize, f64)>,
    waiting: VecDeque<(usize, f64)>,
    shared: Shared,
}

impl Cores {
    pub fn new(order: CoreOrder, count: u32) -> Cores {
        Cores {
            order,
            count,
            running: BTreeSet::new(),
            holders: VecDeque::new(),
            waiting: VecDeque::new(),
            shared: Shared::default(),
        }
    }

    /// Begins a client's host phase, which may have to wait. `holds`: the client has device memory.
    pub fn begin(&mut self, now: Nanos, client: usize, seconds: f64, holds: bool) {
        match self.order {
            CoreOrder::Shared => self.shared.begin(now, self.count, client, seconds),
            CoreOrder::HoldersFirst if holds => self.holders.push_back((client, seconds)),
            _ => self.waiting.push_back((client, seconds)),
        }
        self.start(now);
    }

    fn start(&mut self, now: Nanos) {
        while self.running.len() < self.count as usize
            && let Some((client, seconds)) = self.holders.pop_front().or_else(|| self.waiting.pop_front())
        {
            self.running.insert((Nanos(now.0 + (seconds * 1e9).round() as u64), client));
        }
    }

    pub fn next_end(&self) -> Option<Nanos> {
        let running = self.running.first().map(|&(end, _)| end);
        running.or_else(|| self.shared.next_end(self.count))
    }

    /// Removes and returns a client whose phase has ended by now.
    pub fn take_ended(&mut self, now: Nanos) -> Option<usize> {
        if let Some(&(end, client)) = self.running.first().filter(|(end, _)| *end <= now) {
            self.running.remove(&(end, client));
            self.start(now);
            return Some(client);
        }
        self.shared.take_ended(now, self.count)
    }

    /// Drops the phases of a client that is gone.
    pub fn forget(&mut self, now: Nanos, gone: usize) {
        self.running.retain(|(_, client)| *client != gone);
        self.holders.retain(|(client, _)| *client != gone);
        self.waiting.retain(|(client, _)| *client != gone);
        self.shared.forget(now, self.count, gone);
        self.start(now);
    }
}

/// Phases that all run at once.
#[derive(Debug, Default)]
struct Shared {
    /// Core time in seconds that a phase running from the start would have got so far; and the time of that state.
    got: f64,
    at: Nanos,
    /// Value of `got` at which each phase ends, as bits. The bits of non-negative floats sort like the floats.
    ends: BTreeSet<(u64, usize)>,
}

/// Tolerance in seconds: more than the rounding error, less than a nanosecond.
const SLACK_S: f64 = 5e-10;

impl Shared {
    fn rate(&self, cores: u32) -> f64 {
        (f64::from(cores) / self.ends.len().max(1) as f64).min(1.0)
    }

    fn advance(&mut self, now: Nanos, cores: u32) {
        if !self.ends.is_empty() {
            self.got += now.saturating_sub(self.at).0 as f64 / 1e9 * self.rate(cores);
        }
        self.at = now;
    }

    fn begin(&mut self, now: Nanos, cores: u32, client: usize, seconds: f64) {
        self.advance(now, cores);
        self.ends.insert(((self.got + seconds).to_bits(), client));
    }

    fn missing(&self) -> Option<f64> {
        self.ends.first().map(|&(end, _)| f64::from_bits(end) - self.got)
    }

    fn next_end(&self, cores: u32) -> Option<Nanos> {
        let nanos = (self.missing()?.max(0.0) / self.rate(cores) * 1e9).ceil() as u64;
        Some(Nanos(self.at.0.saturating_add(nanos)))
    }

    fn take_ended(&mut self, now: Nanos, cores: u32) -> Option<usize> {
        self.advance(now, cores);
        self.missing().filter(|missing| *missing <= SLACK_S)?;
        self.ends.pop_first().map(|(_, client)| client)
    }

    fn forget(&mut self, now: Nanos, cores: u32, gone: usize) {
        self.advance(now, cores);
        self.ends.retain(|(_, client)| *client != gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ends in order, in milliseconds; all phases begin at 0, on two cores.
    fn ends(order: CoreOrder, phases: &[(f64, bool)]) -> Vec<(usize, u64)> {
        let mut cores = Cores::new(order, 2);
        for (client, &(seconds, holds)) in phases.iter().enumerate() {
            cores.begin(Nanos(0), client, seconds, holds);
        }
        let mut found = Vec::new();
        while let Some(at) = cores.next_end() {
            while let Some(client) = cores.take_ended(at) {
                found.push((client, at.0 / 1_000_000));
            }
        }
        found
    }

    #[test]
    fn phases_wait_for_a_core_or_share_them() {
        let phases = [(10.0, false), (10.0, false), (10.0, false), (1.0, true)];
        let in_order = [(0, 10_000), (1, 10_000), (3, 11_000), (2, 20_000)];
        assert_eq!(ends(CoreOrder::Arrival, &phases), in_order);
        // All four run at half speed until the short phase has ended, then three share two cores.
        assert_eq!(ends(CoreOrder::Shared, &phases), [(3, 2_000), (0, 15_500), (1, 15_500), (2, 15_500)]);
        let phases = [(10.0, false), (10.0, false), (10.0, false), (10.0, true), (1.0, true)];
        let holders_first = [(0, 10_000), (1, 10_000), (4, 11_000), (3, 20_000), (2, 21_000)];
        assert_eq!(ends(CoreOrder::HoldersFirst, &phases), holders_first);
    }

    #[test]
    fn who_is_gone_leaves_its_core_to_the_next() {
        for order in [CoreOrder::Arrival, CoreOrder::HoldersFirst, CoreOrder::Shared] {
            let mut cores = Cores::new(order, 1);
            cores.begin(Nanos(0), 0, 10.0, true);
            cores.begin(Nanos(0), 1, 1.0, false);
            cores.forget(Nanos(0), 0);
            let end = cores.next_end().expect("it runs");
            assert_eq!((end, cores.take_ended(end)), (Nanos::from_secs(1), Some(1)), "{order:?}");
            assert_eq!(cores.next_end(), None);
        }
    }
}
