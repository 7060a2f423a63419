//! The file with what runs of a program have learnt: `{"version":1,"buffers":{"0":{"uses":3,"runs":2}}}`.
//!
//! A file that another version wrote, or that is not in this format, is not used.

use crate::beliefs::Sites;
use crate::whole_file;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
/// Far larger than a file with all sites that are kept.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LearntFile {
    version: u32,
    buffers: Sites,
}

/// Reason why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum LearntError {
    #[error("cannot read it: {0}")]
    Read(#[from] std::io::Error),
    #[error("it was not written by an earlier run: {0}")]
    Parse(#[from] serde_json::Error),
    #[error("it has version {0}, this shim reads {VERSION}")]
    Version(u32),
    #[error("it has {0} bytes, at most {BYTES_MAX} are read")]
    Large(u64),
}

/// Path of a program's file in a folder.
pub fn path(folder: &Path, program: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = program.chars().map(|c| if is_plain(c) { c } else { '_' }).take(100).collect();
    folder.join(format!("{name}.learnt.json"))
}

/// Reads what earlier runs have learnt; empty if there is no file.
///
/// # Errors
/// The file cannot be read, or is not in this format.
pub fn load(path: &Path) -> Result<Sites, LearntError> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Sites::new()),
        Err(error) => return Err(error.into()),
        Ok(data) if data.len() > BYTES_MAX => return Err(LearntError::Large(data.len())),
        Ok(_) => {}
    }
    let file: LearntFile = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    if file.version == VERSION { Ok(file.buffers) } else { Err(LearntError::Version(file.version)) }
}

/// Writes the file as a whole or not at all.
///
/// # Errors
/// The error of the system.
pub fn save(path: &Path, buffers: Sites) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_string(&LearntFile { version: VERSION, buffers })?;
    whole_file::write(path, &(text + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beliefs::Learnt;

    #[test]
    fn what_is_saved_is_loaded_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().expect("folder");
        let path = path(&folder.path().join("new"), "my program/2");
        assert_eq!(load(&path).expect("no file is no error"), Sites::new());
        let sites = Sites::from([(0, Learnt { uses: 3, runs: 2 })]);
        save(&path, sites.clone()).expect("save");
        assert_eq!(load(&path).expect("load"), sites);
        assert_eq!(path.file_name().expect("a name"), "my_program_2.learnt.json");
        assert_eq!(std::fs::read_dir(path.parent().expect("folder")).expect("list").count(), 1);
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("a.json");
        for (text, reason) in [
            ("", "not written by an earlier run"),
            (r#"{"version":2,"buffers":{}}"#, "version 2"),
            (r#"{"version":1,"buffers":{"x":{}}}"#, "not written by an earlier run"),
            (&" ".repeat(2 << 20), "at most"),
        ] {
            std::fs::write(&path, text).expect("write");
            let error = load(&path).expect_err("refused").to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert!(load(folder.path()).is_err(), "a folder");
    }
}
