//! Reads files that an administrator writes, and parses the settings file.
//!
//! Trap: the file is read again while the daemon serves, so nothing here may wait for whoever writes it.

use crate::settings::config::{Config, ConfigError, Settings, World};
use eager_core::Options;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// A larger file, or a device that gives bytes without end, was not written by an administrator.
const BYTES_MAX: u64 = 1 << 20;

/// Names of the settings under `[options]`.
fn option_names() -> Vec<String> {
    let table = toml::Table::try_from(Options::default()).unwrap_or_default();
    table.keys().cloned().collect()
}

/// Reads a file alone, without flags, on a machine where nothing is set; for fuzzers.
pub fn read(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    parse(path, text)?.resolve(World { xdg_runtime_dir: None, is_root: true })
}

/// Reads the text of a file that an administrator wrote: settings, devices, memory in use. Never waits, as a daemon that
/// serves reads it too.
///
/// # Errors
/// It is a pipe, which cannot be read again on SIGHUP; or too large for such a file.
pub fn text(path: &Path) -> std::io::Result<String> {
    let wrong = |why: &str| std::io::Error::new(ErrorKind::InvalidInput, why);
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(wrong("it is a pipe, which cannot be read more than once: give a file"));
    }
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(wrong("it is larger than 1 MiB"));
    }
    Ok(text)
}

pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let words = eager_plainly::Words {
        noun: "setting",
        unknown: "there is no setting",
        others: "`eagerd --help` lists all settings",
        elsewhere: option_names(),
    };
    eager_plainly::parse(text, &words).map_err(|wrong| {
        let eager_plainly::FileError { line, column, message, .. } = wrong;
        ConfigError::Malformed { path: path.into(), line, column, message }
    })
}
