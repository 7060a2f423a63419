//! Talks to a service manager (systemd): reports that the daemon is ready, and has the manager keep the sockets and a
//! pidfd of each client, so that a restart refuses no newcomer and need not find any client by its process id.
//!
//! Protocol: sd_notify(3) and `FDSTORE`. Trap: the manager may be slow, full, or keep nothing, so nothing here may wait
//! for it. A pidfd that it did not keep costs no client its grant: the state file has the process id and start time.

use eager_shm::packet;
use eager_units::ClientId;
use nix::sys::socket::{getsockopt, sockopt};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

const ENV_NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
const LISTENER: &str = "listener-";
const CLIENT: &str = "client-";

/// Sends datagrams to the manager; sends nothing if the daemon was started by hand.
#[derive(Debug, Default)]
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
}

impl ServiceManager {
    /// Connects to the socket that the environment (`get`) names.
    pub fn from_environment(get: impl Fn(&str) -> Option<OsString>) -> ServiceManager {
        ServiceManager { socket: get(ENV_NOTIFY_SOCKET).and_then(|place| connect(&place).ok()) }
    }

    pub fn is_present(&self) -> bool {
        self.socket.is_some()
    }

    pub fn ready(&self) {
        self.notify("READY=1", &[]);
    }

    pub fn stopping(&self) {
        self.notify("STOPPING=1", &[]);
    }

    /// Has the manager keep a listener. `path` is its socket file; a file that replaces it gives another name.
    pub fn keep_listener(&self, listener: &OwnedFd, path: &Path) {
        if let Some(name) = listener_name(path) {
            self.keep(&name, listener.as_fd());
        }
    }

    pub fn keep_client(&self, client: ClientId, pidfd: &OwnedFd) {
        self.keep(&client_name(client), pidfd.as_fd());
    }

    pub fn forget_client(&self, client: ClientId) {
        self.forget(&client_name(client));
    }

    fn keep(&self, name: &str, kept: BorrowedFd<'_>) {
        self.notify(&format!("FDSTORE=1\nFDNAME={name}"), &[kept.as_raw_fd()]);
    }

    fn forget(&self, name: &str) {
        self.notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[]);
    }

    fn notify(&self, message: &str, descriptors: &[i32]) {
        if let Some(socket) = &self.socket {
            // A message that cannot be sent is dropped, see the module.
            let _ = packet::send(socket.as_fd(), message.as_bytes(), descriptors);
        }
    }
}

fn connect(place: &OsStr) -> std::io::Result<UnixDatagram> {
    let address = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(place)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// Names the inode of a socket file: a listener whose file was replaced is of no use.
pub fn listener_name(path: &Path) -> Option<String> {
    Some(format!("{LISTENER}{}", std::fs::metadata(path).ok()?.ino()))
}

fn client_name(ClientId(id): ClientId) -> String {
    format!("{CLIENT}{id}")
}

/// Descriptors that the manager kept of an earlier daemon, or made for this one. Names may repeat.
#[derive(Debug, Default)]
pub struct KeptDescriptors(Vec<(String, OwnedFd)>);

impl KeptDescriptors {
    pub fn from_environment(get: impl Fn(&str) -> Option<OsString>) -> KeptDescriptors {
        KeptDescriptors(eager_shm::inherited::take(get))
    }

    /// Takes the listener of the socket that is at `path` now.
    pub fn take_listener(&mut self, path: &Path) -> Option<OwnedFd> {
        let listener = self.take_named(&listener_name(path)?)?;
        getsockopt(&listener, sockopt::AcceptConn).is_ok_and(|listens| listens).then_some(listener)
    }

    /// Takes the pidfd of a client's process.
    pub fn take_client(&mut self, client: ClientId) -> Option<OwnedFd> {
        self.take_named(&client_name(client))
    }

    fn take_named(&mut self, name: &str) -> Option<OwnedFd> {
        let found = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(found).1)
    }

    /// Takes all descriptors that fit.
    pub fn take_if(&mut self, wanted: impl Fn(&OwnedFd) -> bool) -> Vec<OwnedFd> {
        let (taken, rest) = std::mem::take(&mut self.0).into_iter().partition(|(_, kept)| wanted(kept));
        self.0 = rest;
        Vec::into_iter(taken).map(|(_, kept)| kept).collect()
    }

    pub fn has(&self, wanted: impl Fn(&str, &OwnedFd) -> bool) -> bool {
        self.0.iter().any(|(name, kept)| wanted(name, kept))
    }

    /// Has the manager drop the descriptors that were not taken.
    pub fn drop_untaken(&mut self, manager: &ServiceManager) {
        std::mem::take(&mut self.0).iter().for_each(|(name, _)| manager.forget(name));
    }
}
