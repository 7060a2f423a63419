//! A running kernel: its progress, its next fault, and the resources it holds.
//!
//! A position is the kernel's own time, from the start of its first launch. It does not advance while the kernel waits,
//! and is negative during launch latency.

use crate::kernel::{Sweep, Work};
use crate::residency::Memory;

#[derive(Debug)]
pub struct KernelRun {
    pub priority: i32,
    pub work: Work,
    /// Own time in ns of one launch with all its blocks resident or remote.
    pub launch_ns: f64,
    pub launches: u32,
    pub sweep: Sweep,
    /// Launch and step of its next fault; `None`: it runs to its end.
    pub target: Option<(u32, u32)>,
    pub faulting: bool,
    /// Steps before this one have been served, even if their blocks were evicted before the steps ran.
    pub paid: (u32, u32),
    /// [`Memory::departures`] when `target` was found.
    pub departures: u64,
    /// Time at which the launch that is on the device reached the head of its stream.
    pub arrived: u64,
    /// Part of the SMs' block slots that it holds.
    pub placed: f64,
    /// Its next stop is the end of a launch for which other kernels wait, not its target.
    pub stops_at_launch: bool,
    /// Steps before this one are recorded as used in the order of eviction.
    pub touched: (u32, u32),
}

impl KernelRun {
    /// Own time from the start of the first launch to the start of a step, or to the end for `None`.
    pub fn position(&self, at: Option<(u32, u32)>) -> f64 {
        match at {
            None => self.launch_ns * f64::from(self.launches),
            Some((launch, step)) => {
                self.launch_ns * (f64::from(launch) + f64::from(step) / f64::from(self.sweep.steps(launch)))
            }
        }
    }

    /// First step that has not begun at a position.
    pub fn step_after(&self, position: f64) -> (u32, u32) {
        let launch = (position / self.launch_ns).floor().clamp(0.0, f64::from(self.launches - 1)) as u32;
        let part = (position / self.launch_ns - f64::from(launch)).max(0.0);
        let steps = self.sweep.steps(launch);
        (launch, (part * f64::from(steps) - 1e-6).ceil().max(0.0) as u32)
    }

    /// Own time left of the launch at a position.
    pub fn left_of_launch(&self, position: f64) -> f64 {
        let launch = (position / self.launch_ns + 1e-9).floor().max(0.0);
        (launch + 1.0) * self.launch_ns - position
    }

    /// Slots that it keeps until its launch or its fault is over.
    pub fn kept(&self) -> f64 {
        if self.faulting || self.work.one_wave { self.placed } else { 0.0 }
    }

    /// Records the memory used up to a position in the order of eviction. Of the steps since the last call only the
    /// last two launches are recorded: they come last in that order, whatever came before.
    pub fn touch_up_to(&mut self, position: f64, memory: &mut Memory) {
        if !memory.follows_use() || !self.sweep.touches_managed() {
            return;
        }
        let (launch, step) = self.step_after(position);
        if self.touched.0 + 1 < launch {
            self.touched = (launch - 1, 0);
        }
        while self.touched < (launch, step) {
            let (at, of) = self.touched;
            if of < self.sweep.steps(at) {
                self.sweep.pieces(at, of, |piece| memory.touch(piece.alloc, piece.start, piece.end));
                self.touched = (at, of + 1);
            } else {
                self.touched = (at + 1, 0);
            }
        }
    }
}
