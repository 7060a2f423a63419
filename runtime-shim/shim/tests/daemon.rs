//! `libeager.so` with a small daemon of this test at the other end of a real socket and real shared pages.

use eager_proto::hello::{Hello, Welcome};
use eager_proto::reply::{CLASS_NORMAL, STATE_BOUND, TaskCell};
use eager_proto::request::{BeginFlags, RequestBody, decode};
use eager_shm::bind_seqpacket;
use eager_shm::daemon::{ClientPages, accept, receive, send_welcome};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command};
use zerocopy::FromZeros;

const RUNTIME: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int cudaMalloc(void **out, size_t n) { *out = malloc(n); printf("real cudaMalloc %zu\n", n); return 0; }
int cudaFree(void *p) { free(p); printf("real cudaFree\n"); return 0; }
int cudaSetDevice(int device) { printf("real cudaSetDevice %d\n", device); return 0; }
"#;

const PROGRAM: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int eager_cudaMalloc(void **, size_t);
int eager_cudaFree(void *);
int eager_cudaGetDevice(int *);
void eager_task_begin(uint64_t, uint64_t, uint64_t, uint64_t, uint32_t);
void eager_task_end(uint64_t);
static void use(void) {
  void *p = 0;
  int device = -1;
  eager_task_begin(1, 64, 64, 0, 0);
  printf("malloc %d\n", eager_cudaMalloc(&p, 64));
  if (eager_cudaGetDevice(&device) == 0) printf("device %d\n", device);
  printf("free %d\n", eager_cudaFree(p));
  eager_task_end(1);
  fflush(stdout);
}
int main(void) {
  use();
  if (fork() == 0) { use(); _exit(0); }
  wait(0);
  execl("/bin/sleep", "sleep", "1000", (char *)0);
  return 1;
}
"#;

/// Binds every task to device 3 as a normal one; returns the requests until the client closed the connection.
fn serve_one(listener: &OwnedFd) -> Vec<RequestBody> {
    wait_readable(listener.as_fd());
    let socket = accept(listener.as_fd()).expect("a client");
    let mut hello = [0; size_of::<Hello>()];
    wait_readable(socket.as_fd());
    let bytes = receive(socket.as_fd(), &mut hello).expect("hello");
    assert_eq!(Hello::decode(&hello[..bytes]).expect("a hello").label(), "program");
    let (mut pages, descriptors) = ClientPages::create().expect("pages");
    send_welcome(socket.as_fd(), &Welcome::accepted(1).into(), Some(&descriptors)).expect("welcome");
    let mut asked = Vec::new();
    loop {
        wait_readable(socket.as_fd());
        if receive(socket.as_fd(), &mut [0]) == Ok(0) {
            return asked;
        }
        while let Some(record) = pages.pop().expect("an honest ring") {
            let request = decode(&record).expect("a well-formed request");
            let ended = request.body == RequestBody::TaskEnd;
            let mut cell = TaskCell { answered: request.sequence, ..TaskCell::new_zeroed() };
            if !ended {
                (cell.state, cell.class, cell.device, cell.grant) = (STATE_BOUND, CLASS_NORMAL, 3, 64);
            }
            pages.publish_cell(request.slot, &cell, "");
            asked.push(request.body);
        }
    }
}

fn wait_readable(descriptor: BorrowedFd<'_>) {
    let ready = poll(&mut [PollFd::new(descriptor, PollFlags::POLLIN)], PollTimeout::from(60_000u16));
    assert_eq!(ready, Ok(1), "nothing came from the program for a minute");
}

/// A process that is killed when the test ends, however it ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn library() -> PathBuf {
    let test = std::env::current_exe().expect("path of this test");
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("libeager.so")).find(|file| file.exists());
    found.expect("libeager.so beside this test: cargo builds it with the crate")
}

/// The program uses CUDA, forks a child that does too, then becomes another program that lives on. The daemon must
/// get requests from the first only, and see the connection end although the process has not.
#[test]
fn a_program_is_bound_and_its_children_and_successors_are_not_taken_for_it() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("program.c"), PROGRAM).expect("write");
    std::fs::write(path("runtime.c"), RUNTIME).expect("write");
    std::fs::copy(library(), path("libeager.so")).expect("copy the library");
    for arguments in [
        &["-shared", "-fPIC", "-Wl,-soname,libcudart.so.13", "-o", "libcudart.so.13", "runtime.c"][..],
        &["-o", "program", "program.c", "./libeager.so"],
    ] {
        let done = Command::new("cc").args(arguments).current_dir(folder.path()).output().expect("cc");
        assert!(done.status.success(), "cc {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let listener = bind_seqpacket(&path("client.sock")).expect("listen");
    let out = std::fs::File::create(path("out")).expect("output file");
    let program = Command::new(path("program"))
        .current_dir(folder.path())
        .env("LD_LIBRARY_PATH", folder.path())
        .env("EAGER_SOCKET", path("client.sock"))
        .env_remove("EAGER_DISABLE")
        .stdout(out)
        .spawn();
    let mut program = Program(program.expect("run the program"));
    let asked = serve_one(&listener);
    let still_runs = program.0.try_wait().expect("state of the program").is_none();
    assert!(still_runs, "the connection closed on exec, not with the process");
    let begin = RequestBody::TaskBegin {
        requirement: 64,
        site: 1,
        blocks: 0,
        threads_per_block: 0,
        flags: BeginFlags::NONE,
        function: "unknown".into(),
    };
    assert_eq!(asked, [begin, RequestBody::TaskShrink { bytes: 64 }, RequestBody::TaskEnd]);
    let parent = "real cudaSetDevice 3\nreal cudaMalloc 64\nmalloc 0\ndevice 0\nreal cudaFree\nfree 0\n";
    let child = "real cudaMalloc 64\nmalloc 0\nreal cudaFree\nfree 0\n";
    assert_eq!(std::fs::read_to_string(path("out")).expect("output"), format!("{parent}{child}"));
}
