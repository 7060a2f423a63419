//! A kernel on its way: how far it is, where it faults next, and what it holds of the device.
//!
//! Trap: a position is time of its own, from the start of its first launch; it does not pass while the kernel waits, and
//! is negative while it is being launched.

use crate::kernel::{Sweep, Work};
use crate::residency::Memory;

#[derive(Debug)]
pub struct KernelRun {
    pub priority: i32,
    pub work: Work,
    /// One launch with all its blocks resident or remote.
    pub launch_ns: f64,
    pub launches: u32,
    pub sweep: Sweep,
    /// Where it faults next; `None`: it runs to its end.
    pub target: Option<(u32, u32)>,
    pub faulting: bool,
    /// Steps before this one are paid for, even if their blocks are stolen before they ran.
    pub paid: (u32, u32),
    /// [`Memory::departures`] when `target` was found.
    pub departures: u64,
    /// When the launch that is on the device came to the head of its stream.
    pub arrived: u64,
    /// Part of the SMs' block slots that it has.
    pub placed: f64,
    /// Its next stop is the end of a launch that others wait for, not its target.
    pub stops_at_launch: bool,
    /// Steps before this one are known to the order of eviction as used.
    pub touched: (u32, u32),
}

impl KernelRun {
    /// Own time from the start of the first launch to the start of a step.
    pub fn position(&self, at: Option<(u32, u32)>) -> f64 {
        match at {
            None => self.launch_ns * f64::from(self.launches),
            Some((launch, step)) => {
                self.launch_ns * (f64::from(launch) + f64::from(step) / f64::from(self.sweep.steps(launch)))
            }
        }
    }

    /// First step not begun at a position.
    pub fn step_after(&self, position: f64) -> (u32, u32) {
        let launch = (position / self.launch_ns).floor().clamp(0.0, f64::from(self.launches - 1)) as u32;
        let part = (position / self.launch_ns - f64::from(launch)).max(0.0);
        let steps = self.sweep.steps(launch);
        (launch, (part * f64::from(steps) - 1e-6).ceil().max(0.0) as u32)
    }

    /// Own time that is left of the launch at a position.
    pub fn left_of_launch(&self, position: f64) -> f64 {
        let launch = (position / self.launch_ns + 1e-9).floor().max(0.0);
        (launch + 1.0) * self.launch_ns - position
    }

    /// Slots that it will not give back before its launch or its fault is over.
    pub fn kept(&self) -> f64 {
        if self.faulting || self.work.one_wave { self.placed } else { 0.0 }
    }

    /// Tells the order of eviction what was used up to a position. Of what passed since the last time only the last two
    /// launches are told one by one: they come last in the order whatever was before.
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
