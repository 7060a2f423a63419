//! Lets the loader find the stand-in runtime under the name that programs ask for.
//!
//! Trap: several `eager run` start at once, so the link appears by one atomic rename and is never seen half made.

use anyhow::{Context, bail};
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// As cargo builds it.
const BUILT_NAME: &str = "libcudart.so";
/// As programs of CUDA 13 ask for it.
const SONAME: &str = "libcudart.so.13";
/// Folder, beside the executables, that holds nothing but the link: only this one goes into the loader's path.
const FOLDER: &str = "eager-virtual";

/// The folder for `LD_LIBRARY_PATH`; makes it if it is not there. `executables` is where `eager` itself lies.
pub fn folder(executables: &Path) -> anyhow::Result<PathBuf> {
    let library = executables.join(BUILT_NAME);
    if !library.is_file() {
        bail!(
            "the stand-in runtime {} is missing: build it with `cargo build -p eager-cudart`",
            library.display()
        );
    }
    let folder = executables.join(FOLDER);
    let link = folder.join(SONAME);
    if std::fs::read_link(&link).is_ok_and(|target| target == library) {
        return Ok(folder);
    }
    let cannot = || format!("cannot make {}", link.display());
    DirBuilder::new().recursive(true).mode(0o755).create(&folder).with_context(cannot)?;
    let fresh = folder.join(format!("{SONAME}.{}", std::process::id()));
    symlink(&library, &fresh).with_context(cannot)?;
    std::fs::rename(&fresh, &link).with_context(cannot)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_made_once_and_repaired() {
        let dir = tempfile::tempdir().expect("folder");
        let error = folder(dir.path()).expect_err("no library yet").to_string();
        assert!(error.contains("libcudart.so is missing"), "{error}");
        let library = dir.path().join("libcudart.so");
        std::fs::write(&library, "").expect("library");
        let made = folder(dir.path()).expect("made");
        let link = made.join("libcudart.so.13");
        assert_eq!(std::fs::read_link(&link).expect("link"), library);
        std::fs::remove_file(&link).expect("remove");
        symlink("/nowhere", &link).expect("wrong link");
        assert_eq!(folder(dir.path()).expect("again"), made);
        assert_eq!(std::fs::read_link(&link).expect("link"), library);
        assert_eq!(std::fs::read_dir(&made).expect("folder").count(), 1, "something was left behind");
    }
}
