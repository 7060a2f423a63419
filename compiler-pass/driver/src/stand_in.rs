//! The stand-in CUDA runtime under the names that programs ask for, in a folder with nothing else in it.
//!
//! Trap: several programs make the links at once, so each link must appear by one atomic rename and never half made.

use anyhow::Context;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Name of the library as cargo builds it, and as programs of CUDA 13 ask for it.
pub const LIBRARY_13: (&str, &str) = ("libcudart.so", "libcudart.so.13");
/// Names of the library for CUDA 12; left out if it was not built.
pub const LIBRARY_12: (&str, &str) = ("libcudart12.so", "libcudart.so.12");
/// Name of the folder beside the libraries. Only this folder goes into a loader's path.
const FOLDER: &str = "eager-virtual";

/// Folder of the links, beside the libraries.
#[must_use]
pub fn folder_beside(libraries: &Path) -> PathBuf {
    libraries.join(FOLDER)
}

/// Returns the folder of the links; makes missing links, which an installation never needs.
///
/// # Errors
/// If a link cannot be made.
pub fn link_all(libraries: &Path) -> anyhow::Result<PathBuf> {
    let folder = folder_beside(libraries);
    for (built_name, soname) in [LIBRARY_13, LIBRARY_12] {
        let library = libraries.join(built_name);
        if library.is_file() {
            link(&folder, &library, soname)?;
        }
    }
    Ok(folder)
}

fn link(folder: &Path, library: &Path, soname: &str) -> anyhow::Result<()> {
    let link = folder.join(soname);
    if link.canonicalize().is_ok_and(|found| library.canonicalize().is_ok_and(|library| library == found)) {
        return Ok(());
    }
    let cannot = || {
        let whoever = "whoever may write there makes it by `eager run --plain true`";
        format!("cannot make {} ({whoever})", link.display())
    };
    DirBuilder::new().recursive(true).mode(0o755).create(folder).with_context(cannot)?;
    let fresh = folder.join(format!("{soname}.{}", std::process::id()));
    symlink(library, &fresh).with_context(cannot)?;
    std::fs::rename(&fresh, &link).with_context(cannot)
}
