//! Programs that end in every possible way, and a daemon that is killed under a running program: the real shim, the
//! real daemon, devices from a file, and a runtime of a few lines in C.

use eager_tests::place::{MIB, Place};
use eager_tests::{run_ok, tool};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

/// Takes 64 MiB, prints so, waits for a line, and ends as its argument says.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
int eager_cudaMalloc(void **, size_t);
int eager_cudaFree(void *);
void eager_task_begin(uint64_t, uint64_t, uint64_t, uint64_t, uint32_t);
void eager_task_end(uint64_t);
static void *ends(void *unused) { exit(7); return unused; }
static void *takes(void *site);
static int overflow(volatile char *from) {
  volatile char page[4096];
  page[0] = *from;
  return overflow(page) + page[0];
}
static void tick(int signal) { (void)signal; }
static void *take(uint64_t site, size_t mib) {
  void *p = 0;
  eager_task_begin(site, mib << 20, mib << 20, 0, 0);
  if (eager_cudaMalloc(&p, mib << 20)) exit(1);
  return p;
}
static void give(uint64_t site, void *p) {
  if (eager_cudaFree(p)) exit(1);
  eager_task_end(site);
}
static void *takes(void *site) {
  for (int i = 0; i < 20; i++) give((uint64_t)site, take((uint64_t)site, 1));
  return 0;
}
static void *asks_for_ever(void *site) {
  for (;;) { give((uint64_t)site, take((uint64_t)site, 1)); pthread_testcancel(); }
}
static void *ends_main(void *main_thread) {
  pthread_join(*(pthread_t *)main_thread, 0);
  exit(7);
}
static void *kept;
static void destroyed(void) { give(1, kept); puts("destroyed"); fflush(stdout); }
static void give_at_end(void *p) { kept = p; atexit(destroyed); }
int main(int count, char **arguments) {
  const char *how = count > 1 ? arguments[1] : "";
  char line[8];
  if (!strcmp(how, "storm")) {
    struct sigaction action = {.sa_handler = tick};
    struct itimerval often = {{0, 100}, {0, 100}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    for (int i = 0; i < 200; i++) give(1, take(1, 64));
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_REAL, &often, 0);
  }
  if (!strcmp(how, "threads")) {
    // A program has 16 tasks at once; what a cancelled thread held stays open.
    for (long round = 0; round < 8; round++) {
      pthread_t threads[4], cancelled;
      for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, takes, (void *)(i + 10));
      pthread_create(&cancelled, 0, asks_for_ever, (void *)(20 + round));
      for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
      pthread_cancel(cancelled);
      pthread_join(cancelled, 0);
    }
  }
  void *p = take(1, 64);
  if (!strcmp(how, "children")) {
    if (system("true") || (fork() == 0 && (setsid(), fork() || sleep(30), 1))) _exit(1);
    wait(0);
  }
  puts("holding"); fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) return 1;
  if (!strcmp(how, "exit")) exit(7);
  if (!strcmp(how, "_exit")) _exit(7);
  if (!strcmp(how, "quick_exit")) quick_exit(7);
  if (!strcmp(how, "return")) return 7;
  if (!strcmp(how, "thread")) { pthread_t t; pthread_create(&t, 0, ends, 0); pause(); }
  if (!strcmp(how, "main_thread")) {
    static pthread_t self;
    pthread_t t;
    self = pthread_self();
    pthread_create(&t, 0, ends_main, &self);
    pthread_exit(0);
  }
  if (!strcmp(how, "overflow")) return overflow(line);
  if (!strcmp(how, "atexit")) { give_at_end(p); exit(7); }
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "fault")) raise(SIGSEGV);
  if (!strcmp(how, "exec")) execl("/bin/sleep", "sleep", "60", (char *)0);
  give(1, p);
  p = take(2, 32);
  puts("second"); fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) return 1;
  give(2, p);
  return 0;
}
"#;

#[test]
fn a_program_that_ends_anyhow_frees_its_grant_and_keeps_its_exit_code() {
    let Some(place) = Place::new("program.c", PROGRAM, &[]) else { return };
    for how in [
        "exit",
        "_exit",
        "quick_exit",
        "return",
        "thread",
        "main_thread",
        "atexit",
        "abort",
        "fault",
        "overflow",
    ] {
        let mut program = place.program(how, "open");
        program.expect_line("holding");
        assert_eq!(place.granted(), 64 * MIB, "{how}");
        program.send_line();
        let status = program.end();
        match how {
            "abort" => assert_eq!(status.signal(), Some(libc_signal::ABORT)),
            "fault" | "overflow" => assert_eq!(status.signal(), Some(libc_signal::SEGV)),
            _ => assert_eq!(status.code(), Some(7), "{how}"),
        }
        place.until_granted(0, how);
    }
}

