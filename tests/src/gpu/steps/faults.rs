//! Kill and fault cases on a device: G1 (killed in a kernel), G2 (an illegal address beside a neighbour), G3 (memory in
//! NVML against granted memory).
//!
//! Trap: where NVML is a stand-in, memory in use never changes; a comparison with it is then not made, and the row says
//! so.

use super::{Context, timed};
use crate::gpu::bundle::{Devices, PROBE};
use crate::gpu::choice::{Sizes, run_of};
use crate::gpu::process::{Ended, Running, io_error, reader, run, text};
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::{Served, run_with};
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const STEP: &str = "faults";
const POLICY: &str = "eager-opt";
const MIB: u64 = 1 << 20;
/// Bytes of the case G1, if the card has room.
const KILLED_BYTES: u64 = 100 << 30;
/// Memory counts as returned when no more than this many bytes above the earlier value are in use.
const TOLERANCE_BYTES: u64 = 64 * MIB;
const BACK_LIMIT: Duration = Duration::from_secs(60);
/// Wait after which the kernel is on the device for sure.
const KERNEL_STARTS: Duration = Duration::from_millis(500);
/// Wait for the end of a probe that printed something unexpected.
const END_LIMIT: Duration = Duration::from_secs(1);
const MILLI: f64 = 1e3;

pub fn rows(context: &Context<'_>) -> Vec<Row> {
    vec![
        timed(|| killed(context)),
        timed(|| Row::of(STEP, "G2: illegal address beside a neighbour", neighbour(context))),
        timed(|| memory(context)),
    ]
}

fn is_virtual(context: &Context<'_>) -> bool {
    context.bundle.contents.devices == Devices::Virtual
}

/// A program whose output is read line by line.
struct Probe {
    running: Running,
    lines: mpsc::Receiver<(String, Instant)>,
    stdin: Option<ChildStdin>,
    err: Option<JoinHandle<Vec<u8>>>,
}

impl Probe {
    fn start(daemon: &Served<'_>, words: &[&str]) -> Result<Probe, String> {
        let mut command = daemon.program(PROBE, words[0]);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(&mut command)?;
        let (send, lines) = mpsc::channel();
        let out = running.child.stdout.take();
        std::thread::spawn(move || out.map(|out| forward_lines(out, &send)));
        let stdin = running.child.stdin.take();
        let err = Some(reader(running.child.stderr.take()));
        Ok(Probe { running, lines, stdin, err })
    }

    fn expect_line(&mut self, expected: &str, limit: Duration) -> Result<(), String> {
        match self.lines.recv_timeout(limit) {
            Ok((line, _)) if line == expected => Ok(()),
            Ok((line, _)) if line.is_empty() => {
                Err(format!("the probe did not print {expected:?}: {}", self.end()))
            }
            Ok((line, _)) => {
                Err(format!("the probe printed {line:?} in place of {expected:?}: {}", self.end()))
            }
            Err(_) => {
                let seconds = limit.as_secs();
                Err(format!("the probe did not print {expected:?} within {seconds} s: {}", self.end()))
            }
        }
    }

    /// Kills the program if it has not ended; returns how it ended and its last lines.
    fn end(&mut self) -> String {
        if !self.running.ends_within(END_LIMIT)
            && let Err(why) = self.running.kill()
        {
            return why;
        }
        let Ok(status) = self.running.child.wait() else { return "cannot find out how it ended".to_owned() };
        let elapsed = self.running.elapsed();
        let ended =
            Ended { status, out: String::new(), err: self.err.take().map(text).unwrap_or_default(), elapsed };
        ended.succeeded().map_or_else(|why| why, |ended| format!("exit code 0: {}", ended.err.trim()))
    }

    fn send_line(&mut self) -> Result<(), String> {
        let Some(stdin) = &mut self.stdin else { return Err("the probe has no standard input".to_owned()) };
        stdin.write_all(b"\n").map_err(io_error("the probe"))
    }

    /// Returns when the program's end of the pipe was closed.
    fn closed(&self) -> Option<Instant> {
        let until = Instant::now() + BACK_LIMIT;
        while let Ok((line, when)) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if line.is_empty() {
                return Some(when);
            }
        }
        None
    }
}

