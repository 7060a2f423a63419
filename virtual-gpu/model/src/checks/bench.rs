//! Drives a model to the end of the submitted operations, for checks and tests that read like scripts.
//!
//! Everything here panics on a mistake of the script; it is not an interface for programs.

use crate::*;

pub const GIB: u64 = 1 << 30;
pub const MIB: u64 = 1 << 20;

/// A model with one card and a clock that stays where the last wait ended.
#[derive(Debug)]
pub struct Bench {
    pub model: Model,
    pub now: Nanos,
    pub done: Vec<Completion>,
}

pub fn quiet() -> Options {
    Options { context_bytes: Some(0), context_create: Nanos(0), ..Options::default() }
}

pub fn whole(alloc: AllocId, bytes: u64, pattern: Pattern) -> Access {
    Access { alloc, ranges: vec![Range { offset: 0, bytes }], pattern, density: 1.0, write: true }
}

/// A kernel that streams through all of `accesses` at DRAM speed, in `launches` launches.
pub fn sweep(accesses: Vec<Access>, launches: u32) -> Kernel {
    let dram_bytes = accesses.iter().flat_map(|a| &a.ranges).map(|r| r.bytes).sum();
    Kernel {
        priority: 0,
        launches,
        blocks: 1 << 20,
        threads_per_block: 256,
        shared_bytes_per_block: 0,
        registers_per_thread: 0,
        dram_bytes,
        flops32: 0,
        flops64: 0,
        accesses,
    }
}

impl Bench {
    pub fn new(card: Card, options: Options) -> Bench {
        Bench { model: Model::new(vec![card], options), now: Nanos(0), done: Vec::new() }
    }

    pub fn context(&mut self) -> ContextId {
        let made = self.model.context_create(self.now, 0).unwrap();
        self.ready(made)
    }

    pub fn alloc(&mut self, context: ContextId, bytes: u64, kind: AllocKind) -> AllocId {
        let made = self.model.alloc(self.now, context, bytes, kind).unwrap();
        self.ready(made)
    }

    fn ready<T>(&mut self, made: Made<T>) -> T {
        if let Some(op) = made.ready {
            self.wait(op);
        }
        made.id
    }

    pub fn managed(&mut self, context: ContextId, bytes: u64) -> AllocId {
        self.alloc(context, bytes, AllocKind::Managed)
    }

    /// Allocates managed memory whose content is on the host.
    pub fn on_host(&mut self, context: ContextId, bytes: u64) -> AllocId {
        let alloc = self.managed(context, bytes);
        self.run(context, Op::HostAccess { alloc, range: Range { offset: 0, bytes } });
        alloc
    }

    pub fn submit(&mut self, context: ContextId, op: Op) -> OpId {
        self.model.submit(self.now, context, op).unwrap()
    }

    /// Advances the clock until `op` has ended.
    pub fn wait(&mut self, op: OpId) -> Completion {
        loop {
            if let Some(done) = self.done.iter().find(|d| d.op == op) {
                self.now = self.now.max(done.at);
                return done.clone();
            }
            let next = self.model.next_event().expect("something is under way");
            self.model.advance(next, &mut self.done);
            self.now = self.now.max(next);
        }
    }

    /// Runs one operation alone; returns its duration in seconds and its statistics.
    pub fn run(&mut self, context: ContextId, op: Op) -> (f64, OpStats) {
        let before = self.now;
        let id = self.submit(context, op);
        let done = self.wait(id);
        ((done.at.0 - before.0) as f64 / 1e9, done.stats)
    }

    pub fn prefetch(&mut self, context: ContextId, alloc: AllocId, bytes: u64) -> (f64, OpStats) {
        let range = Range { offset: 0, bytes };
        self.run(context, Op::Prefetch { alloc, range, to: Location::Device })
    }
}
