//! A malicious client can harm neither the server nor other clients.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use eager_gpu_model::{Access, AllocKind, Kernel, Nanos, Op, Range};
use eager_vgpu_link::{
    Backend, ClientFrame, FRAME_BYTES_MAX, PROTOCOL_VERSION, Refusal, Request, RequestId, Socket, Stamp,
    encode_frame,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use support::{Honest, Server};

const LONG: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

fn frame(id: u64, request: Request) -> Vec<u8> {
    encode_frame(&ClientFrame { id: RequestId(id), request }).unwrap()
}

fn hello() -> Vec<u8> {
    frame(1, Request::Hello { version: PROTOCOL_VERSION, pid: 1 })
}

/// Waits until the server has ended the connection.
fn ends(mut stream: UnixStream) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut rest = Vec::new();
    // A reset is an end as well; a time-out is not.
    if let Err(e) = stream.read_to_end(&mut rest) {
        assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset, "{e}");
    }
}

#[test]
fn numbers_that_no_card_could_be_asked_are_their_senders_error_only() {
    let server = Server::start();
    let (honest, hostile) = (server.honest(), server.honest());
    let good = hostile.kernel();
    let access = |change: fn(&mut Access)| {
        let mut kernel = good.clone();
        change(&mut kernel.accesses[0]);
        kernel
    };
    let kernels = [
        Kernel { threads_per_block: u32::MAX, ..good.clone() },
        Kernel { threads_per_block: 0, ..good.clone() },
        Kernel { threads_per_block: 1025, ..good.clone() },
        Kernel { blocks: 0, ..good.clone() },
        Kernel { blocks: u64::MAX, ..good.clone() },
        Kernel { launches: u32::MAX, ..good.clone() },
        Kernel { shared_bytes_per_block: u32::MAX, ..good.clone() },
        Kernel { registers_per_thread: u32::MAX, ..good.clone() },
        Kernel { priority: i32::MIN, ..good.clone() },
        Kernel { flops64: u64::MAX, ..good.clone() },
        Kernel { dram_bytes: u64::MAX, launches: 1 << 16, ..good.clone() },
        // On a whole card one day, on the single thread that it asks for an eternity.
        Kernel { flops64: u64::MAX >> 5, blocks: 1, threads_per_block: 1, ..good.clone() },
        access(|access| access.density = f64::NAN),
        access(|access| access.density = f64::INFINITY),
        access(|access| access.density = -1.0),
        access(|access| access.ranges = vec![Range { offset: u64::MAX, bytes: u64::MAX }]),
        access(|access| access.ranges = vec![Range { offset: 0, bytes: 1 }; (1 << 20) + 1]),
        Kernel { accesses: vec![good.accesses[0].clone(); (1 << 14) + 1], ..good.clone() },
    ];
    for kernel in kernels {
        let refused = hostile.run(kernel.clone()).expect_err("no card could be asked that");
        assert!(matches!(refused.refusal(), Some(Refusal::Invalid(_))), "{refused}");
    }
    let range = Range { offset: 0, bytes: 1 };
    let (from, to) = (hostile.alloc, hostile.alloc);
    let others = [
        Request::Allocate { device: 0, bytes: u64::MAX, kind: AllocKind::Managed },
        Request::Allocate { device: 0, bytes: u64::MAX, kind: AllocKind::Device },
        Request::Allocate { device: u32::MAX, bytes: 1, kind: AllocKind::Device },
        Request::Run {
            device: 0,
            op: Op::CopyOnDevice { from, from_range: Range { offset: 1 << 63, ..range }, to, to_offset: 1 },
        },
        Request::Run { device: 0, op: Op::CopyOnDevice { from, from_range: range, to, to_offset: u64::MAX } },
        Request::Reserve { seats: u32::MAX },
        Request::Settled(eager_vgpu_link::Settled::default()),
    ];
    for request in others {
        let refused = hostile.link.call(request.clone()).expect_err("not possible");
        assert!(refused.refusal().is_some(), "{request:?}: {refused}");
    }
    hostile.still_works();
    honest.still_works();
}

