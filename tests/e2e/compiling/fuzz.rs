//! A short, repeatable run of the plugin's fuzzer; `cargo run -p eager-tests --bin fuzz-plugin` runs it longer.

use eager_tests::fuzz::{fuzz, seeds};
use eager_tests::{bin_dir, has_toolchain};

const MUTANTS: u64 = 600;

#[test]
fn mutated_modules_neither_crash_the_plugin_nor_make_it_hang() {
    if !has_toolchain("fuzz of the plugin") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let seeds = seeds(folder.path(), 2);
    let jobs = std::thread::available_parallelism().map_or(2, usize::from);
    let tally = fuzz(&seeds, 0, jobs, &bin_dir().join("fuzz-crashers"), &|done| done < MUTANTS);
    eprintln!("{} mutants, {} invalid, {} refused", tally.mutants, tally.invalid, tally.refused);
    assert_eq!(tally.failures, [""; 0], "{} of {} mutants", tally.failures.len(), tally.mutants);
    assert!(tally.invalid * 2 < tally.mutants, "more than half of the mutants are no valid IR: {tally:?}");
}
