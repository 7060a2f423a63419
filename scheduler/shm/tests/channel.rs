//! Both halves in one process, over a real socket: requests, answers, waiting, and what a hostile client may try.
//!
//! Trap: end a thread's wait by an event, never after a sleep of guessed length.

use eager_proto::hello::{Hello, Refusal, Welcome};
use eager_proto::reply::{CLASS_NORMAL, FLAG_GATED, FLAG_WATCH, STATE_BOUND, TaskCell, gate};
use eager_proto::request::{RequestBody, Slot, decode};
use eager_proto::{MAGIC, RING_SLOTS};
use eager_shm::client::{ClientConnection, ConnectError, SendError, Wait};
use eager_shm::daemon::{ClientPages, CorruptRing, PageDescriptors, accept, peer, receive, send_welcome};
use eager_shm::{bind_seqpacket, connect_seqpacket};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zerocopy::FromZeros;

const LONG: Duration = Duration::from_secs(20);

fn slot(index: usize) -> Slot {
    Slot::new(index).expect("slot in range")
}

fn readable(fd: impl AsFd) {
    let ready = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], PollTimeout::from(20_000u16));
    assert_eq!(ready, Ok(1), "nothing came in 20 s");
}

/// The daemon's side of one accepted client.
struct Served {
    socket: OwnedFd,
    pages: ClientPages,
    /// The test keeps what a real daemon closes, to play the hostile client.
    descriptors: PageDescriptors,
}

fn serve_one(listener: &OwnedFd) -> Served {
    readable(listener);
    let socket = accept(listener.as_fd()).expect("accept");
    readable(&socket);
    let mut packet = [0; 256];
    let bytes = receive(socket.as_fd(), &mut packet).expect("hello");
    Hello::decode(&packet[..bytes]).expect("a good hello");
    let (pages, descriptors) = ClientPages::create().expect("pages");
    send_welcome(socket.as_fd(), &Welcome::accepted(41).into(), Some(&descriptors)).expect("welcome");
    Served { socket, pages, descriptors }
}

/// A connected pair, and the directory that holds the socket.
fn connected() -> (Served, ClientConnection, TempDir) {
    let (dir, path, listener) = listening();
    let (served, client) = std::thread::scope(|scope| {
        let daemon = scope.spawn(|| serve_one(&listener));
        let client = ClientConnection::connect(&path, &Hello::new("test"), LONG).expect("connect");
        (daemon.join().expect("daemon thread"), client)
    });
    (served, client, dir)
}

fn listening() -> (TempDir, PathBuf, OwnedFd) {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("client.sock");
    let listener = bind_seqpacket(&path).expect("bind");
    (dir, path, listener)
}

#[test]
fn requests_arrive_in_order_and_wake_the_daemon() {
    let (mut served, client, _dir) = connected();
    assert_eq!(client.client(), 41);
    let first = client.send(RequestBody::TaskExtend { bytes: 5 }, slot(2)).expect("send");
    let second = client.send(RequestBody::AllLaunched, slot(15)).expect("send");
    assert_eq!((first, second), (1, 2));
    readable(&served.socket);
    let mut taken = Vec::new();
    while let Some(record) = served.pages.pop().expect("honest") {
        taken.push(decode(&record).expect("well formed"));
    }
    let seen: Vec<_> = taken.iter().map(|r| (r.sequence, r.slot.index(), r.body.clone())).collect();
    assert_eq!(seen, [(1, 2, RequestBody::TaskExtend { bytes: 5 }), (2, 15, RequestBody::AllLaunched)]);
}

#[test]
fn a_full_ring_says_so_and_goes_on_once_it_was_read() {
    let (mut served, client, _dir) = connected();
    for _ in 0..RING_SLOTS {
        client.send(RequestBody::Busy, slot(0)).expect("room");
    }
    assert_eq!(client.send(RequestBody::Busy, slot(0)), Err(SendError::RingFull));
    assert!(served.pages.pop().expect("honest").is_some());
    assert_eq!(client.send(RequestBody::Idle, slot(0)), Ok(RING_SLOTS as u32 + 1));
    let mut taken = 0;
    while served.pages.pop().expect("honest").is_some() {
        taken += 1;
    }
    assert_eq!(taken, RING_SLOTS);
}

