//! What a client that means harm can do to the server and to others: nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use eager_gpu_model::{Access, AllocId, AllocKind, Kernel, Nanos, Op, Pattern, Range};
use eager_vgpu_link::{
    Backend, ClientFrame, FRAME_BYTES_MAX, LinkError, PROTOCOL_VERSION, Refusal, Reply, Request, RequestId,
    Socket, Stamp, encode_frame,
};

const LONG: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

/// A server that ends with the test.
struct Server {
    child: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        Server::limited("true")
    }

    /// Under a limit that the shell sets first.
    fn limited(first: &str) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("vgpu.sock");
        let mut child = Command::new("sh")
            .args(["-c", &format!("{first} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_eager-vgpud")])
            .args(["--cards", "V100-16GB", "--time-scale", "0", "--context-ms", "0", "--socket"])
            .arg(&socket)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("virtual GPUs at"), "{ready:?}");
        Server { child, socket, _folder: folder }
    }

    fn honest(&self) -> Honest {
        let link = Socket::connect(&self.socket).unwrap();
        link.call(Request::OpenContext { device: 0 }).unwrap();
        let allocate = Request::Allocate { device: 0, bytes: 4 << 20, kind: AllocKind::Managed };
        let Reply::Allocated(alloc) = link.call(allocate).unwrap() else { panic!("memory") };
        Honest { link, alloc }
    }

    /// Its processor time in ticks of a hundredth of a second.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    fn peak_mib(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
    }

    /// Ends it; what it said on standard error.
    fn end(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client as the stand-in runtime is one.
struct Honest {
    link: Socket,
    alloc: AllocId,
}

impl Honest {
    fn kernel(&self) -> Kernel {
        let ranges = vec![Range { offset: 0, bytes: 4 << 20 }];
        let access =
            Access { alloc: self.alloc, ranges, pattern: Pattern::Stream, density: 1.0, write: true };
        Kernel {
            priority: 0,
            launches: 1,
            blocks: 80,
            threads_per_block: 256,
            shared_bytes_per_block: 0,
            registers_per_thread: 0,
            dram_bytes: 4 << 20,
            flops32: 1 << 20,
            flops64: 0,
            accesses: vec![access],
        }
    }

    fn run(&self, kernel: Kernel) -> Result<Reply, LinkError> {
        self.link.call(Request::Run { device: 0, op: Op::Kernel(kernel) })
    }

    fn still_works(&self) {
        assert!(matches!(self.run(self.kernel()), Ok(Reply::Ran(report)) if report.duration_ns > 0));
    }
}

fn frame(id: u64, request: Request) -> Vec<u8> {
    encode_frame(&ClientFrame { id: RequestId(id), request }).unwrap()
}

fn hello() -> Vec<u8> {
    frame(1, Request::Hello { version: PROTOCOL_VERSION, pid: 1 })
}

/// Waits until the other side has ended the connection.
fn ends(mut stream: UnixStream) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut rest = Vec::new();
    // A reset is an end as well; a time-out is none.
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
        // It may be ended under way.
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
    // Longer than any hello, and nothing of it comes.
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
    // One more level is always the same few bytes before the rest.
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
    // Time itself is what is looked at here: how much of it the server computes.
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
    // Until nothing more is taken from it.
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

#[test]
fn a_flood_of_requests_leaves_others_their_turn() {
    let server = Server::start();
    let honest = server.honest();
    let rounds = |count: u32| {
        let start = Instant::now();
        (0..count).for_each(|_| honest.still_works());
        start.elapsed()
    };
    rounds(50);
    let quiet = rounds(200);
    let path: &Path = &server.socket;
    let over = std::sync::atomic::AtomicBool::new(false);
    let flooded = std::thread::scope(|scope| {
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
        let flooded = rounds(200);
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        flooded
    });
    // A turn has 256 requests of each connection: 100 rounds of it cost what a few thousand requests cost.
    let ratio = flooded.as_secs_f64() / quiet.as_secs_f64();
    eprintln!("200 kernels: {quiet:?} alone, {flooded:?} beside two floods: {ratio:.1} times");
    assert!(ratio < 200.0, "{ratio:.0} times as long beside a flood");
}
