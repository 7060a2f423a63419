//! A mixed load: programs of two users take, check and give back memory while neighbours, the daemon and the programs
//! themselves are killed, users attack, settings are read again, tasks are held and cancelled, and policies change. At
//! quiet moments the daemon's ledger is compared with what the programs report to hold.
//!
//! The short test takes half a minute; `make test-long` runs an hour. `EAGER_TEST_SECONDS=N` sets the time,
//! `EAGER_TEST_SEED=N` repeats a seed, which is printed. Trap: a moment is quiet when every program is between two
//! calls or inside one that waits. The ledger follows with a short delay, so only a difference that stays is an error.

use eager_core::policy::PolicyName;
use eager_tests::mixed::{ALICE, Draw, Server, Watch, Worker, differences};
use eager_tests::{eagercc, has_toolchain, number, root, run_ok};
use nix::sys::signal::Signal;
use nix::unistd::Uid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const WORKERS: usize = 8;
/// Eight programs want twice the memory of two devices.
const MIB_EACH: u64 = 120;
/// Longest wait for a quiet moment: programs wait for a daemon, devices page, the machine is under load.
const SETTLES: Duration = Duration::from_secs(60);
/// Arguments of the hostile client; an attack with a dot is on the virtual GPUs' server.
const ATTACKS: [&[&str]; 14] = [
    &["--scribble", "1000"],
    &["--flood", "1000"],
    &["--reconnect", "1000"],
    &["--torrent", "1000"],
    &["--silent", "300"],
    &["--waiting", "300"],
    &["--crowd", "200"],
    &["--visits", "50"],
    &["--log-flood", "500"],
    &["--double-release"],
    &["--ring-head", "1000000"],
    &["--descriptors", "10"],
    &["--hold", "40"],
    &["--deaf"],
];

/// Returns all policies that may decide for devices, but those that give a device to a program until it ends: most programs
/// here end with the test, and others would wait for that.
fn policies() -> Vec<&'static str> {
    let served = PolicyName::ALL.into_iter().filter(|policy| policy.for_devices().is_ok());
    let by_task = served.filter(|policy| !policy.traits().assignment.is_by_program());
    by_task.map(PolicyName::as_str).collect()
}

struct Mix<'a> {
    server: Server,
    workers: Vec<Worker>,
    program: &'a Path,
    draw: Draw,
    started: u64,
    counts: BTreeMap<&'static str, u32>,
    /// Sum of the bytes that programs reported to hold, over all comparisons.
    compared: u64,
    /// Policies that were set.
    decided: BTreeSet<&'static str>,
    watch: Watch,
}

