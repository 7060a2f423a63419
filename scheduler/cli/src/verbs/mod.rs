//! Verbs of `eager`: one file for each verb, or for a few related verbs.
//!
//! Trap: the comments on a verb's flags are its documentation: help, completions and man pages are made from them.

pub mod act;
pub mod calibrate;
pub mod choice;
pub mod doctor;
pub mod history;
pub mod limit;
pub mod look;
pub mod manuals;
pub mod mps;
pub mod preload;
pub mod profile;
pub mod ps;
pub mod reserve;
pub mod run;
pub mod submit;
pub mod top;
pub mod trace;

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct WhichDaemon {
    /// The daemon's run directory [default: that of EAGER_SOCKET, else $XDG_RUNTIME_DIR/eager, or /run/eager if
    /// only there is a daemon].
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

/// Flags of every verb that asks the daemon something.
#[derive(Debug, Clone, Args)]
pub struct Question {
    #[command(flatten)]
    pub which: WhichDaemon,
    /// Print the daemon's answer as JSON: sizes in bytes, times in milliseconds.
    #[arg(long)]
    pub json: bool,
}
