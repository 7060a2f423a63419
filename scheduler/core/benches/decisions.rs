//! What a decision costs: events per second, the slow end of single steps, and growth with the number of jobs.
//!
//! `cargo bench -p eager-core`, with ` -- POLICY …` for some policies only. Each round replays the same seeded life of a
//! cluster through a fresh core for every policy, in turns, so that a change of the machine's speed meets all of them.
//! Every step of the latency part and every round of the others is kept in a file whose name is printed. Trap: the events
//! are made by a program that obeys (it frees what it was granted), so the books stay full; a random stream of events would
//! mostly be turned down and look fast.

use eager_core::action::{Action, Gate};
use eager_core::event::{DeviceProfile, Event, KernelRequest, TaskRequest};
use eager_core::{Options, PolicyName, Scheduler};
use eager_units::{AccessClass, Bytes, ClientId, DeviceId, Nanos, TaskId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

const GIB: u64 = 1 << 30;
const ROUNDS: usize = 11;
/// A task of 1 to 13 of these: a device holds two or three, or some hundred and forty.
const LARGE: Bytes = Bytes(GIB);
const SMALL: Bytes = Bytes(GIB / 64);
/// Unless others are named.
const POLICIES: [PolicyName; 4] =
    [PolicyName::Case, PolicyName::CaseFifo, PolicyName::EagerOpt, PolicyName::Quanta];

/// A split-mix generator: seeded, tiny, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % limit
    }
}

/// What a program does next.
#[derive(Clone, Copy)]
enum Next {
    Kernel,
    AllLaunched,
    End,
}

/// A cluster whose programs answer what the core says: `waiting` more tasks than fit are kept in the queue.
struct Cluster {
    scheduler: Scheduler,
    random: Random,
    now: u64,
    started: u64,
    jobs: u64,
    /// What sizes are multiples of.
    unit: Bytes,
    /// Bound tasks with what they do next, round and round.
    running: VecDeque<(TaskId, Next, u32)>,
    gates: BTreeMap<TaskId, Gate>,
    watched: BTreeMap<TaskId, bool>,
    held: BTreeMap<TaskId, (Next, u32)>,
    steps_ns: Vec<u64>,
    /// Processor time of the whole life, the programs' part included: what a busy machine does not change.
    cpu_ns: u64,
}

impl Cluster {
    fn new(policy: PolicyName, devices: u32, jobs: u64, unit: Bytes) -> Cluster {
        let mut cluster = Cluster {
            scheduler: Scheduler::new(policy, Options::default()),
            random: Random(7),
            now: 0,
            started: 0,
            jobs,
            unit,
            running: VecDeque::new(),
            gates: BTreeMap::new(),
            watched: BTreeMap::new(),
            held: BTreeMap::new(),
            steps_ns: Vec::new(),
            cpu_ns: 0,
        };
        for id in 0..devices {
            let profile = DeviceProfile {
                name: "V100-16GB".into(),
                capacity: Bytes(16 * GIB),
                sms: 80,
                warps_per_sm: 64,
                blocks_per_sm: 32,
                faults_stall: false,
            };
            cluster.step(Event::DeviceAdded { device: DeviceId(id), profile });
        }
        cluster
    }

    fn step(&mut self, event: Event) {
        let mut actions = Vec::with_capacity(4);
        self.now += 1000;
        let start = Instant::now();
        self.scheduler.step(Nanos(self.now), event, &mut actions);
        self.steps_ns.push(start.elapsed().as_nanos() as u64);
        for action in actions {
            self.hear(&action);
        }
    }

    fn hear(&mut self, action: &Action) {
        match action {
            Action::Bind { task, .. } => self.running.push_back((*task, Next::Kernel, 4)),
            Action::SetGate { task, gate, .. } => {
                self.gates.insert(*task, *gate);
                if *gate != Gate::Hold
                    && let Some((next, kernels)) = self.held.remove(task)
                {
                    self.running.push_back((*task, next, kernels));
                }
            }
            Action::Watch { task, on } => {
                self.watched.insert(*task, *on);
                if *on {
                    self.step(Event::Idle { task: *task });
                }
            }
            _ => {}
        }
    }

