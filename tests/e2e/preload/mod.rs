//! Programs that `eagercc` did not compile, under `eager run --preload`.

mod front;
mod libraries;
mod programs;
mod python;
mod sizes;

use eager_tests::daemon::Daemon;
use std::path::Path;
use std::process::Command;

/// A compiler switch: the host code stays as clang makes it, as in a program built by somebody else.
const NOT_INSTRUMENTED: &str = "--eager-no-instrument";

/// The command `eager run --preload PROGRAM` under a daemon.
fn preloaded(daemon: &Daemon, program: &Path) -> Command {
    let mut command = daemon.verb(&["run", "--preload"]);
    command.arg("--").arg(program);
    command
}
