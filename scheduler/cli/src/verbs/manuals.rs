//! `eager completions` and `eager man`: completions and man pages, made from the same flags as `--help`.
//!
//! Trap: do not write any of it by hand, so that it always agrees with the flags.

use crate::print;
use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct CompletionsFlags {
    /// For this shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManFlags {
    /// Folder for the pages, one for each verb; created if it is missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub fn completions(flags: &CompletionsFlags, mut command: Command) {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut command, "eager", &mut text);
    print(&String::from_utf8_lossy(&text));
}

/// Writes man pages and completions of this program and of the compiler driver, which does not use clap's flags.
pub fn all(share: &Path, command: Command) -> std::io::Result<()> {
    eager_manuals::write(command, 1, share)?;
    eager_manuals::write_listed("eagercc", env!("CARGO_PKG_VERSION"), eagercc::run::HELP, share)
}

/// Writes the pages, and returns the line that reports it.
pub fn man(flags: &ManFlags, command: Command) -> anyhow::Result<String> {
    let named = || format!("cannot write man pages to {}", flags.out.display());
    std::fs::create_dir_all(&flags.out).with_context(named)?;
    clap_mangen::generate_to(command, &flags.out).with_context(named)?;
    Ok(format!("the man pages are in {0}: `man -l {0}/eager.1`\n", flags.out.display()))
}
