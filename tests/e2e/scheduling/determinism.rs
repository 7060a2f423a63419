//! A daemon's decisions on real processes can be repeated: the pure core decides the same from the journal.

use eager_tests::{daemon::Daemon, has_toolchain, rodinia_arguments, rodinia_binary, run_ok, tool};
use std::process::Command;

#[test]
fn a_daemons_journal_replays_to_the_same_decisions() {
    if !has_toolchain("journal replay") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = eager_rodinia::program("bfs").expect("bfs");
    let binary = rodinia_binary(program);
    let daemon = Daemon::start(&["--virtual", "2xV100-16GB", "--time-scale", "0", "--policy", "eager-opt"]);
    let arguments = rodinia_arguments(&program.smoke, folder.path());
    let jobs: Vec<_> = (0..4).map(|_| daemon.run(&binary).args(&arguments).spawn().expect("start")).collect();
    for mut job in jobs {
        assert!(job.wait().expect("job").success());
    }
    let journal = daemon.journal();
    let lines = std::fs::read_to_string(&journal).expect("journal").lines().count();
    assert!(lines > 8, "a journal of only {lines} lines");
    run_ok(Command::new(tool("eager-sim")).arg("replay").arg(&journal));

    // With one decision changed, replay must notice, or the test proves nothing.
    let text = std::fs::read_to_string(&journal).expect("journal");
    let forged = folder.path().join("forged.jsonl");
    std::fs::write(&forged, text.replacen("\"class\":\"normal\"", "\"class\":\"eager\"", 1)).expect("write");
    let output =
        Command::new(tool("eager-sim")).arg("replay").arg(&forged).output().expect("start eager-sim");
    assert!(!output.status.success(), "replay accepted a forged journal");
}