impl Mix<'_> {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn start_worker(&mut self) -> Worker {
        self.started += 1;
        let other = Uid::effective().is_root() && self.draw.below(2) == 0;
        Worker::start(&self.server, self.program, self.started, MIB_EACH, other.then_some(ALICE))
    }

    /// Does one random action.
    fn step(&mut self) {
        let which = self.draw.below(self.workers.len() as u64) as usize;
        let action = self.draw.below(16);
        self.watch.begins(format!("action {action} of `step`, beside {:?}", self.counts));
        match action {
            0..=2 => {
                self.workers[which].kill();
                self.workers[which] = self.start_worker();
                self.count("kills of programs");
            }
            3 | 4 => {
                let attack = ATTACKS[self.draw.below(ATTACKS.len() as u64) as usize];
                self.server.attack("client.sock", attack);
                self.count("attacks");
            }
            5 => {
                let attack = [["--silent", "200"], ["--torrent", "1000"]][self.draw.below(2) as usize];
                self.server.attack("vgpu.sock", &attack);
                self.count("attacks on the virtual GPUs");
            }
            6 => {
                let signal = if self.draw.below(2) == 0 { Signal::SIGKILL } else { Signal::SIGTERM };
                let pause = Duration::from_millis(self.draw.below(300));
                self.server.restart(signal, pause);
                self.count("restarts of the daemon");
            }
            7 => {
                let settings = self.settings();
                self.server.reload(&settings);
                self.count("reloads");
            }
            8 | 9 => {
                let policies = policies();
                let policy = policies[self.draw.below(policies.len() as u64) as usize];
                if self.server.command_output(&["policy", "set", policy]).contains(" decides ") {
                    self.decided.insert(policy);
                }
                self.count("other policies");
            }
            10 => {
                self.workers[which].stop_for(Duration::from_millis(self.draw.below(1500)));
                self.count("stopped programs");
            }
            11 => self.hold(),
            12 => self.release(),
            13 | 14 => self.cancel(),
            _ => {
                self.server.command(&["drain", "1"]);
                std::thread::sleep(Duration::from_millis(self.draw.below(500)));
                self.server.command(&["undrain", "1"]);
                self.count("drains");
            }
        }
    }

    /// Picks one of the tasks; returns its number and whether it waits.
    fn any_task(&mut self) -> Option<(u64, bool)> {
        let tasks = self.server.tasks();
        let at = self.draw.below((tasks.len() as u64).max(1)) as usize;
        tasks.get(at).copied()
    }

    /// Holds a waiting task, so that it does not start for a while.
    fn hold(&mut self) {
        let waiting: Vec<u64> =
            self.server.tasks().into_iter().filter(|(_, waits)| *waits).map(|(task, _)| task).collect();
        let Some(task) = waiting.first() else { return };
        if self.server.command_output(&["hold", &task.to_string()]).contains(" is held") {
            self.count("holds");
        }
    }

    fn release(&mut self) {
        for task in self.server.held() {
            if self.server.command_output(&["release", &task.to_string()]).contains(" is released") {
                self.count("releases");
            }
        }
    }

    /// Cancels a task: one that waits is refused, and the program of one that runs is ended.
    fn cancel(&mut self) {
        let Some((task, _)) = self.any_task() else { return };
        let said = self.server.command_output(&["cancel", &task.to_string()]);
        if said.contains(" is refused") {
            self.count("cancelled tasks that waited");
        }
        let pid = said.split_once(" was sent to pid ").and_then(|(_, rest)| rest.split_once(','));
        let Some(pid) = pid.and_then(|(pid, _)| pid.parse::<u32>().ok()) else { return };
        // The task may be an attacker's.
        if let Some(which) = self.workers.iter().position(|worker| worker.pid() == pid) {
            self.workers[which].assert_ended_by_sigterm();
            self.workers[which] = self.start_worker();
            self.count("cancelled tasks that ran");
        }
    }

    fn settings(&mut self) -> String {
        let mut text = String::new();
        if self.draw.below(2) == 0 {
            text += &format!("memory-per-user = \"{}MiB\"\n", 150 + self.draw.below(300));
        }
        if self.draw.below(2) == 0 {
            text += &format!("waiting-per-user = {}\n", 1 + self.draw.below(10));
        }
        if self.draw.below(2) == 0 {
            text += "overrun = \"throttle\"\n";
        }
        text + "[options]\nhold_ns_max = 2000000000\ncircle_ns = 1000000000\n"
    }

    /// Stops all programs, compares the ledger, and lets them go on. Returns the differences if they stay.
    fn quiet_moment(&mut self) -> Result<(), String> {
        self.watch.begins(format!("a quiet moment, after {:?}", self.counts));
        self.server.end_attacks();
        self.workers.iter_mut().for_each(|worker| worker.send("stop"));
        let deadline = Instant::now() + SETTLES;
        loop {
            let reports: Vec<_> = self.workers.iter_mut().map(Worker::report).collect();
            let found = differences(&self.server, &reports);
            if found.is_empty() {
                self.compared += reports.iter().map(|report| report.holds).sum::<u64>();
                break;
            }
            if Instant::now() > deadline {
                return Err(found.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.workers.iter_mut().for_each(|worker| worker.send("go"));
        self.count("comparisons");
        Ok(())
    }

    /// Lets all programs end by themselves. A program may need the device of a later one, so all are told before the
    /// first wait. An earlier step whose answer was lost may still hold tasks or drain a device, so both are undone
    /// until all have ended.
    fn end(mut self) {
        self.watch.begins("the programs' ends");
        self.workers.iter_mut().for_each(Worker::close_input);
        while !self.workers.iter_mut().all(Worker::has_ended) {
            self.server.command(&["undrain", "1"]);
            self.release();
            std::thread::sleep(Duration::from_millis(100));
        }
        self.workers.drain(..).for_each(Worker::assert_ends_well);
        self.watch.begins("an empty ledger");
        self.server.until_empty();
    }
}

fn mixed_load(seconds: u64) {
    if !has_toolchain("mixed load") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("open to others");
    let program = folder.path().join("worker");
    eagercc(&[&root().join("tests/mixed/worker.cu")], &program);
    let seed = number("EAGER_TEST_SEED", u64::from(std::process::id()));
    let seconds = number("EAGER_TEST_SECONDS", seconds);
    eprintln!("EAGER_TEST_SEED={seed} EAGER_TEST_SECONDS={seconds}");
    if !Uid::effective().is_root() {
        eprintln!("SKIPPED: programs and attacks of another user: only root can be several users");
    }
    let draw = Draw::new(seed);
    let server = Server::start();
    // The first run makes a folder beside the tools, which other users may not.
    run_ok(server.run(Path::new("true")).stdout(std::process::Stdio::null()));
    let watch = Watch::start(&server);
    let mut mix = Mix {
        server,
        workers: Vec::new(),
        program: &program,
        draw,
        started: seed,
        counts: BTreeMap::new(),
        compared: 0,
        decided: BTreeSet::new(),
        watch,
    };
    for _ in 0..WORKERS {
        let worker = mix.start_worker();
        mix.workers.push(worker);
    }
    let (start, mut next) = (Instant::now(), Duration::ZERO);
    let mut steps = 0;
    while start.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_millis(mix.draw.below(400)));
        mix.step();
        steps += 1;
        if start.elapsed() >= next {
            mix.quiet_moment()
                .unwrap_or_else(|found| panic!("EAGER_TEST_SEED={seed}, after {steps} steps:\n{found}"));
            next = start.elapsed() + Duration::from_secs(2);
        }
    }
    mix.quiet_moment().unwrap_or_else(|found| panic!("EAGER_TEST_SEED={seed}, at the end:\n{found}"));
    let (took, mib) = (start.elapsed(), mix.compared >> 20);
    eprintln!("{steps} steps in {took:?}, no difference in {mib} MiB: {:?}; {:?}", mix.counts, mix.decided);
    mix.end();
    assert!(mib > 0, "nobody held anything when it was compared");
}

#[test]
fn the_ledger_is_what_programs_hold_whatever_happens_around_them() {
    mixed_load(30);
}

/// Runs an hour, unless `EAGER_TEST_SECONDS` sets another time.
#[test]
#[ignore = "long"]
fn long_the_ledger_is_what_programs_hold_after_an_hour_of_mixed_load() {
    mixed_load(3600);
}
