//! Random programs print the same under `eager-live` as on their own: memory that comes late, goes early and is promised
//! to the next buffer in between changes no result.
//!
//! `EAGER_TEST_SEED=N` repeats a seed, `EAGER_TEST_PROGRAMS=N` sets how many functions a batch has; both are printed.

use eager_tests::contents::file;
use eager_tests::{bin_dir, daemon::Daemon, eagercc, has_toolchain, run, text};
use std::path::Path;
use std::process::Output;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

fn run_under(daemon: &Daemon, program: &Path, variables: &[(&str, &str)]) -> Output {
    let output = run(daemon.run(program).envs(variables.iter().copied()));
    assert!(output.status.success(), "{}", text(&output));
    output
}

fn count(haystack: &str, needle: &str) -> u64 {
    let rest = haystack.split(needle).nth(1).unwrap_or_default();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[test]
fn results_do_not_depend_on_when_memory_comes_and_goes() {
    if !has_toolchain("live programs") {
        return;
    }
    let (seed, programs) = (number("EAGER_TEST_SEED", 1), number("EAGER_TEST_PROGRAMS", 60));
    eprintln!("EAGER_TEST_SEED={seed} EAGER_TEST_PROGRAMS={programs}");
    let folder = tempfile::tempdir().expect("folder");
    let (source, program) = (folder.path().join("batch.cu"), folder.path().join("batch"));
    std::fs::write(&source, file(seed, usize::try_from(programs).expect("a count"))).expect("write batch.cu");
    eagercc(&[&source], &program);
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    let plain = run_under(&daemon, &program, &[("EAGER_DISABLE", "1")]);
    assert!(plain.stdout.len() > 100, "the batch prints too little");
    for staging in ["8000000000", "100000", "0"] {
        let live = run_under(&daemon, &program, &[("EAGER_STAGING_BYTES", staging), ("EAGER_STATS", "1")]);
        let said = String::from_utf8_lossy(&live.stderr);
        if live.stdout != plain.stdout {
            let kept = bin_dir().join("failed-live-batch.cu");
            std::fs::copy(&source, &kept).expect("keep the batch");
            panic!("other results with EAGER_STAGING_BYTES={staging}, kept in {}: {said}", kept.display());
        }
        assert!(count(&said, "before they were freed: ") > 0, "nothing was declared dead: {said}");
        assert_eq!(count(&said, "used after that: "), 0, "{said}");
        assert!(!said.contains("WRONG"), "{said}");
    }
}
