//! A client that misbehaves: one flag per case of `docs/fault-cases.md`.
//!
//! Trap: it prints `ready` when the harm is done and must stay until its standard input ends, because most cases test
//! what the daemon does *while* such a client lives.
#![forbid(unsafe_code)]

use clap::{Args, Parser};
use eager_proto::hello::{Hello, Opening, Resume, Welcome};
use eager_proto::request::{BeginFlags, Request, RequestBody, RequestPage, Slot, encode};
use eager_proto::{RING_SLOTS, TASK_SLOTS};
use eager_shm::client::{ClientConnection, SendError, Wait};
use eager_shm::packet::{receive_with_descriptors, send};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, setuid};
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Bound on every wait for the daemon.
const LONG: Duration = Duration::from_secs(30);

/// Misbehaves towards an Eager daemon, for tests and demonstrations.
#[derive(Debug, Parser)]
#[command(name = "hostile-client")]
struct Flags {
    /// The daemon's client socket. With --silent and --torrent it may be the virtual GPU server's as well.
    #[arg(long, env = "EAGER_SOCKET")]
    socket: PathBuf,
    #[command(flatten)]
    case: Case,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Case {
    /// An honest life that ends by SIGKILL at this step, from 0; ends by itself after the last.
    #[arg(long, value_name = "STEP")]
    die_at: Option<u32>,
    /// Takes so many MiB and holds them.
    #[arg(long, value_name = "MIB")]
    hold: Option<u64>,
    /// Takes 700 MiB of a device, and so much of the host's memory.
    #[arg(long, value_name = "MIB")]
    devour: Option<usize>,
    /// Ends tasks that it never began, twice, and shrinks by more than it has.
    #[arg(long)]
    double_release: bool,
    /// A first packet of this many bytes.
    #[arg(long, value_name = "BYTES")]
    packet: Option<usize>,
    /// A hello of this major version.
    #[arg(long, value_name = "MAJOR")]
    version: Option<u16>,
    /// A doorbell that is none: two bytes.
    #[arg(long)]
    wrong_doorbell: bool,
    /// A hello, then doorbells, each with this many descriptors.
    #[arg(long, value_name = "COUNT")]
    descriptors: Option<usize>,
    /// Puts the ring's head so far ahead.
    #[arg(long, value_name = "RECORDS")]
    ring_head: Option<u32>,
    /// Writes random bytes over its request page for so many milliseconds, ringing all the time.
    #[arg(long, value_name = "MS")]
    scribble: Option<u64>,
    /// Tries to shrink, grow and punch its pages, and to write the one that is not its own.
    #[arg(long)]
    reshape: bool,
    /// So many connections that never say hello.
    #[arg(long, value_name = "COUNT")]
    silent: Option<usize>,
    /// So many tasks that wait, of as many programs as that takes, and one of them ends and asks anew all the time.
    #[arg(long, value_name = "COUNT")]
    waiting: Option<usize>,
    /// Says hello and leaves again, for so many milliseconds, as fast as it can.
    #[arg(long, value_name = "MS")]
    reconnect: Option<u64>,
    /// Comes and leaves so many times, each time with a task that ran.
    #[arg(long, value_name = "COUNT")]
    visits: Option<usize>,
    /// So many whole clients.
    #[arg(long, value_name = "COUNT")]
    crowd: Option<usize>,
    /// Connects and leaves without a word for so many milliseconds, as fast as it can.
    #[arg(long, value_name = "MS")]
    torrent: Option<u64>,
    /// Asks for so many milliseconds as fast as it can.
    #[arg(long, value_name = "MS")]
    flood: Option<u64>,
    /// So many first packets that are refused and would be logged.
    #[arg(long, value_name = "COUNT")]
    log_flood: Option<usize>,
    /// Says that it is the client with this number.
    #[arg(long, value_name = "CLIENT")]
    impersonate: Option<u64>,
    /// A whole hello, and never reads the answer.
    #[arg(long)]
    deaf: bool,
    /// Connects as who it is, becomes this user, and takes 10 MiB (only root can become another).
    #[arg(long, value_name = "UID")]
    become_uid: Option<u32>,
    /// Connects when it has no descriptor left.
    #[arg(long)]
    starved: bool,
}

fn main() {
    let Flags { socket, case } = Flags::parse();
    run(&socket, &case);
    println!("ready");
    // The client stays until its standard input ends; a read error ends it just as well.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Runs one case.
fn run(socket: &Path, case: &Case) {
    if !run_as_client(socket, case) && !run_flood(socket, case) {
        run_on_raw_socket(socket, case);
    }
}

/// Runs a case that is an honest client for most of its life. False if the case is none of these.
fn run_as_client(socket: &Path, case: &Case) -> bool {
    if let Some(step) = case.die_at {
        honest_life(socket, step);
    } else if let Some(mib) = case.hold {
        let client = connect(socket, "holder");
        println!("{}", begin_and_wait(&client, slot(0), mib << 20));
        std::mem::forget(client);
    } else if let Some(mib) = case.devour {
        let client = connect(socket, "devours");
        begin_and_wait(&client, slot(0), 700 << 20);
        println!("holds 700 MiB");
        // Written to, since untouched memory would not count.
        std::mem::forget(vec![1u8; mib << 20]);
        std::mem::forget(client);
    } else if case.double_release {
        double_release(socket);
    } else if let Some(uid) = case.become_uid {
        let client = connect(socket, "another");
        setuid(Uid::from_raw(uid)).expect("root becomes anybody");
        println!("{}", begin_and_wait(&client, slot(0), 10 << 20));
        std::mem::forget(client);
    } else if case.starved {
        let next = File::open("/dev/null").expect("/dev/null").as_raw_fd() as u64;
        // Room for the connection, and none for the pages that come with the answer.
        setrlimit(Resource::RLIMIT_NOFILE, next + 1, next + 1).expect("less is always allowed");
        let met = ClientConnection::connect(socket, &Hello::new("starved"), LONG);
        println!("{}", met.expect_err("no descriptor for the pages"));
    } else {
        return false;
    }
    true
}

/// Runs a case of many connections, tasks or requests. False if the case is none of these.
fn run_flood(socket: &Path, case: &Case) -> bool {
    if let Some(count) = case.silent {
        silent(socket, count);
    } else if let Some(count) = case.waiting {
        waiting(socket, count);
    } else if let Some(ms) = case.reconnect {
        reconnect(socket, Duration::from_millis(ms));
    } else if let Some(count) = case.visits {
        visits(socket, count);
    } else if let Some(ms) = case.torrent {
        torrent(socket, Duration::from_millis(ms));
    } else if let Some(count) = case.crowd {
        crowd(socket, count);
    } else if let Some(ms) = case.flood {
        flood(socket, Duration::from_millis(ms));
    } else if let Some(count) = case.log_flood {
        (0..count).for_each(|_| drop(first_packet(socket, &[0xff; 10])));
    } else {
        return false;
    }
    true
}

/// Runs a case that breaks the protocol, below the client library.
fn run_on_raw_socket(socket: &Path, case: &Case) {
    if let Some(bytes) = case.packet {
        keep_open(first_packet(socket, &vec![0xff; bytes]));
    } else if let Some(major) = case.version {
        keep_open(first_packet(socket, Hello { major, ..Hello::new("other") }.as_bytes()));
    } else if case.wrong_doorbell {
        let raw = Raw::meet(socket);
        send(raw.socket.as_fd(), &[1, 2], &[]).or_end();
        keep_open(raw.socket);
    } else if let Some(count) = case.descriptors {
        let raw = Raw::meet(socket);
        let file = File::open("/dev/null").expect("/dev/null");
        for _ in 0..50 {
            send(raw.socket.as_fd(), &[1], &vec![file.as_raw_fd(); count]).or_end();
        }
        keep_open(raw.socket);
    } else if let Some(ahead) = case.ring_head {
        let raw = Raw::meet(socket);
        raw.publish(ahead);
        keep_open(raw.socket);
    } else if let Some(ms) = case.scribble {
        scribble(socket, Duration::from_millis(ms));
    } else if case.reshape {
        keep_open(reshape(socket));
    } else if let Some(client) = case.impersonate {
        let resume = Some(Resume { client, sequence_floor: 0, reserved: 0 });
        let packet = Opening { hello: Hello::new("impostor"), resume }.encode();
        let socket = eager_shm::connect_seqpacket(socket, LONG).or_end();
        send(socket.as_fd(), &packet, &[]).or_end();
        println!("{}", answer(&socket).reason());
    } else if case.deaf {
        keep_open(first_packet(socket, Hello::new("deaf").as_bytes()));
    }
}

/// Keeps a connection open until the process ends.
fn keep_open(socket: OwnedFd) {
    std::mem::forget(socket);
}

/// Results that fail because the daemon has ended, or has cut this client off.
trait OrEnd<T> {
    /// Ends the process with one line on an error.
    fn or_end(self) -> T;
}

impl<T, E: Display> OrEnd<T> for Result<T, E> {
    fn or_end(self) -> T {
        self.unwrap_or_else(|why| {
            eprintln!("hostile-client: {why}");
            std::process::exit(1)
        })
    }
}

fn slot(index: usize) -> Slot {
    Slot::new(index).expect("slot in range")
}

fn connect(socket: &Path, label: &str) -> ClientConnection {
    ClientConnection::connect(socket, &Hello::new(label), LONG).or_end()
}

fn first_packet(socket: &Path, packet: &[u8]) -> OwnedFd {
    let socket = eager_shm::connect_seqpacket(socket, LONG).or_end();
    // The daemon may have closed the connection already.
    let _ = send(socket.as_fd(), packet, &[]);
    socket
}

fn answer(socket: &OwnedFd) -> Welcome {
    let mut packet = [0; size_of::<Welcome>()];
    receive_with_descriptors(socket.as_fd(), &mut packet).or_end();
    zerocopy::FromBytes::read_from_bytes(&packet).expect("a welcome")
}

fn begin(bytes: u64) -> RequestBody {
    RequestBody::TaskBegin {
        requirement: bytes,
        site: 1,
        blocks: 0,
        threads_per_block: 0,
        flags: BeginFlags::NONE,
        function: "main".into(),
    }
}

/// Begins a task, waits for the answer, and returns the reason in words.
fn begin_and_wait(client: &ClientConnection, slot: Slot, bytes: u64) -> String {
    let sequence = client.send(begin(bytes), slot).or_end();
    wait_for(client, slot, sequence);
    client.reason(slot).unwrap_or_default()
}

fn wait_for(client: &ClientConnection, slot: Slot, sequence: u32) {
    let deadline = Instant::now() + LONG;
    loop {
        let cell = client.cell(slot).expect("a whole cell");
        if cell.answers(sequence) {
            return;
        }
        if client.wait_cell(slot, cell.sequence, deadline) == Wait::DaemonGone {
            Err(SendError::DaemonGone).or_end()
        }
    }
}

/// Runs an honest life step by step, and kills the process at step `die_at`.
fn honest_life(socket: &Path, die_at: u32) {
    let mut step = 0;
    let mut reached = || {
        if step == die_at {
            // The signal takes effect before the call returns.
            let _ = kill(Pid::this(), Signal::SIGKILL);
        }
        step += 1;
    };
    let first = eager_shm::connect_seqpacket(socket, LONG).or_end();
    reached();
    send(first.as_fd(), Hello::new("short").as_bytes(), &[]).or_end();
    reached();
    answer(&first);
    reached();
    drop(first);
    let raw = Raw::meet(socket);
    reached();
    raw.fill(0, &Request { sequence: 1, slot: slot(0), body: begin(100 << 20) });
    reached();
    raw.publish(1);
    reached();
    drop(raw);
    let client = connect(socket, "honest");
    reached();
    let sequence = client.send(begin(100 << 20), slot(0)).or_end();
    reached();
    wait_for(&client, slot(0), sequence);
    reached();
    let sequence = client.send(RequestBody::TaskExtend { bytes: 1 << 20 }, slot(0)).or_end();
    reached();
    wait_for(&client, slot(0), sequence);
    reached();
    client.add_launched(slot(0), 1);
    client.send(RequestBody::Busy, slot(0)).or_end();
    reached();
    let sequence = client.send(RequestBody::TaskEnd, slot(0)).or_end();
    reached();
    wait_for(&client, slot(0), sequence);
    reached();
    println!("steps {step}");
}

fn double_release(socket: &Path) {
    let client = connect(socket, "double");
    begin_and_wait(&client, slot(0), 100 << 20);
    let nonsense = [
        (RequestBody::TaskEnd, 1),
        (RequestBody::TaskShrink { bytes: 1 << 20 }, 2),
        (RequestBody::TaskShrink { bytes: u64::MAX }, 0),
        (RequestBody::Promoted, 0),
        (RequestBody::TaskEnd, 0),
        (RequestBody::TaskEnd, 0),
    ];
    for (body, index) in nonsense {
        let sequence = client.send(body, slot(index)).or_end();
        wait_for(&client, slot(index), sequence);
    }
    std::mem::forget(client);
}

fn crowd(socket: &Path, count: usize) {
    let start = Instant::now();
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        match ClientConnection::connect(socket, &Hello::new("crowd"), LONG) {
            Ok(client) => clients.push(client),
            Err(error) => {
                println!("{error}");
                break;
            }
        }
    }
    println!("{} clients in {} us", clients.len(), start.elapsed().as_micros());
    std::mem::forget(clients);
}

/// Opens silent connections. The soft limit of descriptors is raised as far as it goes, since this needs more than the
/// usual one. Each connection that the daemon evicts makes room for a further one.
fn silent(socket: &Path, count: usize) {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // If this fails, the old limit has to do.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    let connections: Vec<OwnedFd> = (0..count).map_while(|_| any_stream(socket)).collect();
    println!("{} connections", connections.len());
    connections.into_iter().for_each(keep_open);
}

/// Connects to either socket: the daemon's keeps packets apart, the virtual GPU server's does not.
fn any_stream(socket: &Path) -> Option<OwnedFd> {
    match eager_shm::connect_seqpacket(socket, LONG) {
        Ok(connected) => Some(connected),
        Err(_) => std::os::unix::net::UnixStream::connect(socket).ok().map(OwnedFd::from),
    }
}

fn torrent(socket: &Path, time: Duration) {
    println!("flooding");
    let end = Instant::now() + time;
    let mut count = 0u64;
    while Instant::now() < end {
        count += u64::from(any_stream(socket).is_some());
    }
    println!("{count} came and went");
}

fn reconnect(socket: &Path, time: Duration) {
    println!("flooding");
    let end = Instant::now() + time;
    let mut count = 0u64;
    while Instant::now() < end {
        count += u64::from(ClientConnection::connect(socket, &Hello::new("again"), LONG).is_ok());
    }
    println!("{count} came and went");
}

fn visits(socket: &Path, count: usize) {
    for visit in 0..count {
        let client = match ClientConnection::connect(socket, &Hello::new("visitor"), LONG) {
            Ok(client) => client,
            Err(error) => return println!("visit {visit}: {error}"),
        };
        begin_and_wait(&client, slot(0), 1 << 20);
        let end = client.send(RequestBody::TaskEnd, slot(0)).or_end();
        wait_for(&client, slot(0), end);
    }
    println!("{count} visits");
}

/// Asks for 900 MiB per task, which does not fit beside what another program holds.
fn waiting(socket: &Path, count: usize) {
    let clients: Vec<ClientConnection> = (0..count.div_ceil(TASK_SLOTS))
        .map_while(|_| ClientConnection::connect(socket, &Hello::new("waits"), LONG).ok())
        .collect();
    let mut asked = 0;
    for client in &clients {
        for index in 0..TASK_SLOTS.min(count - asked) {
            client.send(begin(900 << 20), slot(index)).or_end();
            asked += 1;
        }
    }
    println!("{asked} tasks of {} programs", clients.len());
    let renew = [(RequestBody::TaskEnd, slot(0)), (begin(900 << 20), slot(0))];
    ask_in_circles(&clients, &renew, LONG);
}

fn flood(socket: &Path, time: Duration) {
    let clients: Vec<ClientConnection> = (0..4).map(|_| connect(socket, "flood")).collect();
    let requests = [
        (begin(1 << 20), slot(0)),
        (RequestBody::TaskEnd, slot(0)),
        (begin(u64::MAX), slot(1)),
        (RequestBody::TaskEnd, slot(1)),
    ];
    ask_in_circles(&clients, &requests, time);
    std::mem::forget(clients);
}

/// Lets each client send the requests in their order, again and again, until its ring is full. A full ring skips no
/// request: one out of order would be a strike, and strikes would soon end the flood.
fn ask_in_circles(clients: &[ClientConnection], requests: &[(RequestBody, Slot)], time: Duration) {
    println!("flooding");
    let end = Instant::now() + time;
    let mut next = vec![0; clients.len()];
    while Instant::now() < end {
        for (client, next) in clients.iter().zip(&mut next) {
            for _ in requests {
                let (body, slot) = &requests[*next % requests.len()];
                match client.send(body.clone(), *slot) {
                    Ok(_) => *next += 1,
                    Err(SendError::RingFull) => break,
                    Err(gone) => Err(gone).or_end(),
                }
            }
        }
    }
}

/// A client's pages in raw form: written through their descriptors.
struct Raw {
    socket: OwnedFd,
    requests: File,
    replies: File,
}

impl Raw {
    fn meet(socket: &Path) -> Raw {
        let socket = eager_shm::connect_seqpacket(socket, LONG).or_end();
        send(socket.as_fd(), Hello::new("raw").as_bytes(), &[]).or_end();
        let mut packet = [0; size_of::<Welcome>()];
        let (_, descriptors) = receive_with_descriptors(socket.as_fd(), &mut packet).expect("a welcome");
        let [requests, replies]: [OwnedFd; 2] = descriptors.try_into().expect("two pages");
        Raw { socket, requests: requests.into(), replies: replies.into() }
    }