    fn submit(&mut self) {
        self.started += 1;
        let (id, size) = (self.started, 1 + self.random.below(13));
        self.step(Event::ClientConnected {
            client: ClientId(id),
            uid: 1000,
            label: String::new(),
            informed: false,
        });
        let request = TaskRequest {
            requirement: Bytes(size * self.unit.0),
            blocks: 1 + self.random.below(4096),
            threads_per_block: 256,
            ..TaskRequest::default()
        };
        self.step(Event::TaskBegin { task: TaskId(id), client: ClientId(id), request });
    }

    /// Keeps `waiting` tasks in the queue and lets everybody else run, until all jobs have ended.
    fn live(&mut self, waiting: u64) {
        while self.started < self.jobs.min(waiting) {
            self.submit();
        }
        loop {
            let Some((task, next, kernels)) = self.running.pop_front() else {
                if self.started < self.jobs {
                    self.submit();
                    continue;
                }
                let Some(deadline) = self.scheduler.next_deadline() else { return };
                self.now = self.now.max(deadline.0);
                self.step(Event::Tick);
                if self.running.is_empty() && self.scheduler.next_deadline() == Some(deadline) {
                    return;
                }
                continue;
            };
            self.advance(task, next, kernels);
        }
    }

    fn advance(&mut self, task: TaskId, next: Next, kernels: u32) {
        match next {
            Next::Kernel if self.gates.get(&task) == Some(&Gate::Hold) => {
                self.held.insert(task, (next, kernels));
                let footprint = Bytes((1 + self.random.below(8)) * self.unit.0);
                let access = AccessClass::OnePass;
                let kernel = KernelRequest { name: "k".into(), footprint, static_size: footprint, access };
                self.step(Event::KernelHeld { task, kernel });
            }
            Next::Kernel => {
                if self.watched.get(&task) == Some(&true) {
                    self.step(Event::Busy { task });
                    self.step(Event::Idle { task });
                }
                let next = if kernels > 1 { Next::Kernel } else { Next::AllLaunched };
                self.running.push_back((task, next, kernels.saturating_sub(1)));
            }
            Next::AllLaunched => {
                self.step(Event::AllLaunched { task });
                self.running.push_back((task, Next::End, 0));
            }
            Next::End => {
                self.gates.remove(&task);
                self.watched.remove(&task);
                if self.started < self.jobs {
                    self.submit();
                }
                self.step(Event::TaskEnd { task });
                self.step(Event::ClientGone { client: ClientId(task.0) });
            }
        }
    }

    fn run(policy: PolicyName, devices: u32, jobs: u64, waiting: u64, unit: Bytes) -> Cluster {
        let start = cpu_ns();
        let mut cluster = Cluster::new(policy, devices, jobs, unit);
        cluster.live(waiting);
        cluster.cpu_ns = cpu_ns() - start;
        assert_eq!(cluster.scheduler.tasks().count(), 0, "{policy}: tasks are left over");
        assert!(cluster.scheduler.anomalies().is_empty(), "{:?}", cluster.scheduler.anomalies());
        cluster
    }
}

/// What this thread has run so far. Not `/proc/thread-self/schedstat`, which counts in ticks of milliseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn quantile(sorted: &[u64], share: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

fn median(mut samples: Vec<f64>) -> (f64, f64, f64) {
    samples.sort_by(f64::total_cmp);
    (samples[samples.len() / 2], samples[0], samples[samples.len() - 1])
}

