//! Random programs print the same under `eager-live` as alone: memory that comes late, goes early and is promised to
//! the next buffer in between changes no result.
//!
//! This test runs a few; `live-programs --count N` runs any number. `EAGER_TEST_SEED=N` repeats a seed,
//! `EAGER_TEST_PROGRAMS=N` sets the number of programs; both are printed.

use eager_tests::live::{Tally, batches};
use eager_tests::{bin_dir, daemon::Daemon, has_toolchain, number};

#[test]
fn results_do_not_depend_on_when_memory_comes_and_goes() {
    if !has_toolchain("live programs") {
        return;
    }
    let (seed, programs) = (number("EAGER_TEST_SEED", 1), number("EAGER_TEST_PROGRAMS", 100));
    eprintln!("EAGER_TEST_SEED={seed} EAGER_TEST_PROGRAMS={programs}");
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    let keep = bin_dir().join("failed-live-programs");
    std::fs::create_dir_all(&keep).expect("folder for sources");
    let mut seen = Tally::default();
    for batch in batches(seed, usize::try_from(programs).expect("a count"), 60) {
        seen.add(&batch.check(&daemon, &keep).unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert!(seen.declared_dead > 0, "nothing was declared dead: {seen:?}");
    // Beliefs are random only in a shim with assertions.
    assert!(seen.believed > 0 || !cfg!(debug_assertions), "nothing was believed dead: {seen:?}");
}
