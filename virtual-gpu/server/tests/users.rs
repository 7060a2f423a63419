//! Limits of another user on the server, which leave a third user an equal share.
//!
//! The kernel reports the user who connected, so another user needs another process: this test program, started again
//! with the name of one case in its environment.

mod support;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use eager_gpu_model::AllocKind;
use eager_vgpu_link::{
    Backend, ClientFrame, FRAME_BYTES_MAX, LinkError, PROTOCOL_VERSION, Refusal, Reply, Request, RequestId,
    Settled, Socket, encode_frame,
};

use support::Server;

const ALICE: u32 = 61_001;
const MALLORY: u32 = 61_002;
const CASE: &str = "EAGER_TEST_CASE";
const SOCKET: &str = "EAGER_TEST_SOCKET";

/// A process of another user; its resources stay taken until this is dropped.
struct Another {
    child: Child,
    said: String,
}

impl Another {
    fn does(case: &str, uid: u32, server: &Server) -> Another {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "another_user", "--ignored", "--nocapture"])
            .envs([(CASE, case), (SOCKET, server.socket.to_str().unwrap())])
            .uid(uid)
            .gid(uid)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        let said = lines.filter_map(|line| line.split_once("done: ").map(|(_, said)| said.to_owned())).next();
        Another { child, said: said.unwrap_or_default() }
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "what another user does; the tests here start it"]
fn another_user() {
    let (Ok(case), Ok(socket)) = (std::env::var(CASE), std::env::var(SOCKET)) else { return };
    let said = match case.as_str() {
        "connects" => connects(Path::new(&socket)),
        "takes" => takes(Path::new(&socket)),
        "asks" => asks(Path::new(&socket)),
        "halves" => halves(Path::new(&socket)),
        other => panic!("no case {other}"),
    };
    println!("done: {said}");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn is_too_much(error: &LinkError) -> bool {
    matches!(error.refusal(), Some(Refusal::TooMuch(_)))
}

/// Opens as many connections as the server admits.
fn connects(socket: &Path) -> String {
    let mut count = 0;
    loop {
        match Socket::connect(socket) {
            Ok(link) => std::mem::forget(link),
            Err(error) if is_too_much(&error) => return format!("{count} connections"),
            Err(error) => return format!("{count} connections: {error}"),
        }
        count += 1;
    }
}

/// Allocates as much managed memory as the server grants.
fn takes(socket: &Path) -> String {
    let link = Socket::connect(socket).unwrap();
    link.call(Request::OpenContext { device: 0 }).unwrap();
    let mut gib = 0;
    loop {
        match link.call(Request::Allocate { device: 0, bytes: 16 << 30, kind: AllocKind::Managed }) {
            Ok(_) => gib += 16,
            Err(error) if is_too_much(&error) => break,
            Err(error) => return error.to_string(),
        }
    }
    std::mem::forget(link);
    format!("{gib} GiB")
}

/// Sends requests that only the owner may, and that concern another user's memory.
fn asks(socket: &Path) -> String {
    let link = Socket::connect(socket).unwrap();
    let forbidden = [Request::Uses, Request::Activity, Request::Attend, Request::Settled(Settled::default())];
    let refused = |request: Request| link.call(request).is_err_and(|error| error.refusal().is_some());
    let all = forbidden.into_iter().all(refused);
    // Only a daemon's connection may dismiss the server, so it stays.
    let _ = link.call(Request::Dismiss);
    let is_strangers = |id| {
        let error = link.call(Request::Free { alloc: eager_gpu_model::AllocId(id) }).unwrap_err();
        matches!(error.refusal(), Some(Refusal::NotOwned(_)))
    };
    let free = (0..64).all(is_strangers);
    std::mem::forget(link);
    format!("refused {all} {free}")
}

/// Sends halves of messages over many connections, until the server refuses.
fn halves(socket: &Path) -> String {
    let frame = |request| encode_frame(&ClientFrame { id: RequestId(1), request }).unwrap();
    let hello = frame(Request::Hello { version: PROTOCOL_VERSION, pid: 1 });
    let half = vec![0u8; FRAME_BYTES_MAX / 2];
    let declared = u32::try_from(FRAME_BYTES_MAX).unwrap().to_le_bytes();
    let mut last = None;
    for _ in 0..40 {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(&hello).unwrap();
        // The reply does not matter here, and the connection may be dropped meanwhile.
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(&declared).and_then(|()| stream.write_all(&half));
        std::mem::forget(last.replace(stream));
    }
    // The connections before the last fill the user's share. A time-out would not be an end.
    let mut last = last.unwrap();
    last.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let ended = match last.read(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    std::mem::forget(last);
    format!("dropped {ended}")
}

/// A server that other users can reach; `None` where this process is not root.
fn server(limit: &str) -> Option<Server> {
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("SKIPPED: only root can be several users");
        return None;
    }
    Some(Server::open(limit))
}

#[test]
fn another_users_connections_end_at_his_share_and_a_third_has_one_as_large() {
    // A quarter of all descriptors but 64.
    let Some(server) = server("ulimit -n 264") else { return };
    let honest = server.honest();
    let mallory = Another::does("connects", MALLORY, &server);
    assert_eq!(mallory.said, "50 connections");
    let alice = Another::does("connects", ALICE, &server);
    assert_eq!(alice.said, "50 connections");
    assert_eq!(Another::does("connects", MALLORY, &server).said, "0 connections");
    server.honest().still_works();
    drop(mallory);
    honest.still_works();
    let mut tries = (0..100).map(|_| Another::does("connects", MALLORY, &server).said.clone());
    assert!(tries.any(|said| said == "50 connections"), "they are given back");
}

#[test]
fn another_users_memory_ends_at_his_share_and_a_third_has_one_as_large() {
    let Some(server) = server("true") else { return };
    let honest = server.honest();
    let mallory = Another::does("takes", MALLORY, &server);
    // 64 times the 16 GiB of a card.
    assert_eq!(mallory.said, "1024 GiB");
    assert_eq!(Another::does("takes", ALICE, &server).said, "1024 GiB");
    assert_eq!(Another::does("takes", MALLORY, &server).said, "0 GiB");
    honest.still_works();
    server.honest().still_works();
}

#[test]
fn another_user_learns_nothing_of_others_and_cannot_end_the_server() {
    let Some(server) = server("true") else { return };
    let honest = server.honest();
    assert_eq!(Another::does("asks", MALLORY, &server).said, "refused true true");
    honest.still_works();
    server.honest().still_works();
    assert!(matches!(honest.link.call(Request::Uses), Ok(Reply::Uses(_))), "its own user may");
}

#[test]
fn another_users_halves_of_messages_are_dropped_and_a_third_is_served() {
    let Some(server) = server("true") else { return };
    let honest = server.honest();
    let quiet_mib = server.peak_mib();
    let mallory = Another::does("halves", MALLORY, &server);
    assert_eq!(mallory.said, "dropped true");
    let grown_mib = server.peak_mib() - quiet_mib;
    assert!(grown_mib < 192, "{grown_mib} MiB for halves of messages");
    assert_eq!(Another::does("asks", ALICE, &server).said, "refused true true");
    honest.still_works();
}
