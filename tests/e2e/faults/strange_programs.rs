//! Programs that are built or behave in unusual ways: exceptions, jumps, signal handlers, destructors, sanitizers, long
//! core dumps, containers. The real shim, the real daemon, a device from a file.
//!
//! Trap: a wait for an expected event has only the harness's limit; only an event that must *not* come gets a time.

use eager_tests::place::{MIB, Place, Running};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// A signal number that is the same on every Linux that Eager runs on.
const SIGABRT: i32 = 6;

const PROGRAM: &str = r#"
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
extern "C" {
int eager_cudaMalloc(void **, size_t);
int eager_cudaFree(void *);
int eager_cudaSetDevice(int);
int eager_cudaLaunchHostFunc(void *, void (*)(void *), void *);
void eager_task_begin(uint64_t, uint64_t, uint64_t, uint64_t, uint32_t);
void eager_task_end(uint64_t);
}
static void say(const char *what) { puts(what); fflush(stdout); }
static void hear() { char line[8]; if (!fgets(line, sizeof line, stdin)) _exit(1); }
struct Task {
  uint64_t site;
  void *memory = nullptr;
  Task(uint64_t site, size_t mib) : site(site) {
    eager_task_begin(site, mib << 20, mib << 20, 0, 0);
    if (eager_cudaMalloc(&memory, mib << 20)) throw std::runtime_error("no memory");
  }
  ~Task() { if (eager_cudaFree(memory)) _exit(2); eager_task_end(site); }
};
static sigjmp_buf out;
static void jump(int) { siglongjmp(out, 1); }
static void handle(int) {
  void *p = nullptr;
  if (eager_cudaSetDevice(0) || eager_cudaMalloc(&p, 64) || eager_cudaFree(p)) _exit(3);
  if (write(1, "handled\n", 8) != 8) _exit(4);
}
/* After `ms`: out of what this thread is doing then. */
static void on_alarm(void (*handler)(int), int ms) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(SIGALRM, &action, nullptr);
  ualarm(ms * 1000, 0);
}
static void throws(void *) { throw std::runtime_error("from a callback"); }
static int deep(int level) {
  Task task(10 + level, 8);
  if (level == 3) throw std::runtime_error("deep");
  return deep(level + 1);
}
/* Taken before main and given back after it. */
struct Lasting {
  Task *task = nullptr;
  Lasting() { if (getenv("EAGER_TEST_LASTING")) task = new Task(30, 16); }
  ~Lasting() { if (task) { delete task; say("destroyed"); } }
};
static Lasting lasting;
static thread_local struct OfThread {
  Task *task = nullptr;
  ~OfThread() { delete task; }
} of_thread;
int main(int, char **arguments) {
  std::string how = arguments[1];
  if (how == "exceptions")
    for (int i = 0; i < 100; i++) try { deep(0); return 5; } catch (const std::runtime_error &) {}
  if (how == "callback") { Task task(1, 64); say("holding"); hear(); eager_cudaLaunchHostFunc(nullptr, throws, nullptr); return 6; }
  if (how == "jump") {
    on_alarm(jump, 300);
    if (!sigsetjmp(out, 1)) { Task never(1, 1000); return 7; }
    say("jumped");
    void *p = nullptr;
    if (eager_cudaMalloc(&p, 64) || eager_cudaFree(p)) return 8;
    std::thread other([] { Task task(2, 32); say("other thread"); hear(); });
    other.join();
    say("done"); hear();
    return 9;
  }
  if (how == "handler") { on_alarm(handle, 300); Task task(1, 1000); say("granted"); hear(); return 9; }
  if (how == "destructors") {
    std::thread([] { of_thread.task = new Task(31, 16); }).join();
    say("in main"); hear();
    return 9;
  }
  if (how == "core") {
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_CORE, &all)) { say("no core"); return 0; }
    size_t bytes = size_t(768) << 20;
    char *dirty = static_cast<char *>(malloc(bytes));
    for (size_t at = 0; at < bytes; at += 64) dirty[at] = char(at >> 6 | 1);
    Task task(1, 64);
    say("holding"); hear();
    abort();
  }
  Task task(1, 64);
  say("holding"); hear();
  return 9;
}
"#;

fn place() -> Option<Place> {
    Place::new("program.cpp", PROGRAM, &["-O1"])
}

