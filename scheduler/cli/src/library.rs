//! Finds the stand-in runtime and the shim.
//!
//! Trap: `eager` may be installed without them.

use anyhow::bail;
use eager_proto::place::companion_folders;
use eagercc::stand_in::{LIBRARY_13, link_all};
use std::path::{Path, PathBuf};

const SHIM: &str = "libeager.so";
/// The library that leads the calls of other programs to the shim.
pub const FRONT: &str = "libeager_preload.so";

/// Returns the folder with the stand-in runtime, if there is one. `executables` is the folder of `eager` itself.
pub fn stand_in(executables: &Path) -> Option<PathBuf> {
    companion_folders(executables).into_iter().find(|folder| folder.join(LIBRARY_13.0).is_file())
}

/// Returns the library that compiled programs are linked with, if it is there.
pub fn shim(executables: &Path) -> Option<PathBuf> {
    companion(executables, SHIM)
}

/// Returns the library for `eager run --preload`, if it is there.
pub fn front(executables: &Path) -> Option<PathBuf> {
    companion(executables, FRONT)
}

fn companion(executables: &Path, name: &str) -> Option<PathBuf> {
    let mut libraries = companion_folders(executables).into_iter().map(|folder| folder.join(name));
    libraries.find(|library| library.is_file())
}

/// Returns the folder for `LD_LIBRARY_PATH`. Creates it if needed, which never happens in an installation.
/// `executables` is the folder of `eager` itself.
pub fn folder(executables: &Path) -> anyhow::Result<PathBuf> {
    let Some(libraries) = stand_in(executables) else {
        bail!(
            "the stand-in runtime {} is missing: `make build` makes it, `make install` installs it",
            companion_folders(executables)[0].join(LIBRARY_13.0).display()
        );
    };
    link_all(&libraries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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