/// Signal numbers that are the same on every Linux that Eager runs on.
mod libc_signal {
    pub const ABORT: i32 = 6;
    pub const SEGV: i32 = 11;
}

/// Four threads at a time, 32 in all, each with tasks of its own; beside them eight threads that are cancelled at any
/// point.
#[test]
fn threads_end_and_are_cancelled_without_costing_the_others_anything() {
    let Some(place) = Place::new("program.c", PROGRAM, &[]) else { return };
    let mut program = place.program("threads", "open");
    program.expect_line("holding");
    // Cancelled threads may leave memory, 1 MiB each; it belongs to their program and goes with it.
    assert!((64 * MIB..=72 * MIB).contains(&place.granted()), "{} granted", place.granted());
    program.send_line();
    program.expect_line("second");
    program.send_line();
    assert_eq!(program.end().code(), Some(0));
    place.until_granted(0, "threads");
}

#[test]
fn children_of_a_program_do_not_keep_its_grant_alive() {
    let Some(place) = Place::new("program.c", PROGRAM, &[]) else { return };
    let mut program = place.program("children", "open");
    program.expect_line("holding");
    assert_eq!(place.granted(), 64 * MIB);
    // A grandchild lives on for half a minute, with the descriptors that it inherited.
    program.child.kill().expect("kill -9");
    program.end();
    place.until_granted(0, "after its end");
}

#[test]
fn a_program_that_became_another_gives_its_grant_up_after_a_grace() {
    let Some(place) = Place::new("program.c", PROGRAM, &[]) else { return };
    let mut program = place.program("exec", "open");
    program.expect_line("holding");
    program.send_line();
    let took = place.until_granted(0, "after exec");
    assert!(program.child.try_wait().expect("state").is_none(), "the process lives");
    assert!(took > Duration::from_secs(3), "no grace: {took:?}");
}

#[test]
fn a_storm_of_signals_loses_no_answer() {
    let Some(place) = Place::new("program.c", PROGRAM, &[]) else { return };
    let mut program = place.program("storm", "open");
    program.expect_line("holding");
    assert_eq!(place.granted(), 64 * MIB);
    program.send_line();
    program.expect_line("second");
    program.send_line();
    assert!(program.end().success());
}

#[test]
fn a_running_program_does_not_notice_that_its_daemon_was_killed_and_started_again() {
    let Some(mut place) = Place::new("program.c", PROGRAM, &[]) else { return };
    for on_loss in ["open", "closed", "wait:60"] {
        let mut program = place.program("", on_loss);
        program.expect_line("holding");
        place.kill_daemon();
        place.restart_daemon_under(&[]);
        assert_eq!(place.granted(), 64 * MIB, "{on_loss}: before it came back");
        assert_eq!(place.info()["daemon"]["unattached"].as_u64(), Some(1));
        // The program ends a task that the first daemon bound, and begins one that only the second knows.
        program.send_line();
        program.expect_line("second");
        assert_eq!(place.granted(), 32 * MIB, "{on_loss}");
        assert_eq!(place.info()["daemon"]["unattached"].as_u64(), Some(0));
        program.send_line();
        assert!(program.end().success(), "{on_loss}");
        assert_eq!(program.stderr_text(), "", "{on_loss}");
        place.until_granted(0, on_loss);
    }
}

#[test]
fn a_program_whose_daemon_ended_in_order_goes_on_alone_and_says_so_once() {
    let Some(mut place) = Place::new("program.c", PROGRAM, &[]) else { return };
    let mut program = place.program("", "open");
    program.expect_line("holding");
    run_ok(
        Command::new(tool("eager"))
            .args(["shutdown", "--force", "--run-dir"])
            .arg(place.dir.path().join("run")),
    );
    place.daemon.wait().expect("wait");
    program.send_line();
    program.expect_line("second");
    program.send_line();
    assert!(program.end().success());
    let said = program.stderr_text();
    assert!(said.contains("lost the daemon") && said.lines().count() == 1, "{said}");
}
