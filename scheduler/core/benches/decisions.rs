//! Cost of a decision: events per second, the slow end of single steps, and growth with the number of jobs.
//!
//! `cargo bench -p eager-core` runs Criterion's groups `growth`, `crowd` and `busy`, then prints the slow end of single
//! steps; `-- steps` prints only that; `-- growth/case`, `--save-baseline NAME` and the like are Criterion's. One
//! iteration is the whole seeded life of a cluster in a fresh core; its time is processor time, and the elements are
//! events. Each step of the slow end is kept in a file whose name is printed. Trap: the events must come from programs
//! that obey (they free what they were granted), so that the devices stay full; a random stream of events would mostly
//! be rejected and look fast.

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use eager_core::action::{Action, Gate};
use eager_core::event::{DeviceProfile, Estimate, Event, KernelRequest, TaskRequest};
use eager_core::{Options, PolicyName, Scheduler};
use eager_measure::statistics::quantile;
use eager_measure::turns;
use eager_units::{AccessClass, Bytes, ClientId, DeviceId, Nanos, TaskId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const GIB: u64 = 1 << 30;
/// Number of lives of which every step is kept.
const ROUNDS: usize = 11;
/// Unit of task sizes: a task has 1 to 13 of these, so a device holds two or three tasks, or some hundred and forty.
const LARGE: Bytes = Bytes(GIB);
const SMALL: Bytes = Bytes(GIB / 64);
/// One of each kind: the baselines, the best policy of specification S-1, those that look at estimates and users, the
/// one of time quanta, those that give devices to programs, and those that share a device's time.
const POLICIES: [PolicyName; 10] = [
    PolicyName::Case,
    PolicyName::CaseFifo,
    PolicyName::EagerOpt,
    PolicyName::EagerLive,
    PolicyName::EagerFair,
    PolicyName::Quanta,
    PolicyName::Sa,
    PolicyName::Cg,
    PolicyName::Gcfs,
    PolicyName::Fair,
];

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

/// The next step of a program.
#[derive(Clone, Copy)]
enum Next {
    Kernel,
    AllLaunched,
    End,
}

/// A cluster whose programs respond to the core's actions: `waiting` more tasks than fit are kept in the queue.
struct Cluster {
    scheduler: Scheduler,
    random: Random,
    now: u64,
    started: u64,
    jobs: u64,
    /// Unit of task sizes.
    unit: Bytes,
    /// Bound tasks with what they do next, in rotation.
    running: VecDeque<(TaskId, Next, u32)>,
    gates: BTreeMap<TaskId, Gate>,
    watched: BTreeMap<TaskId, bool>,
    held: BTreeMap<TaskId, (Next, u32)>,
    steps_ns: Vec<u64>,
    /// Processor time of the whole life, the programs' part included; it does not depend on other load of the machine.
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
        // Whoever steps the core asks for this after each step.
        std::hint::black_box(self.scheduler.next_deadline());
        self.steps_ns.push(start.elapsed().as_nanos() as u64);
        for action in actions {
            self.apply(&action);
        }
    }

    fn apply(&mut self, action: &Action) {
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
            same_process: None,
            nice: 0,
        });
        // Steps are 1 us apart, and tasks in fact hold memory for some hundred of them.
        let hold = Nanos(1_000 * (1 + self.random.below(1_000)));
        let request = TaskRequest {
            requirement: Bytes(size * self.unit.0),
            blocks: 1 + self.random.below(4096),
            threads_per_block: 256,
            estimate: Some(Estimate { remaining: hold, hold }),
            ..TaskRequest::default()
        };
        self.step(Event::TaskBegin { task: TaskId(id), client: ClientId(id), request });
    }

    /// Keeps `waiting` tasks in the queue and runs all others, until all jobs have ended.
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

/// Processor time of this thread so far, in ns. Not from `/proc/thread-self/schedstat`, which counts in ticks of
/// milliseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Shape of a life: devices, jobs, how many of them wait at most, and the unit of task sizes.
#[derive(Clone, Copy)]
struct Shape {
    devices: u32,
    jobs: u64,
    waiting: u64,
    unit: Bytes,
}

