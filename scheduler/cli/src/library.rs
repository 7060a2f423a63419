//! Lets the loader find the stand-in runtime under the name that programs ask for.
//!
//! Trap: several `eager run` start at once, so the link appears by one atomic rename and is never seen half made.

use anyhow::{Context, bail};
use eager_proto::place::companion_folders;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// As cargo builds it, and as programs of CUDA 13 ask for it.
const LIBRARY_13: (&str, &str) = ("libcudart.so", "libcudart.so.13");
/// The same for CUDA 12; left out where it was not built.
const LIBRARY_12: (&str, &str) = ("libcudart12.so", "libcudart.so.12");
const SHIM: &str = "libeager.so";
/// Folder, beside the libraries, that holds nothing but the links: only this one goes into the loader's path.
const FOLDER: &str = "eager-virtual";

/// The folder with the stand-in runtime, if it is there. `executables` is where `eager` itself lies.
pub fn stand_in(executables: &Path) -> Option<PathBuf> {
    companion_folders(executables).into_iter().find(|folder| folder.join(LIBRARY_13.0).is_file())
}

/// The library that compiled programs are linked with, if it is there.
pub fn shim(executables: &Path) -> Option<PathBuf> {
    companion_folders(executables)
        .into_iter()
        .map(|folder| folder.join(SHIM))
        .find(|library| library.is_file())
}

/// The folder for `LD_LIBRARY_PATH`; makes it if it is not there, which an installation never needs. `executables` is
/// where `eager` itself lies.
pub fn folder(executables: &Path) -> anyhow::Result<PathBuf> {
    let Some(libraries) = stand_in(executables) else {
        bail!(
            "the stand-in runtime {} is missing: `make build` makes it, `make install` installs it",
            companion_folders(executables)[0].join(LIBRARY_13.0).display()
        );
    };
    let folder = libraries.join(FOLDER);
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
    let cannot = || format!("cannot make {}", link.display());
    DirBuilder::new().recursive(true).mode(0o755).create(folder).with_context(cannot)?;
    let fresh = folder.join(format!("{soname}.{}", std::process::id()));
    symlink(library, &fresh).with_context(cannot)?;
    std::fs::rename(&fresh, &link).with_context(cannot)
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
        let library12 = dir.path().join("libcudart12.so");
        std::fs::write(&library12, "").expect("library");
        folder(dir.path()).expect("with both");
        assert_eq!(std::fs::read_link(made.join("libcudart.so.12")).expect("link"), library12);
    }

    #[test]
    fn an_installation_is_taken_as_it_is() {
        let dir = tempfile::tempdir().expect("folder");
        let (executables, installed) = (dir.path().join("bin"), dir.path().join("lib/eager/eager-virtual"));
        for folder in [&executables, &installed] {
            std::fs::create_dir_all(folder).expect("folder");
        }
        std::fs::write(dir.path().join("lib/eager/libcudart.so"), "").expect("library");
        symlink("../libcudart.so", installed.join("libcudart.so.13")).expect("link");
        assert_eq!(folder(&executables).expect("found"), executables.join("../lib/eager/eager-virtual"));
        let link = std::fs::read_link(installed.join("libcudart.so.13")).expect("link");
        assert_eq!(link, Path::new("../libcudart.so"), "it was made again");
    }
}
