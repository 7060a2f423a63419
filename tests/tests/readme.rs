//! The README's own example, taken from its text, compiled and run as a reader would.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, root, run, run_ok, text, tool};
use std::process::Command;

#[test]
fn the_readers_program_runs_plain_and_under_a_daemon() {
    if !has_toolchain("README example") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "vadd", &cuda_block());

    let plain = run_ok(Command::new(tool("eager")).args(["run", "--plain"]).arg(&program));
    assert!(plain.contains("0 of 1048576 wrong"), "plain: {plain}");

    let profile = run(Command::new(tool("eager")).arg("profile").arg(&program));
    // Three buffers of 4 MiB, of which each of the two launches touches one half.
    let row = text(&profile).lines().find(|line| line.ends_with(" add")).map(str::to_owned).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        (cells[0], &cells[2..7]),
        ("2", &["12.000", "6.000", "6.000", "6.000", "one-pass"][..]),
        "{row}"
    );

    let daemon = Daemon::start(&["--virtual", "2xV100-16GB", "--time-scale", "0"]);
    let managed = run_ok(&mut daemon.run(&program));
    assert!(managed.contains("0 of 1048576 wrong"), "under eagerd: {managed}");
    let journal = std::fs::read_to_string(daemon.journal()).expect("journal");
    assert!(journal.contains("\"bind\""), "the daemon bound no task:\n{journal}");
}

/// The one CUDA block of the README.
fn cuda_block() -> String {
    let text = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let block = text.split("```cuda\n").nth(1).and_then(|rest| rest.split("```").next());
    block.expect("a ```cuda block").to_string()
}
