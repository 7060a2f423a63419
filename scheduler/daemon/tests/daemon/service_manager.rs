//! A restart under a service manager that keeps descriptors, as systemd does; a socket and a thread play the manager.
//!
//! Trap: the manager keeps what the messages sent before the daemon was killed named, so each test must wait until the
//! thread has read them all.

use crate::support::{Daemon, Hostile, LONG, MIB, answer, begin, command, handing_down, slot};
use eager_proto::hello::Hello;
use eager_proto::reply::{STATE_BOUND, STATE_FREE};
use eager_proto::request::RequestBody;
use eager_shm::client::ClientConnection;
use eager_shm::packet::receive_with_descriptors;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use tempfile::TempDir;

/// Messages and descriptors of the daemon so far.
#[derive(Debug, Default)]
struct Store {
    kept: BTreeMap<String, OwnedFd>,
    ready: u32,
}

#[derive(Debug)]
struct Manager {
    place: PathBuf,
    store: Arc<(Mutex<Store>, Condvar)>,
}

impl Manager {
    fn start(dir: &Path) -> Manager {
        let place = dir.join("notify.sock");
        let socket = UnixDatagram::bind(&place).expect("a socket for messages");
        let store: Arc<(Mutex<Store>, Condvar)> = Arc::default();
        let shared = Arc::clone(&store);
        std::thread::spawn(move || {
            let mut text = [0; 4096];
            while let Ok((bytes, descriptors)) = receive_with_descriptors(socket.as_fd(), &mut text) {
                let message = String::from_utf8_lossy(&text[..bytes]).into_owned();
                shared.0.lock().expect("the store").take_in(&message, descriptors);
                shared.1.notify_all();
            }
        });
        Manager { place, store }
    }

    /// Waits until the store is as wanted.
    fn until(&self, wanted: impl Fn(&Store) -> bool) {
        let store = self.store.0.lock().expect("the store");
        let (store, waited) =
            self.store.1.wait_timeout_while(store, LONG, |store| !wanted(store)).expect("the store");
        assert!(!waited.timed_out(), "it stays {:?}", store.kept.keys());
    }

    /// Starts a daemon with all that is kept, as systemd would.
    fn spawn(&self, dir: TempDir, arguments: &[&str], what: &str) -> Daemon {
        let mut plain = command(dir.path());
        plain.args(arguments);
        let store = self.store.0.lock().expect("the store");
        let kept: Vec<(&str, &OwnedFd)> = store.kept.iter().map(|(name, fd)| (name.as_str(), fd)).collect();
        let mut command = handing_down(&plain, &kept);
        command.env("NOTIFY_SOCKET", &self.place);
        drop(store);
        Daemon::spawn(dir, command, what)
    }
}

impl Store {
    fn take_in(&mut self, message: &str, mut descriptors: Vec<OwnedFd>) {
        let says = |line: &str| message.lines().any(|said| said == line);
        let name = message.lines().find_map(|line| line.strip_prefix("FDNAME=")).unwrap_or_default();
        if says("FDSTORE=1") {
            self.kept.insert(name.into(), descriptors.pop().expect("a descriptor to keep"));
        }
        if says("FDSTOREREMOVE=1") {
            self.kept.remove(name);
        }
        self.ready += u32::from(says("READY=1"));
    }
}

fn killed(mut daemon: Daemon) -> TempDir {
    daemon.signal(Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    crate::support::take_dir(&mut daemon)
}

/// Sets the start times in the state file to 0, so that no client can be found by it.
fn forget_starting_times(run_dir: &Path) {
    let path = run_dir.join("eagerd.state");
    let text = std::fs::read_to_string(&path).expect("state");
    let lines = text.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if let Some(started) = line.get_mut("started") {
            *started = 0.into();
        }
        line.to_string() + "\n"
    });
    std::fs::write(path, lines.collect::<String>()).expect("state");
}