#[test]
fn a_hostile_head_is_named_and_never_followed() {
    let (mut served, _client, _dir) = connected();
    let file = File::from(served.descriptors.requests);
    let set_head = |head: u32| file.write_all_at(&head.to_le_bytes(), 12).expect("write head");
    set_head(RING_SLOTS as u32 + 1);
    assert_eq!(served.pages.pop(), Err(CorruptRing { ahead: 65 }));
    // A head that moves backwards is far ahead: the counter wraps.
    set_head(u32::MAX);
    assert_eq!(served.pages.pop(), Err(CorruptRing { ahead: u32::MAX }));
    // A head as far ahead as the ring is long is followed, and no further: the records there are zeros.
    set_head(RING_SLOTS as u32);
    for _ in 0..RING_SLOTS {
        let record = served.pages.pop().expect("bounded").expect("a record");
        assert!(decode(&record).is_err(), "zeros are no request");
    }
    assert_eq!(served.pages.pop(), Ok(None));
}

#[test]
fn pages_are_sealed() {
    let (served, client, _dir) = connected();
    let PageDescriptors { requests, replies } = served.descriptors;
    let (requests, replies) = (File::from(requests), File::from(replies));
    let denied = |result: std::io::Result<()>| result.err().and_then(|error| error.raw_os_error());
    let eperm = Some(Errno::EPERM as i32);
    assert_eq!(denied(requests.set_len(0)), eperm, "the request page can be shrunk");
    assert_eq!(denied(requests.set_len(1 << 20)), eperm, "the request page can grow");
    assert_eq!(denied(replies.set_len(0)), eperm, "the reply page can be shrunk");
    assert_eq!(denied(replies.write_all_at(&[1], 64)), eperm, "the reply page can be written");
    let reopened = Path::new("/proc/self/fd").join(std::os::fd::AsRawFd::as_raw_fd(&replies).to_string());
    let mapped =
        File::options().read(true).write(true).open(reopened).and_then(|mut file| file.write_all(b"x"));
    assert_eq!(denied(mapped), eperm, "the reply page can be reopened for writing");
    // The daemon, which mapped the page before, can still write, and the client sees it.
    served.pages.publish_cell(slot(1), &TaskCell { grant: 9, ..TaskCell::new_zeroed() }, "");
    assert_eq!(client.cell(slot(1)).expect("whole").grant, 9);
}

#[test]
fn an_answer_wakes_a_sleeper() {
    let (served, client, _dir) = connected();
    let before = client.cell(slot(4)).expect("whole");
    assert_eq!(client.wait_cell(slot(4), before.sequence, Instant::now()), Wait::TimedOut);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| client.wait_cell(slot(4), before.sequence, Instant::now() + LONG));
        let word = gate::pack(true, 1, u64::MAX);
        let answer = TaskCell { state: STATE_BOUND, device: 3, gate: word, ..TaskCell::new_zeroed() };
        served.pages.publish_cell(slot(4), &answer, "starts: there is room");
        assert_eq!(sleeper.join().expect("sleeper"), Wait::Changed);
    });
    let after = client.cell(slot(4)).expect("whole");
    assert_eq!(
        (after.state, after.device, after.sequence),
        (STATE_BOUND, 3, before.sequence.wrapping_add(2))
    );
    assert!(gate::admits(client.gate(slot(4)), 1 << 40));
    assert_eq!(client.reason(slot(4)).expect("whole"), "starts: there is room");
    assert_eq!(client.cell(slot(5)).expect("whole").state, 0, "the next cell is untouched");
    assert_eq!(client.reason(slot(5)).expect("whole"), "");
    served.pages.publish_cell(slot(4), &TaskCell::new_zeroed(), &"é".repeat(200));
    assert_eq!(client.reason(slot(4)).expect("whole"), "é".repeat(96), "cut at a whole character");
}

/// Every field of a cell is derived from one number, so that a torn read is noticed.
#[test]
fn a_cell_is_never_seen_half_written() {
    let (served, client, _dir) = connected();
    let value = |n: u32| TaskCell {
        state: n,
        answered: n,
        device: !n,
        grant: u64::from(n) << 7,
        requirement: u64::from(n) * 3,
        gate: u64::from(n),
        reason: n,
        ..TaskCell::new_zeroed()
    };
    let reason = |n: u32| format!("{n} ").repeat(20);
    served.pages.publish_cell(slot(0), &value(0), &reason(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut reads, mut last) = (0u32, 0);
            while !done.load(Ordering::Relaxed) {
                let Some(cell) = client.cell(slot(0)) else { continue };
                assert_eq!(cell, TaskCell { sequence: cell.sequence, ..value(cell.state) });
                assert!(cell.state >= last, "went back");
                let Some(text) = client.reason(slot(0)) else { continue };
                let number = text.split(' ').next().and_then(|first| first.parse().ok());
                assert_eq!(text, reason(number.expect("a number")));
                (reads, last) = (reads + 1, cell.state);
            }
            reads
        });
        for n in 1..=20_000 {
            served.pages.publish_cell(slot(0), &value(n), &reason(n));
        }
        done.store(true, Ordering::Relaxed);
        reader.join().expect("reader");
    });
    assert_eq!(client.cell(slot(0)).expect("whole").state, 20_000);
}