#[test]
fn halves_of_messages_are_bounded_for_each_user() {
    let server = Server::start();
    let honest = server.honest();
    let quiet_mib = server.peak_mib();
    let half = vec![0u8; FRAME_BYTES_MAX / 2];
    let declared = u32::try_from(FRAME_BYTES_MAX).unwrap().to_le_bytes();
    let mut halves = Vec::new();
    for _ in 0..40 {
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        stream.write_all(&hello()).unwrap();
        let mut welcome = [0; 8];
        let _ = stream.read(&mut welcome);
        // The server may end the connection meanwhile.
        let _ = stream.write_all(&declared).and_then(|()| stream.write_all(&half));
        halves.push(stream);
    }
    honest.still_works();
    // 64 MiB are kept, in buffers that have grown by doubling.
    let grown_mib = server.peak_mib() - quiet_mib;
    assert!(grown_mib < 192, "{grown_mib} MiB for halves of messages");
    drop(halves);
    honest.still_works();
}

#[test]
fn before_the_hello_nothing_is_kept() {
    let server = Server::start();
    let honest = server.honest();
    // Longer than any hello, without any of the bytes following.
    for declared in [65, FRAME_BYTES_MAX, u32::MAX as usize] {
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        stream.write_all(&u32::try_from(declared).unwrap().to_le_bytes()).unwrap();
        ends(stream);
    }
    honest.still_works();
}

#[test]
fn stamps_on_stamps_do_not_overflow_the_stack() {
    let server = Server::start();
    let honest = server.honest();
    let stamped = |request| Request::Stamped { stamp: Stamp { at: Nanos(1), ..Stamp::default() }, request };
    // One more level is always the same few bytes in front of the rest.
    let level = |request| frame(0, stamped(request))[4..].to_vec();
    let (one, two) = (level(None), level(Some(Box::new(stamped(None)))));
    let prefix = &two[1..two.len() - (one.len() - 1)];
    let mut body = two[..1].to_vec();
    (0..FRAME_BYTES_MAX / prefix.len() - 1).for_each(|_| body.extend_from_slice(prefix));
    body.extend_from_slice(&one[1..]);
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    stream.write_all(&hello()).unwrap();
    let _ = stream.read(&mut [0; 64]);
    let _ = stream.write_all(&u32::try_from(body.len()).unwrap().to_le_bytes());
    let _ = stream.write_all(&body);
    ends(stream);
    honest.still_works();
}

#[test]
fn out_of_descriptors_it_sleeps_says_so_now_and_then_and_recovers_alone() {
    let server = Server::limited("ulimit -n 40");
    let honest = server.honest();
    let crowd: Vec<UnixStream> = (0..100).filter_map(|_| UnixStream::connect(&server.socket).ok()).collect();
    honest.still_works();
    let (ticks, start) = (server.ticks(), Instant::now());
    // Sleeps because the subject is time itself: how much of it the server computes.
    std::thread::sleep(Duration::from_secs(2));
    let busy = (server.ticks() - ticks) as f64 / 100.0 / start.elapsed().as_secs_f64();
    assert!(busy < 0.2, "it was busy for {:.0} % of the time", 100.0 * busy);
    honest.still_works();
    drop(crowd);
    let newcomer = server.honest();
    newcomer.still_works();
    let said = server.end();
    let lines = said.lines().filter(|line| line.contains("cannot accept more programs now")).count();
    assert!((1..=10).contains(&lines), "{said}");
}

