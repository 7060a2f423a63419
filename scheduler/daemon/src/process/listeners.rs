//! The daemon's listening sockets: made by a service manager before the daemon starts (socket activation), handed down
//! when the watchdog restarts the daemon, or made by the daemon itself.
//!
//! Trap: a socket that was handed down is recognised by its address, never by its name or its position: units name and
//! order sockets as they like.

use crate::persistence::run_dir::RunDir;
use crate::process::exit::Unservable;
use crate::process::service_manager::{KeptDescriptors, ServiceManager};
use anyhow::{Context, bail};
use eager_shm::packet::BACKLOG;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{Backlog, SockType, UnixAddr, getsockname, getsockopt, listen, sockopt};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Uid;
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Name of a socket that this process made before its watchdog restarted it: its file is removed when the daemon ends.
pub const OWN: &str = "own";

/// The listening sockets, all non-blocking.
#[derive(Debug)]
pub struct Listeners {
    pub clients: OwnedFd,
    pub admin: UnixListener,
    pub http: UnixListener,
    /// TCP sockets that were handed down.
    pub tcp: Vec<TcpListener>,
}

/// Takes the sockets that were handed down, and makes the rest. A daemon of root is open to all users, any other only
/// to its own user; what a caller may ask is decided later, by its uid.
pub fn open(
    run_dir: &RunDir,
    kept: &mut KeptDescriptors,
    manager: &ServiceManager,
) -> anyhow::Result<Listeners> {
    // Sockets are created closed to other users, and opened afterwards as far as needed.
    umask(Mode::from_bits_truncate(0o177));
    let is_root = Uid::effective().is_root();
    if is_root && run_dir.vgpu_socket().exists() {
        open_to_all(&run_dir.vgpu_socket())?;
    }
    let clients = for_clients(run_dir, kept, manager)?;
    let path = run_dir.admin_socket();
    let admin = match at(kept, &path, SockType::Stream)? {
        Some(listener) => listener.into(),
        None => {
            let listener = bind(&path)?;
            if is_root {
                open_to_all(&path)?;
            }
            listener
        }
    };
    let path = run_dir.http_socket();
    let http = match at(kept, &path, SockType::Stream)? {
        Some(listener) => listener.into(),
        None => bind(&path)?,
    };
    let tcp = kept.take_if(is_tcp);
    tcp.iter().try_for_each(unblock).context("sockets of the service manager")?;
    Ok(Listeners { clients, admin, http, tcp: tcp.into_iter().map(TcpListener::from).collect() })
}

/// True for a listening TCP socket; no other kind has such an address.
fn is_tcp(socket: &OwnedFd) -> bool {
    let address = || TcpListener::from(socket.try_clone().ok()?).local_addr().ok();
    listens(socket) && address().is_some()
}

/// True if the socket listens at the file that is at `path` now.
pub fn is_at(socket: &OwnedFd, path: &Path) -> bool {
    let same = |bound: &Path| {
        let inode = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        inode(bound).is_some_and(|bound| inode(path) == Some(bound))
    };
    let address = getsockname::<UnixAddr>(socket.as_raw_fd());
    listens(socket) && address.is_ok_and(|address| address.path().is_some_and(same))
}

fn listens(socket: &OwnedFd) -> bool {
    getsockopt(socket, sockopt::AcceptConn).is_ok_and(|listens| listens)
}

/// Takes the handed-down socket at `path`.
fn at(kept: &mut KeptDescriptors, path: &Path, wanted: SockType) -> anyhow::Result<Option<OwnedFd>> {
    let Some(socket) = kept.take_if(|socket| is_at(socket, path)).pop() else { return Ok(None) };
    if getsockopt(&socket, sockopt::SockType).context("a socket of the service manager")? != wanted {
        let directive = if wanted == SockType::SeqPacket { "ListenSequentialPacket" } else { "ListenStream" };
        let said = "the service manager made a socket of another kind; its unit needs";
        bail!(Unservable(format!("{}: {said} {directive}=", path.display())));
    }
    unblock(&socket).with_context(|| format!("socket {}", path.display()))?;
    Ok(Some(socket))
}

fn unblock(socket: &OwnedFd) -> nix::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(socket, FcntlArg::F_GETFL)?);
    fcntl(socket, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}

fn for_clients(
    run_dir: &RunDir,
    kept: &mut KeptDescriptors,
    manager: &ServiceManager,
) -> anyhow::Result<OwnedFd> {
    let path = run_dir.client_socket();
    if let Some(listener) = kept.take_listener(&path) {
        return Ok(listener);
    }
    if let Some(listener) = at(kept, &path, SockType::SeqPacket)? {
        return Ok(listener);
    }
    let fresh = run_dir.fresh_client_socket();
    let said = || format!("socket {}", fresh.display());
    let listener = eager_shm::bind_seqpacket(&fresh).with_context(said)?;
    if Uid::effective().is_root() {
        open_to_all(&fresh)?;
    }
    // Renamed in one step, so that a program that comes back always finds a socket.
    std::fs::rename(&fresh, &path).with_context(said)?;
    manager.keep_listener(&listener, &path);
    Ok(listener)
}

fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    let said = || format!("socket {}", path.display());
    let listener = UnixListener::bind(path).with_context(said)?;
    listener.set_nonblocking(true).with_context(said)?;
    // As short as the queue of the client socket: a new connection waits behind all of it.
    listen(&listener, Backlog::new(BACKLOG)?).with_context(said)?;
    Ok(listener)
}

pub fn open_to_all(socket: &Path) -> anyhow::Result<()> {
    std::fs::set_permissions(socket, Permissions::from_mode(0o666))
        .with_context(|| format!("opening {} to all", socket.display()))
}