fn ends_with_nine(place: &Place, program: &mut Running, when: &str) {
    assert_eq!(program.end().code(), Some(9), "{when}");
    place.until_granted(0, when);
}

#[test]
fn exceptions_through_frames_that_hold_tasks_give_them_back() {
    let Some(place) = place() else { return };
    let mut program = place.program("exceptions", "open");
    program.expect_line("holding");
    assert_eq!(place.granted(), 64 * MIB, "a hundred times four tasks were unwound");
    program.send_line();
    ends_with_nine(&place, &mut program, "exceptions");
}

/// A callback of the runtime that throws ends the program, as with NVIDIA's runtime; it never unwinds through the shim.
#[test]
fn an_exception_out_of_a_callback_ends_the_program_and_leaves_nothing() {
    let Some(place) = place() else { return };
    let mut program = place.program("callback", "open");
    program.expect_line("holding");
    program.send_line();
    assert_eq!(program.end().signal(), Some(SIGABRT), "{}", program.stderr_text());
    place.until_granted(0, "after the callback");
}

/// The jump leaves the shim during a wait: that thread is not scheduled any more, and other threads and programs are
/// not affected.
#[test]
fn a_program_that_jumps_out_of_a_wait_goes_on_and_its_other_threads_are_served() {
    let Some(place) = place() else { return };
    let mut holder = place.program("", "open");
    holder.expect_line("holding");
    let mut program = place.program("jump", "open");
    program.expect_line("jumped");
    program.expect_line("other thread");
    assert_eq!(place.granted(), (64 + 32) * MIB);
    program.send_line();
    program.expect_line("done");
    program.send_line();
    assert_eq!(program.end().code(), Some(9), "{}", program.stderr_text());
    holder.send_line();
    ends_with_nine(&place, &mut holder, "after the jump");
}

#[test]
fn calls_from_a_signal_handler_inside_a_wait_go_straight_to_cuda_and_the_wait_goes_on() {
    let Some(place) = place() else { return };
    let mut holder = place.program("", "open");
    holder.expect_line("holding");
    let mut program = place.program("handler", "open");
    program.expect_line("handled");
    assert_eq!(place.granted(), 64 * MIB, "it still waits");
    holder.send_line();
    assert_eq!(holder.end().code(), Some(9));
    program.expect_line("granted");
    assert_eq!(place.granted(), 1000 * MIB);
    program.send_line();
    ends_with_nine(&place, &mut program, "handler");
}

#[test]
fn what_lives_before_and_after_main_and_with_a_thread_is_scheduled_and_given_back() {
    let Some(place) = place() else { return };
    let mut program = place.program_under(&["env", "EAGER_TEST_LASTING=1"], "destructors", "open");
    program.expect_line("in main");
    assert_eq!(place.granted(), 16 * MIB, "what was taken before main; the thread's went with it");
    program.send_line();
    program.expect_line("destroyed");
    ends_with_nine(&place, &mut program, "destructors");
}

/// The grant stays while the process writes its memory into a file: the process still exists, and so does its device
/// memory.
#[test]
fn a_program_keeps_its_grant_while_it_dumps_its_core() {
    let Some(place) = place() else { return };
    let mut program = place.program("core", "open");
    if !program.expect_either("holding", "no core") {
        eprintln!("SKIPPED: core dumps are forbidden here");
        return;
    }
    program.send_line();
    let status = format!("/proc/{}/status", program.child.id());
    let dumps = || std::fs::read_to_string(&status).is_ok_and(|text| text.contains("CoreDumping:\t1"));
    let ended = || std::fs::read_to_string(&status).map_or(true, |text| text.contains("State:\tZ"));
    while !dumps() && !ended() {
        std::thread::yield_now();
    }
    let start = Instant::now();
    let (mut looks, mut held) = (0, 0);
    while dumps() {
        let granted = place.granted();
        // An answer about the dump came before the process ended.
        if dumps() {
            looks += 1;
            held += u32::from(granted == 64 * MIB);
        }
    }
    if looks == 0 {
        eprintln!("SKIPPED: the core dump took no time that could be seen: {:?}", start.elapsed());
    }
    assert_eq!(held, looks, "it was free while the process was still there");
    eprintln!("held in {held} looks while it dumped its core, for {:?}", start.elapsed());
    assert_eq!(program.end().signal(), Some(SIGABRT));
    place.until_granted(0, "after the dump");
}