    fn fill(&self, place: usize, request: &Request) {
        let offset = offset_of!(RequestPage, ring) + place % RING_SLOTS * 128;
        self.requests.write_all_at(encode(request).as_bytes(), offset as u64).expect("write");
    }

    fn publish(&self, head: u32) {
        let offset = offset_of!(RequestPage, head) as u64;
        self.requests.write_all_at(&head.to_le_bytes(), offset).expect("write");
        self.ring();
    }

    fn ring(&self) {
        // The daemon may have closed the connection.
        let _ = send(self.socket.as_fd(), &[1], &[]);
    }
}

/// Writes random bytes over a request page; connects as a new client whenever the last one was cut off.
fn scribble(socket: &Path, time: Duration) {
    let end = Instant::now() + time;
    // xorshift: any bytes will do, but they must be the same each time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut clients = 0u32;
    let mut raw = Raw::meet(socket);
    while Instant::now() < end {
        for _ in 0..64 {
            let offset = random() as usize % (size_of::<RequestPage>() - 8);
            raw.requests.write_all_at(&random().to_le_bytes(), offset as u64).expect("write");
        }
        // Half of the time with a plausible head and plausible records, so that the code behind the first checks is
        // reached.
        if random() & 1 == 0 {
            let kind = random() as u16 % 12;
            for place in 0..RING_SLOTS {
                let offset = offset_of!(RequestPage, ring) + place * 128;
                let start =
                    [kind.to_le_bytes(), (random() as u16 % TASK_SLOTS as u16).to_le_bytes()].concat();
                raw.requests.write_all_at(&start, offset as u64 + 4).expect("write");
                raw.requests.write_all_at(&[0; 120], offset as u64 + 8).expect("write");
                raw.requests.write_all_at(&random().to_le_bytes(), offset as u64 + 8).expect("write");
            }
            raw.publish(random() as u32 % 4);
        }
        if send(raw.socket.as_fd(), &[1], &[]).is_err() {
            raw = Raw::meet(socket);
            clients += 1;
        }
    }
    println!("{clients} were cut off");
}

/// Prints for each attempt whether it was refused.
fn reshape(socket: &Path) -> OwnedFd {
    let raw = Raw::meet(socket);
    let tell = |what: &str, refused: bool| println!("{what}: {}", if refused { "refused" } else { "DONE" });
    for (name, file) in [("requests", &raw.requests), ("replies", &raw.replies)] {
        tell(&format!("shrink {name}"), file.set_len(0).is_err());
        tell(&format!("grow {name}"), file.set_len(1 << 20).is_err());
    }
    tell("write replies", raw.replies.write_all_at(&[1], 0).is_err());
    let path = format!("/proc/self/fd/{}", raw.replies.as_raw_fd());
    let again = OpenOptions::new().write(true).open(path).and_then(|file| file.write_all_at(&[1], 0));
    tell("write replies opened again", again.is_err());
    let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    tell("punch replies", fallocate(&raw.replies, hole, 0, 4096).is_err());
    // A client may empty its own page: the ring then reads as records of kind 0, which are malformed.
    let _ = fallocate(&raw.requests, hole, 0, 8192);
    raw.publish(3);
    raw.socket
}
