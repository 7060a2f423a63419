//! Draws schedules of several threads that begin and end sites, allocate, use and free memory, and launch, over a daemon
//! that answers late, refuses and binds where it likes and a device that may have no room, and compares what the daemon
//! is told with books that are kept from the calls alone.
//!
//! A schedule is one entry into the client at a time, of any thread that can go on, so that each interleaving can be
//! drawn and a failure is a seed. Trap: books that read the client's accounts would agree with any fault of them. They
//! may use only the calls, what the client returned, and what was sent.

#[path = "lifecycle/books.rs"]
mod books;
#[path = "lifecycle/daemon.rs"]
mod daemon;
#[path = "lifecycle/memory.rs"]
mod memory;
#[path = "lifecycle/program.rs"]
mod program;

use program::{Fault, Program};

const SEEDS: u64 = 6000;
const STEPS: usize = 120;

fn run(seed: u64, fault: Fault) -> Result<(), String> {
    let mut program = Program::new(seed, fault);
    for _ in 0..STEPS {
        program.step()?;
    }
    program.finish()
}

#[test]
fn the_daemon_holds_what_the_tasks_need_whatever_the_threads_do() {
    for seed in 0..SEEDS {
        if let Err(wrong) = run(seed, Fault::None) {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn the_books_find_each_mistake_of_a_user() {
    let faults = [
        Fault::ForgottenShrink,
        Fault::ForgottenEnd,
        Fault::SwappedRequests,
        Fault::ForgottenUndo,
        Fault::ForgottenGrant,
        Fault::FreedTwice,
        Fault::StaleCell,
    ];
    for fault in faults {
        assert!((0..SEEDS).any(|seed| run(seed, fault).is_err()), "{fault:?} is not found");
    }
}