#[test]
fn a_program_built_with_sanitizers_is_served_like_any_other() {
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"];
    let works =
        Command::new("c++").args(flags).args(["-xc++", "-", "-o", "/dev/null"]).stdin(empty_main()).output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this compiler has no address sanitizer");
        return;
    }
    let Some(place) = Place::new("program.cpp", PROGRAM, &flags) else { return };
    for how in ["", "exceptions"] {
        let mut program = place.program(how, "open");
        program.expect_line("holding");
        assert_eq!(place.granted(), 64 * MIB);
        program.send_line();
        ends_with_nine(&place, &mut program, "with sanitizers");
        let said = program.stderr_text();
        assert!(!said.contains("Sanitizer") && !said.contains("runtime error"), "{said}");
    }
}

fn empty_main() -> std::fs::File {
    let mut file = tempfile::tempfile().expect("file");
    std::io::Write::write_all(&mut file, b"int main() { return 0; }\n").expect("write");
    std::io::Seek::rewind(&mut file).expect("rewind");
    file
}

/// In a user namespace that does not map root, the daemon seems to belong to the user nobody. The starter of the
/// container may say that this user is to be trusted; by default it is not.
#[test]
fn a_container_that_does_not_map_root_is_served_where_its_starter_says_so() {
    let wrapper = ["unshare", "--user"];
    let works = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no user namespaces here");
        return;
    }
    let Some(place) = place() else { return };
    let mut alone = place.program_under(&wrapper, "", "open");
    alone.expect_line("holding");
    assert_eq!(place.granted(), 0, "who is there cannot be known, and is not trusted");
    alone.send_line();
    assert_eq!(alone.end().code(), Some(9));
    let said = alone.stderr_text();
    assert!(said.contains("set EAGER_TRUST_UID=65534"), "{said}");
    let trusting = ["unshare", "--user", "env", "EAGER_TRUST_UID=65534"];
    let mut program = place.program_under(&trusting, "", "open");
    program.expect_line("holding");
    assert_eq!(place.granted(), 64 * MIB);
    program.send_line();
    ends_with_nine(&place, &mut program, "in a container");
}

/// A wall clock that jumps an hour forward and back at each look, for everything that daemon and program read through
/// the C library.
const JUMPING_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static atomic_long looks;
static long jump(void) { return atomic_fetch_add(&looks, 1) % 2 ? 3600 : -3600; }
int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = syscall(SYS_clock_gettime, clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
  return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
  int failed = syscall(SYS_gettimeofday, now, zone);
  if (!failed) now->tv_sec += jump();
  return failed;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"#;

/// Daemon and programs run under that clock; then programs whose clocks since boot are days ahead (as after a sleep of
/// the machine). A wait must neither end early nor last longer.
#[test]
fn waits_neither_end_nor_lengthen_when_clocks_jump() {
    let Some(mut place) = place() else { return };
    place.kill_daemon();
    let library = place.library("clock", JUMPING_CLOCK);
    let preload = format!("LD_PRELOAD={}", library.display());
    place.restart_daemon_under(&["env", &preload]);
    let mut wrappers: Vec<Vec<&str>> = vec![vec!["env", &preload]];
    let days = ["unshare", "--time", "--monotonic", "864000", "--boottime", "864000"];
    if Command::new(days[0]).args(&days[1..]).arg("true").output().is_ok_and(|output| output.status.success())
    {
        wrappers.push(days.to_vec());
    } else {
        eprintln!("SKIPPED in part: no time namespaces here");
    }
    for wrapper in wrappers {
        let mut holder = place.program_under(&wrapper, "", "wait:60");
        holder.expect_line("holding");
        let mut program = place.program_under(&wrapper, "handler", "wait:60");
        // The program is a third of a second into its wait.
        program.expect_line("handled");
        assert_eq!(place.granted(), 64 * MIB, "{wrapper:?}: it still waits");
        let start = Instant::now();
        holder.send_line();
        program.expect_line("granted");
        assert!(start.elapsed() < Duration::from_secs(20), "{wrapper:?}: after {:?}", start.elapsed());
        program.send_line();
        ends_with_nine(&place, &mut program, "with clocks that jump");
        assert_eq!(
            (holder.end().code(), holder.stderr_text(), program.stderr_text()),
            (Some(9), "".into(), "".into())
        );
    }
}