impl Shape {
    fn live(self, policy: PolicyName) -> Cluster {
        Cluster::run(policy, self.devices, self.jobs, self.waiting, self.unit)
    }

    /// Measures each policy once with Criterion.
    fn measure(self, criterion: &mut Criterion, group: &str, parameter: &str) {
        let mut group = criterion.benchmark_group(group);
        // A life takes up to a second, and as long each time.
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        for policy in POLICIES {
            group.throughput(Throughput::Elements(self.live(policy).steps_ns.len() as u64));
            group.bench_function(BenchmarkId::new(policy.as_str(), parameter), |bencher| {
                bencher.iter_custom(|lives| {
                    (0..lives).map(|_| Duration::from_nanos(self.live(policy).cpu_ns)).sum()
                });
            });
        }
        group.finish();
    }
}

/// Ten jobs per device, all submitted at once, from 10 devices to 1,000: the time of an event should grow no faster
/// than a logarithm, which is twice from 100 jobs to 10,000.
fn growth(criterion: &mut Criterion) {
    for devices in [10, 100, 1_000] {
        let jobs = u64::from(devices) * 10;
        let shape = Shape { devices, jobs, waiting: jobs, unit: LARGE };
        shape.measure(criterion, "growth", &format!("{devices} devices"));
    }
}

/// Eight devices with some 140 small tasks each, or with two or three large ones: tasks that an event is not about
/// should not make it more expensive.
fn crowd(criterion: &mut Criterion) {
    for (unit, size) in [(SMALL, "small tasks"), (LARGE, "large tasks")] {
        let shape = Shape { devices: 8, jobs: 4_000, waiting: 2_000, unit };
        shape.measure(criterion, "crowd", size);
    }
}

/// 64 waiting tasks, 8 devices: what the daemon meets on a busy server. The goal is a million events a second.
const BUSY: Shape = Shape { devices: 8, jobs: 2_000, waiting: 64 + 16, unit: LARGE };
/// The last shape of `growth`: the largest cluster for which the core is made.
const LARGEST: Shape = Shape { devices: 1_000, jobs: 10_000, waiting: 10_000, unit: LARGE };

/// Single steps of many lives, policies in turns, against the most that p99 may be.
fn slow_end(name: &str, shape: Shape, rounds: usize, goal_us: u32) {
    println!("{name}, {rounds} lives of {} jobs: one step takes (goal: {goal_us} us at p99)", shape.jobs);
    let mut steps: BTreeMap<PolicyName, Vec<f64>> = BTreeMap::new();
    let mut kept = String::from("policy,round,ns\n");
    for round in 0..rounds {
        for policy in turns(round, POLICIES.len()).into_iter().map(|index| POLICIES[index]) {
            for ns in shape.live(policy).steps_ns {
                writeln!(kept, "{policy},{round},{ns}").expect("a string");
                steps.entry(policy).or_default().push(ns as f64);
            }
        }
    }
    for (policy, steps) in &steps {
        let [half, slow, slowest] = [0.5, 0.99, 0.999].map(|share| quantile(steps, share) / 1e3);
        println!("  {policy:<10} {half:.2} us at the median, {slow:.2} us at p99, {slowest:.2} us at p99.9");
    }
    println!("  peak memory of this process: {} MiB (goal: 2,048)", peak_kib() / 1024);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("core-steps-{}.csv", shape.devices));
    std::fs::write(&file, kept).expect("keep the samples");
    println!("  every step: {}", file.display());
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn slow_ends() {
    slow_end("64 tasks waiting, 8 devices", BUSY, ROUNDS, 20);
    slow_end("all tasks submitted at once, 1,000 devices", LARGEST, 1, 100);
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words == ["steps"] {
        return slow_ends();
    }
    let mut criterion = Criterion::default().configure_from_args();
    growth(&mut criterion);
    crowd(&mut criterion);
    BUSY.measure(&mut criterion, "busy", "64 waiting");
    criterion.final_summary();
    // A name or a flag on the command line asks for a part of Criterion's measurements only.
    if words.is_empty() {
        slow_ends();
    }
}
