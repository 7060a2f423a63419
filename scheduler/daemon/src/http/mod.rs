//! Metrics, health and the page over HTTP: on a Unix socket of the owner's, and on a TCP address where one was given.
//!
//! Trap: no TCP socket can be made once the daemon is confined, so the doors are opened before, and handed down to a daemon
//! that the watchdog starts; and what comes through
//! them is served by a thread of its own, never by the loop that decides.

mod answer;
mod request;
mod server;
mod source;

use crate::exit::Unservable;
use crate::run_dir::RunDir;
use answer::Access;
use serde::{Deserialize, Serialize};
use server::{Door, Server};
use source::AdminSource;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;

/// What is served to whom beyond the owner.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct HttpSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpAddress>,
    /// On the address as well.
    pub web_page: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http_hosts: Vec<String>,
}

/// `[ADDRESS:]PORT`; without an address this machine only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpAddress(SocketAddr);

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<HttpAddress, String> {
        let port =
            text.parse::<u16>().ok().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        port.or_else(|| text.parse().ok())
            .map(HttpAddress)
            .ok_or_else(|| format!("`{text}` is no address: give a port, such as 9690, or 127.0.0.1:9690"))
    }
}

impl TryFrom<String> for HttpAddress {
    type Error = String;

    fn try_from(text: String) -> Result<HttpAddress, String> {
        text.parse()
    }
}

impl From<HttpAddress> for String {
    fn from(address: HttpAddress) -> String {
        address.0.to_string()
    }
}

/// Open, and not served yet.
#[derive(Debug)]
pub struct Doors {
    doors: Vec<(Door, Access)>,
    admin_socket: PathBuf,
    /// Where the TCP door is, and what keeps it closed.
    address: Option<SocketAddr>,
    pub problem: Option<String>,
}

/// The owner's socket, the TCP sockets that were handed down, and the address of the settings if none of them is there.
/// `by_watchdog`: the daemon was started again by its own.
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
        // It is confined already then, and may make no such socket.
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

/// Is a socket at `there` what was asked for? Port 0 is any.
fn serves(wanted: SocketAddr, there: SocketAddr) -> bool {
    wanted == there || (wanted.port() == 0 && wanted.ip() == there.ip())
}

fn tcp(HttpAddress(address): HttpAddress) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Doors {
    /// For the line that says what is ready.
    pub fn summary(&self) -> String {
        self.address.map_or(String::new(), |address| format!(", http://{address}/metrics"))
    }

    /// The same sockets once more.
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
            let error = shown(wrong).expect_err(wrong);
            assert!(error.contains("no address: give a port"), "{error}");
        }
    }
}
