//! The first example of the book's quick start, taken from its text, compiled and run as a reader would.

use eager_tests::{book, compiled, daemon::Daemon, has_toolchain, run, run_ok, text, tool};
use std::path::Path;
use std::process::Command;

#[test]
fn the_readers_program_runs_plain_and_under_a_daemon() {
    if !has_toolchain("quick start") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "vadd", &cuda_block());

    let plain = run_ok(Command::new(tool("eager")).args(["run", "--plain"]).arg(&program));
    assert!(plain.contains("0 of 1048576 wrong"), "plain: {plain}");

    let profile = run(Command::new(tool("eager")).arg("profile").arg(&program));
    // Three buffers of 4 MiB; each of the two launches touches one half.
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

/// Returns the program that the page says to save.
fn cuda_block() -> String {
    let page = book::read(&book::text_of(Path::new("docs/quick-start.md")));
    let block = page.blocks.into_iter().find(|block| block.is(&["cuda", "save", "vadd.cu"]));
    block.expect("a block `cuda save vadd.cu`").text
}
