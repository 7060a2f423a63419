//! Checks that no other user can put something else in the place of a folder that the daemon writes to.
//!
//! Trap: every folder on the way counts, and every link with the folders on the way to its target. A check of the final
//! folder alone, or of the path without its links, misses a link that another user may point elsewhere at any moment.

use crate::process::users::is_another;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
/// In a folder with this bit only a file's owner renames or removes it, whoever else may write there.
const STICKY: u32 = 0o1000;
/// As many links as Linux follows for one path (path_resolution(7)).
const LINKS_MAX: u32 = 40;

/// A folder or link on the way to a path, and who can replace what it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaceable {
    pub at: PathBuf,
    pub who: String,
}

/// The first place on the way to an existing path where another user can replace something; `None`: there is none.
/// In a user namespace, folders whose owner is not mapped are accepted.
pub fn replaceable(path: &Path) -> std::io::Result<Option<Replaceable>> {
    let mut way = Way::default();
    way.follow(PathBuf::from("/"), &std::path::absolute(path)?)?;
    Ok(way.found)
}

/// Who else than its owner may write to a folder. A group of root, or one that has its owner's number and so is that
/// user's own (user private groups), counts as the owner.
pub fn other_writers(folder: &Metadata) -> Option<String> {
    let is_private = folder.gid() == 0 || folder.gid() == folder.uid();
    match folder.mode() {
        mode if mode & OTHERS_WRITE != 0 => Some("every user".into()),
        mode if mode & GROUP_WRITES != 0 && !is_private => Some(format!("group {}", folder.gid())),
        _ => None,
    }
}

#[derive(Debug, Default)]
struct Way {
    links: u32,
    found: Option<Replaceable>,
}

impl Way {
    /// Goes from the folder `at` along `path`, and returns where it ends, without links.
    fn follow(&mut self, mut at: PathBuf, path: &Path) -> std::io::Result<PathBuf> {
        for component in path.components() {
            match component {
                Component::RootDir => at = PathBuf::from("/"),
                Component::ParentDir => drop(at.pop()),
                Component::Normal(name) => at = self.enter(at, Path::new(name))?,
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok(at)
    }

    fn enter(&mut self, folder: PathBuf, name: &Path) -> std::io::Result<PathBuf> {
        self.check_folder(&folder)?;
        let next = folder.join(name);
        let found = std::fs::symlink_metadata(&next)?;
        if !found.is_symlink() {
            return Ok(next);
        }
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(std::io::Error::from_raw_os_error(libc::ELOOP));
        }
        self.check_owner(&next, &found);
        let target = std::fs::read_link(&next)?;
        self.follow(folder, &target)
    }

    fn check_folder(&mut self, folder: &Path) -> std::io::Result<()> {
        let found = std::fs::metadata(folder)?;
        self.check_owner(folder, &found);
        if let Some(who) = other_writers(&found).filter(|_| found.mode() & STICKY == 0) {
            self.found.get_or_insert(Replaceable { at: folder.into(), who });
        }
        Ok(())
    }

    fn check_owner(&mut self, at: &Path, found: &Metadata) {
        let uid = found.uid();
        if is_another(uid) {
            self.found.get_or_insert(Replaceable { at: at.into(), who: format!("uid {uid}") });
        }
    }
}