/// Sends each line with the time of its arrival, and an empty line at the end.
fn forward_lines(out: ChildStdout, send: &mpsc::Sender<(String, Instant)>) {
    let mut out = BufReader::new(out);
    loop {
        let mut line = String::new();
        let is_end = out.by_ref().read_line(&mut line).map_or(true, |count| count == 0);
        if send.send((line.trim_end().to_owned(), Instant::now())).is_err() || is_end {
            return;
        }
    }
}

/// Milliseconds from SIGKILL to each sign that the process and its memory are gone.
#[derive(Debug, Clone, Copy)]
struct Back {
    pidfd: f64,
    closed: f64,
    ledger: f64,
    nvml: f64,
}

fn killed(context: &Context<'_>) -> Row {
    let row = Row::new(STEP, "G1: SIGKILL in a kernel");
    match kill_in_kernel(context) {
        Ok((bytes, back)) => {
            let Back { pidfd, closed, ledger, nvml } = back;
            let said = format!(
                "{} MiB managed; after ms: pidfd {pidfd:.1}, its end of a pipe {closed:.1}, ledger free {ledger:.1}",
                bytes / MIB
            );
            let row = row
                .samples("bytes", vec![bytes as f64])
                .samples("pidfd_ms", vec![pidfd])
                .samples("closed_ms", vec![closed])
                .samples("ledger_free_ms", vec![ledger]);
            match is_virtual(context) {
                true => row.with(Status::Ok, format!("{said}; memory in NVML not measured")),
                false => {
                    // The ledger must not give away what the driver still holds.
                    let status = if nvml <= ledger { Status::Ok } else { Status::Missed };
                    row.with(status, format!("{said}, NVML {nvml:.1}")).samples("nvml_free_ms", vec![nvml])
                }
            }
        }
        Err(why) => row.with(Status::Failed, why),
    }
}

fn kill_in_kernel(context: &Context<'_>) -> Result<(u64, Back), String> {
    let free = context.gpu.free()?;
    let wanted = if is_virtual(context) { 64 * MIB } else { KILLED_BYTES };
    let bytes = rule::at_most(free, wanted).next_multiple_of(MIB);
    rule::allows(free, &[bytes])?;
    let before = context.gpu.used()?;
    let daemon = Served::start(context.bundle, context.gpu, POLICY, free)?;
    let mut probe = Probe::start(&daemon, &["spin", &bytes.to_string()])?;
    probe.expect_line("running", context.limit)?;
    std::thread::sleep(KERNEL_STARTS);
    if daemon.granted()? == 0 {
        return Err("nothing was granted to the probe".to_owned());
    }
    let start = Instant::now();
    let since = |when: Instant| when.saturating_duration_since(start).as_secs_f64() * MILLI;
    eager_shm::process::signal(&probe.running.pidfd, Signal::SIGKILL).map_err(io_error("SIGKILL"))?;
    let (ledger, nvml, pidfd) = std::thread::scope(|scope| {
        let ledger = scope.spawn(|| until(|| Ok(daemon.granted()? == 0)));
        let nvml = scope.spawn(|| until(|| Ok(context.gpu.used()? <= before + TOLERANCE_BYTES)));
        let ended = probe.running.ends_within(BACK_LIMIT).then(Instant::now);
        let failed = || Err("the check itself failed".to_owned());
        (ledger.join().unwrap_or_else(|_| failed()), nvml.join().unwrap_or_else(|_| failed()), ended)
    });
    let pidfd = pidfd.ok_or("the probe did not end")?;
    let closed = probe.closed().ok_or("its pipe stayed open")?;
    probe.running.kill()?;
    let [ledger, nvml] = [("the ledger", ledger), ("NVML", nvml)].map(|(who, when)| match when {
        Ok(when) => Ok(since(when)),
        Err(why) => Err(format!("{who}: {why}")),
    });
    let back = Back { pidfd: since(pidfd), closed: since(closed), ledger: ledger?, nvml: nvml? };
    daemon.stop()?;
    Ok((bytes, back))
}