#[test]
fn who_says_nothing_is_dropped_after_a_while_and_who_reads_nothing_waits_alone() {
    let server = Server::start();
    let honest = server.honest();
    let silent = UnixStream::connect(&server.socket).unwrap();
    let mut deaf = UnixStream::connect(&server.socket).unwrap();
    deaf.write_all(&hello()).unwrap();
    deaf.set_nonblocking(true).unwrap();
    let ask: Vec<u8> = (2..2000).flat_map(|id| frame(id, Request::Devices)).collect();
    // Sends until the server takes no more.
    let (mut sent, mut stuck) = (0usize, Instant::now());
    while stuck.elapsed() < Duration::from_millis(300) && sent < 256 * MIB {
        if let Ok(bytes) = deaf.write(&ask) {
            (sent, stuck) = (sent + bytes, Instant::now());
        }
    }
    assert!(sent < 64 * MIB, "{sent} bytes of questions were taken from somebody who reads no answer");
    honest.still_works();
    ends(silent);
    honest.still_works();
}

/// The time of 200 kernels while two connections flood this server.
fn kernels_beside_floods(honest: &Honest, path: &Path) -> Duration {
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut stream = UnixStream::connect(path).unwrap();
                stream.write_all(&hello()).unwrap();
                let ask: Vec<u8> = (2..4000).flat_map(|id| frame(id, Request::GiveUp { seat: 1 })).collect();
                let mut reads = stream.try_clone().unwrap();
                scope.spawn(move || {
                    let mut sink = vec![0; MIB];
                    while reads.read(&mut sink).is_ok_and(|bytes| bytes > 0) {}
                });
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    stream.write_all(&ask).unwrap();
                }
                stream.shutdown(std::net::Shutdown::Both).unwrap();
            });
        }
        (0..50).for_each(|_| honest.still_works());
        let start = Instant::now();
        (0..200).for_each(|_| honest.still_works());
        let took = start.elapsed();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        took
    })
}

/// A flood takes processors as well, which no server can prevent: so in the quiet run the flood goes to another server.
#[test]
fn a_flood_of_requests_leaves_others_their_turn() {
    let (server, elsewhere) = (Server::start(), Server::start());
    let honest = server.honest();
    let quiet = kernels_beside_floods(&honest, &elsewhere.socket);
    let flooded = kernels_beside_floods(&honest, &server.socket);
    // A turn has 256 requests of each connection, some milliseconds at worst.
    let ratio = flooded.as_secs_f64() / quiet.as_secs_f64().max(0.01);
    eprintln!(
        "200 kernels: {quiet:?} beside floods elsewhere, {flooded:?} beside two floods: {ratio:.1} times"
    );
    assert!(ratio < 200.0, "{ratio:.0} times as long beside a flood");
}

/// Median time of one kernel, and of one allocation.
fn medians(honest: &Honest) -> [Duration; 2] {
    let median = |work: &dyn Fn()| {
        let time = |_| {
            let start = Instant::now();
            work();
            start.elapsed()
        };
        let mut times: Vec<Duration> = (0..101).map(time).collect();
        times.sort();
        times[50]
    };
    let allocate = Request::Allocate { device: 0, bytes: 1 << 20, kind: AllocKind::Managed };
    [median(&|| honest.still_works()), median(&|| drop(honest.link.call(allocate.clone()).unwrap()))]
}

/// A turn costs as much as there are ready connections, not open ones.
#[test]
fn connections_that_rest_cost_others_nothing() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let count = 4000.min(usize::try_from(most).unwrap().saturating_sub(200));
    if count < 4000 {
        eprintln!("SKIPPED: 4000 connections: {most} descriptors may be open here; {count} are tried");
    }
    let server = Server::start();
    let honest = server.honest();
    let quiet = medians(&honest);
    let resting: Vec<Socket> = (0..count).map(|_| Socket::connect(&server.socket).unwrap()).collect();
    let beside = medians(&honest);
    eprintln!(
        "kernel, allocation: {quiet:.0?} alone, {beside:.0?} beside {} resting connections",
        resting.len()
    );
    for (quiet, beside) in quiet.into_iter().zip(beside) {
        // Times below the floor are noise of the machine: a woken thread may wait for a processor.
        let floor = Duration::from_micros(100);
        assert!(beside < 8 * quiet.max(floor), "{beside:?} beside resting connections, {quiet:?} alone");
    }
}
