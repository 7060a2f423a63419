//! Where the daemon lives: its run directory and the files in it.
//!
//! Trap: daemon and command line must come to the same directory from the same environment, so the rule is here and the
//! environment is a parameter.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Programs connect here (`SOCK_SEQPACKET`).
pub const CLIENT_SOCKET_NAME: &str = "client.sock";
/// `eager ps` and its like connect here (stream).
pub const ADMIN_SOCKET_NAME: &str = "admin.sock";
/// Metrics, health and the web page, over HTTP (stream).
pub const HTTP_SOCKET_NAME: &str = "http.sock";
/// The virtual GPU server; there only while the daemon's devices are virtual.
pub const VGPU_SOCKET_NAME: &str = "vgpu.sock";
/// State that the next daemon needs: the clients and what they hold.
pub const STATE_FILE_NAME: &str = "eagerd.state";
/// Durations of earlier runs of each program.
pub const HISTORY_FILE_NAME: &str = "eagerd.history";
/// Programs that have ended.
pub const ENDED_FILE_NAME: &str = "eagerd.ended";
/// Locked by the daemon while it lives; holds its process id, for messages only.
pub const LOCK_FILE_NAME: &str = "eagerd.lock";

/// Run directory of the daemon that serves every user of the machine.
const SYSTEM_RUN_DIR: &str = "/run/eager";

/// Default run directory of a daemon: `$XDG_RUNTIME_DIR/eager`, else `/run/eager` for root, else None.
pub fn default_run_dir(xdg_runtime_dir: Option<&OsStr>, is_root: bool) -> Option<PathBuf> {
    let own = session_run_dir(xdg_runtime_dir);
    own.or_else(|| is_root.then(|| PathBuf::from(SYSTEM_RUN_DIR)))
}

/// Run directories in which to look for a daemon by default: the session's own, then the system's.
pub fn run_dirs_to_look_in(xdg_runtime_dir: Option<&OsStr>) -> Vec<PathBuf> {
    session_run_dir(xdg_runtime_dir).into_iter().chain([PathBuf::from(SYSTEM_RUN_DIR)]).collect()
}

fn session_run_dir(xdg_runtime_dir: Option<&OsStr>) -> Option<PathBuf> {
    xdg_runtime_dir.filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join("eager"))
}

/// Folders in which an executable finds files that belong to it and are not commands: beside itself, as cargo builds
/// it, or in `lib/eager` beside its `bin`, as it is installed. Takes the executable's folder.
pub fn companion_folders(executables: &Path) -> [PathBuf; 2] {
    [executables.to_path_buf(), executables.join("../lib/eager")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_comes_before_the_system() {
        let dir = |xdg: Option<&str>, is_root| default_run_dir(xdg.map(OsStr::new), is_root);
        assert_eq!(dir(Some("/run/user/7"), true), Some(PathBuf::from("/run/user/7/eager")));
        assert_eq!(dir(Some(""), true), Some(PathBuf::from("/run/eager")));
        assert_eq!(dir(None, false), None);
        let looked_in = run_dirs_to_look_in(Some(OsStr::new("/run/user/7")));
        assert_eq!(looked_in, ["/run/user/7/eager", "/run/eager"].map(PathBuf::from));
        assert_eq!(run_dirs_to_look_in(None), [PathBuf::from("/run/eager")]);
    }
}