/// Polls until the condition holds; returns that time.
fn until(holds: impl Fn() -> Result<bool, String>) -> Result<Instant, String> {
    let start = Instant::now();
    loop {
        if holds()? {
            return Ok(Instant::now());
        }
        if start.elapsed() > BACK_LIMIT {
            return Err(format!("memory not back after {} s", BACK_LIMIT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a program that checks itself, while others beside it write to an illegal address.
fn neighbour(context: &Context<'_>) -> Result<String, String> {
    let program = *context.bundle.programs().first().ok_or("the bundle has no program")?;
    let sizes = if context.sizes == Sizes::Smoke { Sizes::Smoke } else { Sizes::Small };
    rule::allows(context.gpu.free()?, &[run_of(program, sizes).bytes])?;
    let mut words = context.arguments(program, sizes)?;
    words.push("--verify".to_owned());
    let daemon = Served::start(context.bundle, context.gpu, POLICY, context.capacity)?;
    let verified = || {
        let ended = run_with(&mut daemon.program(&program.binary, &program.name), &words, context.limit)?;
        match ended.out.lines().any(|line| line == program.expected) {
            true => Ok(()),
            false => Err(format!("{}: no `{}`", program.name, program.expected)),
        }
    };
    let faults = std::thread::scope(|scope| {
        let neighbour = scope.spawn(verified);
        let mut faults = 0;
        // At least one fault while the program runs, and as many as there is time for.
        loop {
            let ended = run(daemon.program(PROBE, "illegal").arg("illegal"), context.limit)?;
            if !ended.status.success() {
                let said = format!("{}{}", ended.out, ended.err);
                return Err(format!("the probe's fault was no illegal address: {}", said.trim()));
            }
            faults += 1;
            if neighbour.is_finished() {
                neighbour.join().unwrap_or_else(|_| Err("the check itself failed".to_owned()))?;
                return Ok(faults);
            }
        }
    })?;
    verified().map_err(|why| format!("after the fault: {why}"))?;
    let granted = daemon.granted()?;
    daemon.stop()?;
    match granted {
        0 => Ok(format!("{} beside {faults} fault(s) and after: {}", program.name, program.expected)),
        left => Err(format!("{left} bytes stayed granted")),
    }
}

fn memory(context: &Context<'_>) -> Row {
    let row = Row::new(STEP, "G3: memory in NVML against grants");
    match states(context) {
        Ok(states) => {
            let seen = |(what, used, granted): &(&str, u64, u64)| match is_virtual(context) {
                true => format!("{what}: granted {}", granted / MIB),
                false => format!("{what}: NVML {}, granted {}", used / MIB, granted / MIB),
            };
            let mut said = format!("MiB: {}", states.iter().map(seen).collect::<Vec<_>>().join("; "));
            let granted = states.iter().map(|(_, _, granted)| *granted as f64).collect();
            let row = row.samples("granted_bytes", granted);
            if is_virtual(context) {
                said += "; memory in NVML not measured";
                return row.with(Status::Ok, said);
            }
            let used = states.iter().map(|(_, used, _)| *used as f64).collect();
            row.samples("nvml_used_bytes", used).with(Status::Ok, said)
        }
        Err(why) => row.with(Status::Failed, why),
    }
}

/// Returns for each state of the probe its name, the bytes in use beyond those before it, and the bytes granted.
fn states(context: &Context<'_>) -> Result<Vec<(&'static str, u64, u64)>, String> {
    let bytes = if is_virtual(context) { 16 * MIB } else { 1024 * MIB };
    rule::allows(context.gpu.free()?, &[bytes, bytes])?;
    let before = context.gpu.used()?;
    let daemon = Served::start(context.bundle, context.gpu, POLICY, context.capacity)?;
    let mut probe = Probe::start(&daemon, &["memory", &bytes.to_string()])?;
    let mut states = Vec::new();
    for what in ["nothing", "context", "plain", "managed", "freed"] {
        probe.expect_line(what, context.limit)?;
        states.push((what, context.gpu.used()?.saturating_sub(before), daemon.granted()?));
        probe.send_line()?;
    }
    if !probe.running.ends_within(context.limit) {
        return Err("the probe did not end".to_owned());
    }
    let ended = probe.running.child.wait().map_err(io_error("the probe"))?;
    if !ended.success() {
        return Err(format!("the probe, at its end: {}", probe.end()));
    }
    drop(probe);
    daemon.stop()?;
    Ok(states)
}
