//! Cost to a program before each kernel whose gate is open: one load from the page that the daemon writes. The goal is
//! 5 ns.
//!
//! `cargo bench -p eagerd --bench gate`; flags behind `--` are Criterion's.

#[path = "../tests/daemon/support.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod support;

use criterion::Criterion;
use std::hint::black_box;
use support::{Daemon, slot};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("bench");
    criterion.bench_function("gate check, open", |bencher| bencher.iter(|| black_box(client.gate(slot(0)))));
    criterion.final_summary();
}
