//! Files that are replaced as a whole, so that no reader ever sees half a file.
//!
//! The new file exists beside the old one for a moment, under its name with `.new`; only the daemon's user may read it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a new file and renames it over the old one. Returns it, open for more. A link or pipe at the new file's name is
/// removed, never followed.
pub fn replace(path: &Path, content: &[u8]) -> std::io::Result<File> {
    let fresh = with_suffix(path, ".new");
    let mut file = create_fresh(&fresh, 0o600)?;
    file.write_all(content)?;
    std::fs::rename(&fresh, path)?;
    Ok(file)
}

/// Creates a file in place of whatever has its name: another user may have put a link or a pipe there.
pub fn create_fresh(path: &Path, mode: u32) -> std::io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().create_new(true).write(true).mode(mode).open(path)
}

/// Reads a file of at most `bytes_max` bytes. Anything but a regular file, such as a pipe without a writer, is an error
/// and is not waited for.
pub fn read(path: &Path, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if found.len() > bytes_max {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Gives a second name to a file that is about to be replaced and was not fully understood. Nothing of it is lost, and
/// a daemon that is killed meanwhile leaves it in place. Returns what happened, in words.
pub fn keep_beside(path: &Path) -> String {
    let aside = with_suffix(path, ".bad");
    let _ = std::fs::remove_file(&aside);
    match std::fs::hard_link(path, &aside) {
        Ok(()) => format!("it is kept as {}", aside.display()),
        Err(error) => format!("it cannot be kept as {} ({error})", aside.display()),
    }
}

/// Renames a file that cannot be used, so that nothing of it is lost: it may be another version's. Returns what
/// happened, in words.
pub fn put_aside(path: &Path, why: &dyn std::error::Error) -> String {
    let aside = with_suffix(path, ".bad");
    let kept = match std::fs::rename(path, &aside) {
        Ok(()) => format!("it is kept as {}", aside.display()),
        Err(error) => format!("it cannot be kept as {} ({error})", aside.display()),
    };
    format!("cannot be used ({why}): {kept}")
}

pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