/// `count` clients hold memory over a restart, one more ends meanwhile, and a newcomer connects while no daemon runs.
pub fn clients_go_on(count: usize) {
    let arguments = ["--clients-max", "2000", "--clients-per-user", "2000"];
    let dir = tempfile::tempdir().expect("folder");
    let manager = Manager::start(dir.path());
    let daemon = manager.spawn(dir, &arguments, "1 file device, policy ");
    // One by one: a manager queues few messages, and the daemon does not repeat one for which there was no room.
    let connect = |before: usize| {
        let client = daemon.connect("client");
        manager.until(|store| store.kept.len() == before + 2);
        client
    };
    let clients: Vec<ClientConnection> = (0..count).map(connect).collect();
    for client in &clients {
        assert_eq!(answer(client, slot(0), begin(client, slot(0), 1)).state, STATE_BOUND);
    }
    let mut ends = Hostile::start(&daemon, &["--hold", "7"]);
    manager.until(|store| store.ready == 1 && store.kept.len() == count + 2);
    let socket = daemon.socket();
    let dir = killed(daemon);
    ends.signal(Signal::SIGKILL);
    ends.end();
    forget_starting_times(&dir.path().join("run"));
    let newcomer = std::thread::spawn(move || {
        let client = ClientConnection::connect(&socket, &Hello::new("newcomer"), LONG).expect("served later");
        answer(&client, slot(0), begin(&client, slot(0), 5)).state
    });
    let said = "1 file device, policy eager-fair, socket ";
    let daemon = manager.spawn(dir, &arguments, said);
    assert_eq!(newcomer.join().expect("the newcomer"), STATE_BOUND);
    clients.iter().for_each(|client| client.resume(LONG).expect("the same client"));
    daemon.until(|row| (row.clients, row.unattached) == (count as u32, 0));
    assert_eq!(daemon.device().granted_bytes, count as u64 * MIB);
    for client in &clients {
        let end = client.send(RequestBody::TaskEnd, slot(0)).expect("send");
        assert_eq!(answer(client, slot(0), end).state, STATE_FREE);
    }
    assert_eq!(daemon.device().granted_bytes, 0);
    // The client that ended is not kept any more, nor the newcomer that left; the listener is still the first one.
    manager.until(|store| store.ready == 2 && store.kept.len() == count + 1);
    drop(clients);
}

#[test]
fn a_restart_under_a_service_manager_finds_clients_by_what_it_kept_and_turns_no_newcomer_away() {
    clients_go_on(50);
}

#[test]
fn a_service_that_is_stopped_in_order_and_started_again_keeps_its_programs() {
    let dir = tempfile::tempdir().expect("folder");
    let manager = Manager::start(dir.path());
    let mut daemon = manager.spawn(dir, &[], "1 file device, policy ");
    let client = daemon.connect("client");
    answer(&client, slot(0), begin(&client, slot(0), 100));
    manager.until(|store| store.kept.len() == 2);
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.end().0.success());
    assert!(daemon.socket().exists(), "newcomers wait there");
    let dir = crate::support::take_dir(&mut daemon);
    let daemon = manager.spawn(dir, &[], "1 file device, policy ");
    assert_eq!(daemon.device().granted_bytes, 100 * MIB);
    client.resume(LONG).expect("the same client");
    let end = client.send(RequestBody::TaskEnd, slot(0)).expect("send");
    assert_eq!(answer(&client, slot(0), end).state, STATE_FREE);
}

/// Descriptors that were not asked for, and meaningless names, do no harm.
#[test]
fn what_a_service_manager_hands_down_by_mistake_is_closed_and_forgotten() {
    let dir = tempfile::tempdir().expect("folder");
    let manager = Manager::start(dir.path());
    let path = dir.path().join("a file");
    for name in ["stray", "client-7", "listener-1", "client-nobody"] {
        let file = std::fs::File::create(&path).expect("a descriptor");
        manager.store.0.lock().expect("the store").kept.insert(name.into(), file.into());
    }
    let daemon = manager.spawn(dir, &[], "1 file device, policy ");
    manager
        .until(|store| store.kept.keys().all(|name| name.starts_with("listener-")) && store.kept.len() == 1);
    let client = daemon.connect("client");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 100)).state, STATE_BOUND);
    let entries = std::fs::read_dir(format!("/proc/{}/fd", daemon.child.id())).expect("descriptors");
    let mut opened = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    assert!(!opened.any(|open| open == path), "it is open in the daemon");
}
