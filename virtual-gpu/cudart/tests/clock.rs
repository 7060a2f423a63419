//! Programs on a virtual clock: their times do not depend on the machine that computes their results, and no process
//! holds the others for ever.
//!
//! Trap: wherever two runs are compared, host work must be configured (`EAGER_VGPU_HOST_TIMES`): processor time is
//! measured, and no two measurements are equal.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use eager_gpu_model::{Options, parse_cards};
use eager_vgpu_link::{Backend, Reply, Request, Socket};
use eager_vgpud::{Clock, Endpoint, Scale, Service, Until, serve};

use common::{Built, Major, command, run};

const CUDA13: Major = Major { tree: "cuda-13.0", library: "libcudart.so", soname: "libcudart.so.13" };

fn built() -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    BUILT.get_or_init(|| CUDA13.build()).as_ref()
}

/// A server with a virtual clock, which ends with the test.
struct Server {
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::bind(&folder.path().join("vgpu.sock")).unwrap();
        let scale = Scale { memory: 1024, time: 0.0 };
        let clock = Clock::Virtual { host_factor: 1.0 };
        let cards = parse_cards("2xV100-16GB").unwrap();
        let service = Service::new(cards, Options::default(), scale, clock);
        std::thread::spawn(move || serve(&endpoint, service, Until::Signalled).unwrap());
        Server { folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("vgpu.sock")
    }

    /// Time of the clock.
    fn now_ns(&self) -> u64 {
        let observer = Socket::connect(&self.socket()).unwrap();
        match observer.call(Request::Join { seat: None }).unwrap() {
            Reply::Joined(Some(joined)) => joined.began.0,
            other => panic!("{other:?}"),
        }
    }
}

fn start(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

fn program(built: &Built, socket: &Path, scenario: &str, more: &[(&str, &str)]) -> Command {
    let mut command = command(built, scenario, &[("EAGER_VGPU_SOCKET", socket.to_str().unwrap())]);
    command.envs(more.iter().copied());
    command
}

/// Output of each of four processes, and the time at which the last ended.
fn contend(built: &Built, order: [usize; 4]) -> (Vec<String>, u64) {
    let server = Server::start();
    let launcher = Socket::connect(&server.socket()).unwrap();
    let Reply::Seats { first } = launcher.call(Request::Reserve { seats: 4 }).unwrap() else {
        panic!("seats")
    };
    let host_times = ["0:0.5,1:0.002,2:0.001", "0:0.1", "0:0.3,3:0.01", "0:0.5,1:0.002,2:0.001"];
    let rounds = ["6", "9", "4", "6"];
    let mut running: Vec<_> = order
        .into_iter()
        .map(|job| {
            let seat = (first + job as u64).to_string();
            let more = [
                ("EAGER_VGPU_SEAT", seat.as_str()),
                ("EAGER_VGPU_HOST_TIMES", host_times[job]),
                ("ROUNDS", rounds[job]),
            ];
            (job, start(program(built, &server.socket(), "clock-contend", &more)))
        })
        .collect();
    running.sort_by_key(|(job, _)| *job);
    let seen = running.into_iter().map(|(job, (mut child, mut output))| {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(child.wait().unwrap().success(), "job {job}");
        line
    });
    let seen = seen.collect();
    (seen, server.now_ns())
}

/// Keeps every processor busy until dropped.
struct Load<'a>(&'a AtomicBool);

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn times_are_the_same_in_any_order_of_starts_and_on_a_loaded_machine() {
    let Some(built) = built() else { return };
    let first = contend(built, [0, 1, 2, 3]);
    assert!(first.1 > 1_000_000_000, "four programs with half a second of host work each: {first:?}");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _load = Load(&over);
        for _ in 0..2 * std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let (seen, end) = contend(built, [3, 1, 0, 2]);
        assert_eq!(seen, first.0);
        // An unsuccessful query costs 1 us, and the number of those while a process ends is not fixed.
        assert!(end.abs_diff(first.1) * 100 <= first.1, "{end} after {}", first.1);
    });
}

#[test]
fn a_process_that_sleeps_outside_cuda_holds_nobody_for_ever() {
    let Some(built) = built() else { return };
    let server = Server::start();
    let (mut sleeper, mut said) = start(program(built, &server.socket(), "hold", &[]));
    said.read_line(&mut String::new()).unwrap();
    let more = [("ROUNDS", "3")];
    let (mut other, _output) = start(program(built, &server.socket(), "clock-contend", &more));
    assert!(other.wait().unwrap().success());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn a_killed_process_holds_nobody() {
    let Some(built) = built() else { return };
    let server = Server::start();
    let (mut spinner, mut said) = start(program(built, &server.socket(), "clock-spin", &[]));
    said.read_line(&mut String::new()).unwrap();
    let (mut other, _output) = start(program(built, &server.socket(), "clock-contend", &[("ROUNDS", "3")]));
    spinner.kill().unwrap();
    spinner.wait().unwrap();
    assert!(other.wait().unwrap().success());
}

#[test]
fn a_seat_that_nobody_takes_is_given_up() {
    let Some(built) = built() else { return };
    let server = Server::start();
    let launcher = Socket::connect(&server.socket()).unwrap();
    let Reply::Seats { first } = launcher.call(Request::Reserve { seats: 1 }).unwrap() else {
        panic!("seats")
    };
    let (mut other, _output) = start(program(built, &server.socket(), "clock-contend", &[("ROUNDS", "1")]));
    launcher.call(Request::GiveUp { seat: first }).unwrap();
    assert!(other.wait().unwrap().success());
    let now_ns = server.now_ns();
    launcher.call(Request::Reserve { seats: 1 }).unwrap();
    drop(launcher);
    // The end of a launcher gives up the seats that it reserved.
    run(built, "clock-contend", &[("EAGER_VGPU_SOCKET", server.socket().to_str().unwrap()), ("ROUNDS", "1")]);
    assert!(server.now_ns() > now_ns);
}

const OWN: &[(&str, &str)] = &[("EAGER_VGPU_CLOCK", "virtual"), ("EAGER_VGPU_MEMORY_SCALE", "1024")];

#[test]
fn sleep_is_host_time() {
    let Some(built) = built() else { return };
    let milliseconds: f64 = run(built, "clock-sleep", OWN).0.trim().parse().unwrap();
    assert!(milliseconds >= 55.0, "60 ms of sleep lie between the events, not {milliseconds}");
}

#[test]
fn what_waits_outside_cuda_for_cuda_comes_to_its_end() {
    let Some(built) = built() else { return };
    run(built, "clock-outside", OWN);
}

#[test]
fn every_other_scenario_runs_on_a_virtual_clock_too() {
    let Some(built) = built() else { return };
    for scenario in ["copies", "graph-branches", "managed", "page-locked", "peers", "symbol-addresses"] {
        let mut environment = OWN.to_vec();
        environment.extend([("EAGER_VGPU", "2xV100-16GB")].iter().filter(|_| scenario == "peers"));
        run(built, scenario, &environment);
    }
}
