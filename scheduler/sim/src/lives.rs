//! Computes which buffers each step of a program uses on the device, where each is used for the last time, and how
//! much a task's buffers hold at once between those points: the knowledge of a perfect compiler.
//!
//! This reads the unrolled steps of one run, so it knows every loop count. A compiler can prove less; comparing both
//! shows the cost of incomplete proofs.

use crate::job::JobOp;
use crate::steps::Step;
use std::collections::{BTreeMap, BTreeSet};

/// Lives of one program's buffers.
#[derive(Debug, Default)]
pub struct Lives<'a> {
    /// By step: buffers that nothing uses after it.
    dead_after: BTreeMap<usize, Vec<&'a str>>,
    /// By the step at which a task begins: see [`Lives::live_bytes`].
    live_bytes: BTreeMap<usize, u64>,
}

impl<'a> Lives<'a> {
    /// Computes the lives. `release_dead`: buffers give memory back at their last use, not when they are freed.
    pub fn of(steps: &[Step<'a>], release_dead: bool) -> Lives<'a> {
        let dead_after = last_uses(steps);
        let none = BTreeMap::new();
        let live_bytes = live_bytes(steps, if release_dead { &dead_after } else { &none });
        Lives { dead_after: if release_dead { dead_after } else { none }, live_bytes }
    }

    /// Returns the buffers to give back after a step.
    pub fn dead_after(&self, step: usize) -> &[&'a str] {
        self.dead_after.get(&step).map_or(&[], Vec::as_slice)
    }

    /// Most bytes that the buffers of the task that begins at this step hold at once, each from its first use on.
    pub fn live_bytes(&self, step: usize) -> u64 {
        self.live_bytes.get(&step).copied().unwrap_or(0)
    }
}

/// Returns the buffers that a step uses on the device, each once.
pub fn uses<'a>(step: &Step<'a>) -> BTreeSet<&'a str> {
    match step {
        Step::Host(_) | Step::Synchronize => BTreeSet::new(),
        Step::Launch { kernel, .. } => kernel.accesses.iter().map(|access| access.buffer.as_str()).collect(),
        Step::Other(op) => match op {
            JobOp::CopyToDevice { buffer, .. }
            | JobOp::CopyToHost { buffer, .. }
            | JobOp::Fill { buffer, .. } => BTreeSet::from([buffer.as_str()]),
            JobOp::CopyOnDevice { from, to, .. } => BTreeSet::from([from.as_str(), to.as_str()]),
            _ => BTreeSet::new(),
        },
    }
}

fn last_uses<'a>(steps: &[Step<'a>]) -> BTreeMap<usize, Vec<&'a str>> {
    let mut dead: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut used_later = BTreeSet::new();
    for (at, step) in steps.iter().enumerate().rev() {
        if let Step::Other(JobOp::Free { buffer } | JobOp::Alloc { buffer, .. }) = step {
            used_later.remove(buffer.as_str());
        }
        for buffer in uses(step) {
            if used_later.insert(buffer) {
                dead.entry(at).or_default().push(buffer);
            }
        }
    }
    dead
}

fn live_bytes(steps: &[Step<'_>], dead_after: &BTreeMap<usize, Vec<&str>>) -> BTreeMap<usize, u64> {
    let mut peaks = BTreeMap::new();
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut live: BTreeMap<&str, u64> = BTreeMap::new();
    let mut begun = None;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Other(JobOp::TaskBegin { .. }) => begun = Some(at),
            Step::Other(JobOp::Alloc { buffer, bytes }) => {
                sizes.insert(buffer, *bytes);
            }
            Step::Other(JobOp::Free { buffer }) => {
                live.remove(buffer.as_str());
            }
            _ => {}
        }
        for buffer in uses(step) {
            live.insert(buffer, sizes.get(buffer).copied().unwrap_or(0));
        }
        if let Some(task) = begun {
            let peak = peaks.entry(task).or_insert(0);
            *peak = live.values().sum::<u64>().max(*peak);
        }
        for buffer in dead_after.get(&at).into_iter().flatten() {
            live.remove(buffer);
        }
    }
    peaks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::unroll;

    fn alloc(buffer: &str, bytes: u64) -> JobOp {
        JobOp::Alloc { buffer: buffer.into(), bytes }
    }

    fn fill(buffer: &str) -> JobOp {
        JobOp::Fill { buffer: buffer.into(), bytes: 1 }
    }

    fn free(buffer: &str) -> JobOp {
        JobOp::Free { buffer: buffer.into() }
    }

    fn begin() -> JobOp {
        JobOp::TaskBegin { requirement: 0, blocks: 0, threads_per_block: 0, lazy: false }
    }

    #[test]
    fn a_buffer_lives_from_its_first_use_to_its_last_round_of_a_loop() {
        let round = JobOp::Repeat { times: 3, ops: vec![fill("a"), fill("b")] };
        let ops = [begin(), alloc("a", 5), alloc("b", 7), alloc("c", 9), round, fill("c"), free("a")];
        let mut steps = Vec::new();
        unroll(&ops, &mut steps);
        let lives = Lives::of(&steps, true);
        // Steps: begin, three allocations, then a b a b a b, then c.
        assert_eq!(
            (lives.dead_after(8), lives.dead_after(9), lives.dead_after(10)),
            (&["a"][..], &["b"][..], &["c"][..])
        );
        assert!((0..8).all(|step| lives.dead_after(step).is_empty()));
        assert_eq!(lives.live_bytes(0), 12, "c comes when a and b are gone");
        let held = Lives::of(&steps, false);
        assert_eq!((held.dead_after(8).len(), held.live_bytes(0)), (0, 21));
    }

    #[test]
    fn a_name_used_again_after_its_free_is_another_buffer() {
        let ops = [
            begin(),
            alloc("a", 5),
            fill("a"),
            free("a"),
            alloc("a", 6),
            fill("a"),
            free("a"),
            JobOp::TaskEnd,
        ];
        let mut steps = Vec::new();
        unroll(&ops, &mut steps);
        let lives = Lives::of(&steps, true);
        assert_eq!((lives.dead_after(2), lives.dead_after(5)), (&["a"][..], &["a"][..]));
        assert_eq!(lives.live_bytes(0), 6);
    }
}
