//! Cost of a launch of a bound static task in `libeager.so`: real socket, real shared pages, and a CUDA
//! runtime that does nothing.
//!
//! `cargo bench -p eager-shim` measures the library just built; `-- --library A.so --library B.so` compares others, and
//! `-- --gated` measures launches that pass an open gate.
//! Each sample is a process of its own, and the libraries take turns, so that a change of the machine's speed affects
//! all of them. Every sample is kept in a file whose name is printed. Trap: the libraries must use this build's
//! protocol.

use eager_measure::statistics::{median, ratios, spread};
use eager_measure::{Stamp, turns};
use eager_proto::hello::{Hello, Welcome};
use eager_proto::reply::{CLASS_NORMAL, FLAG_GATED, FLAG_HIGH_PRIORITY, STATE_BOUND, TaskCell, gate};
use eager_proto::request::{RequestBody, decode};
use eager_shm::bind_seqpacket;
use eager_shm::daemon::{ClientPages, accept, receive, send_welcome};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fmt::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use zerocopy::FromZeros;

const SAMPLES: usize = 21;

const RUNTIME: &str = r#"
#include <stdlib.h>
struct dim3 { unsigned x, y, z; };
int cudaMalloc(void **out, size_t n) { *out = malloc(n); return 0; }
int cudaSetDevice(int device) { return 0; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }
int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) { *stream = (void *)0x1000; return 0; }
int cudaLaunchKernel(const void *stub, struct dim3 g, struct dim3 b, void **args, size_t shared, void *s) { return 0; }
"#;

/// Prints nanoseconds per launch: through the library, and directly to the runtime.
const PROGRAM: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#define LAUNCHES 500000
struct dim3 { unsigned x, y, z; };
int cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);
int eager_cudaMalloc(void **, size_t);
int eager_cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);
void eager_task_begin(uint64_t, uint64_t, uint64_t, uint64_t, uint32_t);
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
static double cost(int (*launch)(const void *, struct dim3, struct dim3, void **, size_t, void *)) {
  struct dim3 one = {1, 1, 1};
  for (int i = 0; i < 1000; i++) launch(&now, one, one, 0, 0, 0);
  double start = now();
  for (int i = 0; i < LAUNCHES; i++)
    if (launch(&now, one, one, 0, 0, 0)) return -1;
  return (now() - start) / LAUNCHES;
}
int main(void) {
  void *p = 0;
  eager_task_begin(1, 64, 64, 0, 0);
  if (eager_cudaMalloc(&p, 64)) return 1;
  printf("%.1f %.1f\n", cost(eager_cudaLaunchKernel), cost(cudaLaunchKernel));
  return 0;
}
"#;

/// Binds the tasks of a client as normal ones of high priority, until it disconnects.
fn serve_one(listener: &OwnedFd, flags: u32) {
    wait_readable(listener.as_fd());
    let socket = accept(listener.as_fd()).expect("a client");
    let mut hello = [0; size_of::<Hello>()];
    wait_readable(socket.as_fd());
    receive(socket.as_fd(), &mut hello).expect("hello");
    let (mut pages, descriptors) = ClientPages::create().expect("pages");
    send_welcome(socket.as_fd(), &Welcome::accepted(1).into(), Some(&descriptors)).expect("welcome");
    loop {
        wait_readable(socket.as_fd());
        if receive(socket.as_fd(), &mut [0]) == Ok(0) {
            return;
        }
        while let Some(record) = pages.pop().expect("an honest ring") {
            let request = decode(&record).expect("a well-formed request");
            let mut cell = TaskCell { answered: request.sequence, ..TaskCell::new_zeroed() };
            if request.body != RequestBody::TaskEnd {
                (cell.state, cell.class, cell.grant) = (STATE_BOUND, CLASS_NORMAL, 64);
                (cell.flags, cell.gate) = (flags, gate::pack(true, 1, u64::MAX));
            }
            pages.publish_cell(request.slot, &cell, "");
        }
    }
}