/// 64 waiting tasks, 8 devices: what the daemon meets on a busy server.
fn latency(policies: &[PolicyName], kept: &mut String) {
    println!(
        "64 tasks waiting, 8 devices: {ROUNDS} rounds of 2,000 jobs (goals: 1 million events per second, 20 us at p99)"
    );
    let mut steps: BTreeMap<PolicyName, Vec<u64>> = BTreeMap::new();
    let mut rates: BTreeMap<PolicyName, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        for &policy in policies {
            let cluster = Cluster::run(policy, 8, 2_000, 64 + 16, LARGE);
            rates
                .entry(policy)
                .or_default()
                .push(cluster.steps_ns.len() as f64 / cluster.cpu_ns as f64 * 1e9);
            for ns in &cluster.steps_ns {
                writeln!(kept, "latency,{policy},{round},8,{ns}").expect("a string");
            }
            steps.entry(policy).or_default().extend(cluster.steps_ns);
        }
    }
    for &policy in policies {
        let (rate, low, high) = median(rates.remove(&policy).unwrap_or_default());
        let mut steps = steps.remove(&policy).unwrap_or_default();
        steps.sort_unstable();
        let [half, slow, slowest] = [0.5, 0.99, 0.999].map(|share| quantile(&steps, share) as f64 / 1e3);
        println!(
            "  {policy:<10} {:.2} million events per second of processor time [{:.2}–{:.2}]; a step takes {half:.2} us at the median, {slow:.2} us at \
             p99, {slowest:.2} us at p99.9",
            rate / 1e6,
            low / 1e6,
            high / 1e6,
        );
    }
}

/// Ten jobs per device, from 10 devices to 1,000: the cost of an event should grow no faster than a logarithm.
fn growth(policies: &[PolicyName], kept: &mut String) {
    println!(
        "ten jobs per device, all submitted at once: nanoseconds of processor time per event (medians of 3 rounds; goal: \
         2x from 100 jobs to 10,000, as their logarithms)"
    );
    let mut samples: BTreeMap<(PolicyName, u32), Vec<f64>> = BTreeMap::new();
    for round in 0..3 {
        for devices in [10, 100, 1_000] {
            for &policy in policies {
                // As many jobs at every size, so that each is as precise.
                let (mut cpu_ns, mut events) = (0, 0);
                for _ in 0..1_000 / devices {
                    let jobs = u64::from(devices) * 10;
                    let cluster = Cluster::run(policy, devices, jobs, jobs, LARGE);
                    cpu_ns += cluster.cpu_ns;
                    events += cluster.steps_ns.len();
                }
                let ns = cpu_ns as f64 / events as f64;
                writeln!(kept, "growth,{policy},{round},{devices},{ns}").expect("a string");
                samples.entry((policy, devices)).or_default().push(ns);
            }
        }
    }
    for &policy in policies {
        let at = |devices| median(samples.get(&(policy, devices)).cloned().unwrap_or_default()).0;
        println!(
            "  {policy:<10} {:>6.0} ns at 10 devices, {:>6.0} ns at 100, {:>6.0} ns at 1,000: {:.1}x",
            at(10),
            at(100),
            at(1_000),
            at(1_000) / at(10)
        );
    }
    println!("  peak memory of this process: {} MiB (goal: 2,048)", peak_kib() / 1024);
}

/// As many small tasks as a device holds: an event should not cost more for those that it is not about.
fn crowd(policies: &[PolicyName], kept: &mut String) {
    println!(
        "8 devices with some 140 small tasks each, against two or three large ones: nanoseconds per event"
    );
    for &policy in policies {
        let mut ns = |unit| {
            let rounds = (0..5).map(|round| {
                let cluster = Cluster::run(policy, 8, 4_000, 2_000, unit);
                let ns = cluster.cpu_ns as f64 / cluster.steps_ns.len() as f64;
                writeln!(kept, "crowd {unit},{policy},{round},8,{ns}").expect("a string");
                ns
            });
            median(rounds.collect()).0
        };
        let (small, large) = (ns(SMALL), ns(LARGE));
        println!("  {policy:<10} {small:>6.0} ns small, {large:>6.0} ns large: {:.1}x", small / large);
    }
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn main() {
    // Cargo itself adds `--bench`.
    let named = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let named: Vec<PolicyName> =
        named.map(|name| name.parse().unwrap_or_else(|unknown| panic!("{unknown}"))).collect();
    let policies = if named.is_empty() { &POLICIES[..] } else { &named[..] };
    let mut kept = String::from("part,policy,round,devices,ns\n");
    growth(policies, &mut kept);
    crowd(policies, &mut kept);
    latency(policies, &mut kept);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("core-decisions.csv");
    std::fs::write(&file, kept).expect("keep the samples");
    println!("every sample: {}", file.display());
}
