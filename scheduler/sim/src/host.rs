//! Memory of the host: admits jobs, limits staging, and counts the bytes in use.
//!
//! Trap: memory that backs managed memory counts only once it is in use, not for every job that might need some. Only
//! where every task's memory is managed is all of it set aside when the job is admitted, since all may be filled on
//! the host or evicted at once (specification S-508).

use crate::job::Job;

/// Host memory; all numbers in bytes.
#[derive(Debug)]
pub(crate) struct HostMemory {
    all: u64,
    /// True if every task's memory is managed.
    all_managed: bool,
    /// Set aside for admitted jobs.
    set_aside: u64,
    /// Part of `set_aside` for the jobs' own copies of data sent and fetched.
    copies: u64,
    /// Copies staged until a device is free.
    staged: u64,
    /// Memory that backs managed memory.
    managed: u64,
    most: u64,
}

impl HostMemory {
    /// Creates the state; `None` means unlimited memory.
    pub fn new(all: Option<u64>, all_managed: bool) -> HostMemory {
        let all = all.unwrap_or(u64::MAX);
        HostMemory { all, all_managed, set_aside: 0, copies: 0, staged: 0, managed: 0, most: 0 }
    }

    fn free(&self) -> u64 {
        let managed = if self.all_managed { 0 } else { self.managed };
        self.all.saturating_sub(self.set_aside + self.staged + managed)
    }

    /// Memory to set aside for a job. A job that needs more than all memory gets all, and runs alone.
    fn share_of(&self, job: &Job) -> u64 {
        let managed = if self.all_managed { job.requirement() } else { 0 };
        (job.host_bytes() + managed).min(self.all)
    }

    /// Sets a job's memory aside. Returns false if the job has to wait.
    pub fn admit(&mut self, job: &Job) -> bool {
        let share = self.share_of(job);
        if share > self.free() {
            return false;
        }
        self.set_aside += share;
        self.copies += job.host_bytes();
        self.note();
        true
    }

    pub fn leave(&mut self, job: &Job) {
        self.set_aside -= self.share_of(job);
        self.copies -= job.host_bytes();
    }

    /// Takes memory for staging. Returns false if there is no room.
    pub fn stage(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free();
        if fits {
            self.staged += bytes;
            self.note();
        }
        fits
    }

    pub fn unstage(&mut self, bytes: u64) {
        self.staged -= bytes;
    }

    /// Updates the memory that backs managed memory. Returns true if there is more room than before.
    pub fn note_managed(&mut self, bytes: u64) -> bool {
        let before = std::mem::replace(&mut self.managed, bytes);
        self.note();
        !self.all_managed && bytes < before
    }

    fn note(&mut self) {
        self.most = self.most.max(self.copies + self.staged + self.managed);
    }

    /// Most bytes in use at any time.
    pub fn bytes_max(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobOp, SizeLabel};

    /// Returns a job that copies and allocates `bytes`.
    fn job(bytes: u64) -> Job {
        let ops = vec![
            JobOp::TaskBegin { requirement: bytes, blocks: 0, threads_per_block: 0, lazy: false },
            JobOp::CopyToDevice { buffer: "b".into(), bytes, pinned: false },
        ];
        Job { name: "job".into(), class_label: SizeLabel::S, informed: true, nice: 0, ops }
    }

    #[test]
    fn what_stands_behind_managed_memory_keeps_others_out_while_it_is_there() {
        let mut host = HostMemory::new(Some(10), false);
        assert!(host.admit(&job(4)) && !host.note_managed(5));
        assert!(!host.admit(&job(4)) && !host.stage(2) && host.stage(1));
        assert!(host.note_managed(1), "room for more");
        assert!(host.admit(&job(4)));
        host.unstage(1);
        host.leave(&job(4));
        host.leave(&job(4));
        assert_eq!((host.free(), host.bytes_max()), (9, 10));
    }

    #[test]
    fn where_all_memory_is_managed_it_is_set_aside_when_the_job_comes() {
        let mut host = HostMemory::new(Some(10), true);
        assert!(host.admit(&job(4)) && !host.admit(&job(4)));
        host.note_managed(4);
        assert_eq!((host.free(), host.bytes_max()), (2, 8), "counted once, and used");
        host.leave(&job(4));
        assert!(host.admit(&job(100)), "alone, though larger than all");
    }
}