#[test]
fn a_daemon_that_ends_ends_every_wait() {
    let (served, client, _dir) = connected();
    assert!(!client.daemon_gone());
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| client.wait_cell(slot(0), 0, Instant::now() + LONG));
        drop(served);
        assert_eq!(sleeper.join().expect("sleeper"), Wait::DaemonGone);
    });
    assert!(client.daemon_gone());
    assert_eq!(client.send(RequestBody::TaskEnd, slot(0)), Err(SendError::DaemonGone));
}

#[test]
fn counters_are_hints_the_daemon_can_read() {
    let (served, client, _dir) = connected();
    assert_eq!(client.add_launched(slot(7), 3), 3);
    assert_eq!(client.add_launched(slot(7), 1), 4);
    assert_eq!(client.add_retired(slot(7), 2), 2);
    assert_eq!((client.launched(slot(7)), client.retired(slot(7))), (4, 2));
    assert_eq!(served.pages.counters(slot(7)), (4, 2));
    assert_eq!(served.pages.counters(slot(8)), (0, 0));
    assert_eq!(client.flags(slot(7)), 0);
    let watched = TaskCell { class: CLASS_NORMAL, flags: FLAG_WATCH | FLAG_GATED, ..TaskCell::new_zeroed() };
    served.pages.publish_cell(slot(7), &watched, "");
    assert_eq!(client.flags(slot(7)), FLAG_WATCH | FLAG_GATED);
}

#[test]
fn nobody_there_is_one_clear_line() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("client.sock");
    let error = ClientConnection::connect(&path, &Hello::new("x"), LONG).expect_err("nobody");
    assert_eq!(error.to_string(), format!("no daemon listens at {}", path.display()));
    drop(bind_seqpacket(&path).expect("bind"));
    let error = ClientConnection::connect(&path, &Hello::new("x"), LONG).expect_err("stale socket");
    assert!(matches!(error, ConnectError::NoDaemon { .. }), "{error}");
}

#[test]
fn a_daemon_that_does_not_answer_is_not_waited_for() {
    let (_dir, path, _listener) = listening();
    let error =
        ClientConnection::connect(&path, &Hello::new("x"), Duration::from_millis(20)).expect_err("silence");
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
}

/// Answers one hello with `welcome` and these descriptors; returns the client's error.
fn connect_to(welcome: Welcome, descriptors: Option<PageDescriptors>) -> ConnectError {
    let (_dir, path, listener) = listening();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            readable(&listener);
            let socket = accept(listener.as_fd()).expect("accept");
            readable(&socket);
            receive(socket.as_fd(), &mut [0; 256]).expect("hello");
            send_welcome(socket.as_fd(), &welcome.into(), descriptors.as_ref()).expect("answer");
        });
        ClientConnection::connect(&path, &Hello::new("x"), LONG).expect_err("must fail")
    })
}

#[test]
fn a_refusal_and_a_wrong_page_are_told_apart() {
    let refusal = Refusal::Quota { limit: 3 };
    assert_eq!(
        connect_to(Welcome::refused(&refusal), None).to_string(),
        "the daemon refused: the daemon serves its limit of 3 clients"
    );
    let page = |bytes: &[u8], length: u64| {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(bytes).expect("write");
        file.set_len(length).expect("length");
        let requests = OwnedFd::from(file);
        let replies = requests.try_clone().expect("clone");
        connect_to(Welcome::accepted(1), Some(PageDescriptors { requests, replies })).to_string()
    };
    assert_eq!(page(&[], 100), "the shared page has 100 bytes where 8512 are expected");
    assert_eq!(page(&[], 8512), "the shared page was never initialised");
    let mut header = MAGIC.to_le_bytes().to_vec();
    header.extend([9, 0, 2, 0]);
    assert_eq!(page(&header, 8512), "the shared page has version 9.2, this program needs 1");
    assert!(matches!(connect_to(Welcome::accepted(1), None), ConnectError::NotADaemon { .. }));
}

#[test]
fn the_peer_is_whom_the_kernel_names() {
    let (_dir, path, listener) = listening();
    let client = connect_seqpacket(&path, LONG).expect("connect");
    let socket = accept(listener.as_fd()).expect("accept");
    let peer = peer(socket.as_fd()).expect("peer");
    assert_eq!((peer.pid as u32, peer.uid), (std::process::id(), nix::unistd::Uid::current().as_raw()));
    let alive = poll(&mut [PollFd::new(peer.pidfd.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO);
    assert_eq!(alive, Ok(0), "this process has not ended");
    drop(client);
}
