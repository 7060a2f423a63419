//! Metrics, health and the page over HTTP: on the owner's Unix socket, and on a TCP address if one is given.
//!
//! Trap: no TCP socket can be made once the daemon is confined, so the listening sockets (doors) must be opened before,
//! and handed down to a daemon that the watchdog starts. Requests are served by a thread of their own, never by the
//! loop that decides.

mod answer;
mod metrics;
mod request;
mod server;
mod source;

use crate::persistence::run_dir::RunDir;
use crate::process::exit::Unservable;
use crate::settings::http_address::{HttpAddress, HttpSettings};
use answer::Access;
use server::{Door, Server};
use source::AdminSource;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Doors that are open and not served yet.
#[derive(Debug)]
pub struct Doors {
    doors: Vec<(Door, Access)>,
    admin_socket: PathBuf,
    /// Address of the TCP door, and why one is missing.
    address: Option<SocketAddr>,
    pub problem: Option<String>,
}

/// Opens the doors: the owner's socket, the TCP sockets that were handed down, and the configured address if none of
/// them has it. `by_watchdog`: the daemon was restarted by its watchdog.
pub fn open(
    owners: UnixListener,
    handed_down: Vec<TcpListener>,
    run_dir: &RunDir,
    settings: &HttpSettings,
    by_watchdog: bool,
) -> anyhow::Result<Doors> {
    let HttpSettings { http, web_page, http_hosts } = settings.clone();
    let access = Access { has_page: true, names: http_hosts.clone() };
    let mut doors = vec![(Door::Unix(owners), access)];
    let (mut tcp_doors, mut problem) = (handed_down, None);
    let addresses: Vec<SocketAddr> = tcp_doors.iter().filter_map(|door| door.local_addr().ok()).collect();
    let is_there = |HttpAddress(wanted): &HttpAddress| addresses.iter().any(|there| serves(*wanted, *there));
    match http.filter(|wanted| !is_there(wanted)).map(|wanted| (wanted, tcp(wanted))) {
        None => {}
        Some((_, Ok(listener))) => tcp_doors.push(listener),
        // The daemon is confined already in this case, and may make no TCP socket.
        Some((HttpAddress(wanted), Err(error))) if by_watchdog => {
            problem =
                Some(format!("metrics are not served at {wanted} any more ({error}): restart the daemon"));
        }
        Some((HttpAddress(wanted), Err(error))) => {
            let said = format!("cannot serve at {wanted}: {error}; give another address with --http");
            return Err(Unservable(said).into());
        }
    }
    let address = tcp_doors.first().and_then(|door| door.local_addr().ok());
    let access = Access { has_page: web_page, names: http_hosts };
    doors.extend(tcp_doors.into_iter().map(|door| (Door::Tcp(door), access.clone())));
    Ok(Doors { doors, admin_socket: run_dir.admin_socket(), address, problem })
}

/// True if a socket at `there` is what was asked for. Port 0 is any port.
fn serves(wanted: SocketAddr, there: SocketAddr) -> bool {
    wanted == there || (wanted.port() == 0 && wanted.ip() == there.ip())
}

fn tcp(HttpAddress(address): HttpAddress) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Doors {
    /// Text for the ready line.
    pub fn summary(&self) -> String {
        self.address.map_or(String::new(), |address| format!(", http://{address}/metrics"))
    }

    /// Duplicates of the listening sockets.
    pub fn try_clone(&self) -> std::io::Result<Vec<OwnedFd>> {
        self.doors.iter().map(|(door, _)| door.as_fd().try_clone_to_owned()).collect()
    }

    /// Starts the thread. It ends with the process.
    pub fn serve(self) -> std::io::Result<()> {
        let server = || Server::new(self.doors, AdminSource::new(self.admin_socket)).run();
        std::thread::Builder::new().name("http".into()).spawn(server).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_or_more() {
        let shown = |text: &str| text.parse::<HttpAddress>().map(String::from);
        assert_eq!(shown("9690"), Ok("127.0.0.1:9690".into()));
        assert_eq!(shown("0.0.0.0:80"), Ok("0.0.0.0:80".into()));
        assert_eq!(shown("[::1]:9690"), Ok("[::1]:9690".into()));
        for wrong in ["", "localhost:9690", "70000", "127.0.0.1", ":9690"] {
            let error = shown(wrong).expect_err(wrong).to_string();
            assert!(error.contains("no address: give a port"), "{error}");
        }
    }
}
