//! Man pages and shell completions, written by the program itself: `PROGRAM --papers DIR` fills a folder laid out
//! like `share/`.
//!
//! Trap: nothing here may be written by hand, or it can differ from `--help`. The word `--papers` is checked before
//! the command line is parsed, since a program may require other words; it is for `packaging/manuals.sh`, not for
//! users.
#![forbid(unsafe_code)]

mod listed;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use listed::write_listed;

const FLAG: &str = "--papers";

/// If these words (without the program's name) request man pages and completions: the exit code after `write` was called with the
/// folder.
pub fn requested(
    mut words: impl Iterator<Item = OsString>,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Option<ExitCode> {
    if words.next()? != FLAG {
        return None;
    }
    let share = PathBuf::from(words.next()?);
    Some(match write(&share) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write man pages and completions to {}: {error}", share.display());
            ExitCode::FAILURE
        }
    })
}

/// Writes man pages in this section, one for each verb, and completions for bash, zsh and fish.
///
/// # Errors
/// When a file cannot be written.
pub fn write(mut command: Command, section: u8, share: &Path) -> io::Result<()> {
    command.build();
    let pages = share.join(format!("man/man{section}"));
    std::fs::create_dir_all(&pages)?;
    if command.has_subcommands() {
        // A page for each verb; verbs are in section 1, the section of user commands.
        assert_eq!(section, 1, "verbs of a daemon");
        clap_mangen::generate_to(command.clone(), &pages)?;
    } else {
        Man::new(command.clone()).section(section.to_string()).generate_to(&pages)?;
    }
    let name = command.get_name().to_owned();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, &name, &mut script);
        write_script(share, shell, &name, &script)?;
    }
    Ok(())
}

/// Writes a completion script where the shell looks for it.
fn write_script(share: &Path, shell: Shell, name: &str, script: &[u8]) -> io::Result<()> {
    let path = share.join(match shell {
        Shell::Bash => format!("bash-completion/completions/{name}"),
        Shell::Zsh => format!("zsh/vendor-completions/_{name}"),
        _ => format!("fish/vendor_completions.d/{name}.fish"),
    });
    std::fs::create_dir_all(path.parent().unwrap_or(share))?;
    std::fs::write(path, script)
}