fn wait_readable(descriptor: BorrowedFd<'_>) {
    let ready = poll(&mut [PollFd::new(descriptor, PollFlags::POLLIN)], PollTimeout::from(60_000u16));
    assert_eq!(ready, Ok(1), "nothing came from the program for a minute");
}

fn built_library() -> PathBuf {
    let bench = std::env::current_exe().expect("path of this benchmark");
    let folders = bench.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("libeager.so")).find(|file| file.exists());
    found.expect("libeager.so beside this benchmark: cargo builds it with the crate")
}

/// A folder with the runtime and the program, linked with a copy of the library.
fn stage(library: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("program.c"), PROGRAM).expect("write");
    std::fs::write(path("runtime.c"), RUNTIME).expect("write");
    std::fs::copy(library, path("libeager.so")).expect("copy the library");
    let runtime =
        ["-O2", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13", "-o", "libcudart.so.13", "runtime.c"];
    let program = ["-O2", "-o", "program", "program.c", "./libeager.so", "./libcudart.so.13"];
    for arguments in [&runtime[..], &program] {
        let done = Command::new("cc").args(arguments).current_dir(folder.path()).output().expect("cc");
        assert!(done.status.success(), "cc {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    folder
}

/// Nanoseconds per launch, through the library and without it.
fn sample(folder: &Path, listener: &OwnedFd, socket: &Path, flags: u32) -> [f64; 2] {
    let output = std::thread::scope(|scope| {
        let daemon = scope.spawn(|| serve_one(listener, flags));
        let output = Command::new(folder.join("program"))
            .current_dir(folder)
            .env("LD_LIBRARY_PATH", folder)
            .env("EAGER_SOCKET", socket)
            .env_remove("EAGER_DISABLE")
            .output()
            .expect("run the program");
        daemon.join().expect("the daemon's half");
        output
    });
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    numbers.try_into().expect("two numbers")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let named =
        arguments.windows(2).filter(|pair| pair[0] == "--library").map(|pair| PathBuf::from(&pair[1]));
    let is_gated = arguments.iter().any(|argument| argument == "--gated");
    let flags = FLAG_HIGH_PRIORITY | if is_gated { FLAG_GATED } else { 0 };
    let mut libraries: Vec<PathBuf> = named.collect();
    if libraries.is_empty() {
        libraries.push(built_library());
    }
    let stages: Vec<tempfile::TempDir> = libraries.iter().map(|library| stage(library)).collect();
    let folder = tempfile::tempdir().expect("temporary folder");
    let socket = folder.path().join("client.sock");
    let listener = bind_seqpacket(&socket).expect("listen");
    let mut samples = vec![[Vec::new(), Vec::new()]; libraries.len()];
    let mut kept =
        format!("# {:?}\nlibrary,round,through_library_ns,straight_ns\n", Stamp::now(folder_of_sources()));
    for round in 0..SAMPLES {
        for index in turns(round, stages.len()) {
            let [through, straight] = sample(stages[index].path(), &listener, &socket, flags);
            samples[index][0].push(through);
            samples[index][1].push(straight);
            writeln!(kept, "{},{round},{through},{straight}", libraries[index].display()).expect("a string");
        }
    }
    for (library, [through, straight]) in libraries.iter().zip(&samples) {
        println!(
            "{}: {:.1} ns per launch ±{:.1} %, {:.1} ns without the library; over the first library {:.3} ±{:.3}",
            library.display(),
            median(through),
            spread(through) * 100.0,
            median(straight),
            median(&ratios(&samples[0][0], through)),
            spread(&ratios(&samples[0][0], through)),
        );
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("launch_cost.csv");
    std::fs::write(&file, kept).expect("keep the samples");
    println!(
        "{SAMPLES} samples each, taken in turns (medians, half the distance of the quartiles): {}",
        file.display()
    );
}

fn folder_of_sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
