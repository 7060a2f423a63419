//! Policies that share a device's time, against a device that runs kernels: shares by weight, the bound on the lag of
//! `fair`, and what is left to chance by policies without them (specification S-131 to S-134).
//!
//! The programs are honest: they launch one kernel at a time, tell when the last one has ended, and stand at their gate.

use eager_core::action::{Action, Gate};
use eager_core::event::{DeviceProfile, Event, KernelRequest, TaskRequest};
use eager_core::invariants;
use eager_core::{Options, PolicyName, Scheduler};
use eager_units::{AccessClass, Bytes, ClientId, DeviceId, Nanos, TaskId};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MILLISECOND: u64 = 1_000_000;

/// A program that launches kernels of one length, with a pause on the host after each burst.
#[derive(Debug, Clone, Copy)]
struct Program {
    nice: i8,
    kernel: u64,
    burst: u32,
    pause: u64,
}

impl Program {
    fn endless(nice: i8, kernel: u64) -> Program {
        Program { nice, kernel, burst: u32::MAX, pause: 0 }
    }
}

/// What a program does now.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Doing {
    /// Its kernel runs, with so much left of it.
    Runs(u64),
    StandsAtGate,
    /// On the host until this time.
    Host(u64),
}

struct Bench {
    scheduler: Scheduler,
    now: u64,
    programs: BTreeMap<TaskId, (Program, Doing, u32)>,
    gates: BTreeMap<TaskId, Gate>,
    /// Device time that each task's kernels took in fact.
    took: BTreeMap<TaskId, u64>,
    /// Most that a task was behind or ahead of its share.
    lag_max: u64,
}

impl Bench {
    fn new(policy: PolicyName, options: Options, programs: &[Program]) -> Bench {
        let mut bench = Bench {
            scheduler: Scheduler::new(policy, options),
            now: 0,
            programs: BTreeMap::new(),
            gates: BTreeMap::new(),
            took: BTreeMap::new(),
            lag_max: 0,
        };
        let profile = DeviceProfile {
            name: "V100".into(),
            capacity: Bytes(1 << 34),
            sms: 80,
            warps_per_sm: 64,
            blocks_per_sm: 32,
            faults_stall: false,
        };
        bench.step(Event::DeviceAdded { device: DeviceId(0), profile });
        for (&program, number) in programs.iter().zip(1..) {
            let (task, client) = (TaskId(number), ClientId(number));
            let label = format!("program{number}");
            let (nice, same_process) = (program.nice, None);
            bench.step(Event::ClientConnected {
                client,
                uid: 1000,
                label,
                informed: true,
                same_process,
                nice,
            });
            let request = TaskRequest { requirement: Bytes(1 << 20), ..TaskRequest::default() };
            bench.step(Event::TaskBegin { task, client, request });
            bench.programs.insert(task, (program, Doing::StandsAtGate, 0));
            bench.arrive(task);
        }
        bench
    }

    fn step(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.scheduler.step(Nanos(self.now), event, &mut actions);
        invariants::check(&self.scheduler).expect("invariants");
        for action in actions {
            if let Action::SetGate { task, gate, .. } = action {
                self.gates.insert(task, gate);
            }
        }
        for &task in self.programs.keys() {
            let lag = self.scheduler.share(task).and_then(|share| share.lag).unwrap_or_default();
            self.lag_max = self.lag_max.max(lag.unsigned_abs());
        }
    }

    fn is_open(&self, task: TaskId) -> bool {
        self.gates.get(&task).is_some_and(|gate| *gate != Gate::Hold)
    }

    /// The program comes to its next launch.
    fn arrive(&mut self, task: TaskId) {
        if !self.is_open(task) {
            let kernel = KernelRequest {
                name: "k".into(),
                footprint: Bytes(1 << 20),
                static_size: Bytes(1 << 20),
                access: AccessClass::Unknown,
            };
            self.programs.get_mut(&task).expect("a program").1 = Doing::StandsAtGate;
            self.step(Event::KernelHeld { task, kernel });
        }
        self.launch_all();
    }

    /// Programs whose gates are open launch.
    fn launch_all(&mut self) {
        let open = |(task, (_, doing, _)): (&TaskId, &(Program, Doing, u32))| {
            (*doing == Doing::StandsAtGate && self.is_open(*task)).then_some(*task)
        };
        if let Some(task) = self.programs.iter().find_map(open) {
            let program = self.programs.get_mut(&task).expect("a program");
            program.1 = Doing::Runs(program.0.kernel);
            self.step(Event::Busy { task });
            self.launch_all();
        }
    }

    /// Runs until `end`: kernels on the device share it equally.
    fn run(&mut self, end: u64) {
        while self.now < end {
            let running =
                self.programs.values().filter(|(_, doing, _)| matches!(doing, Doing::Runs(_))).count() as u64;
            let next = self.programs.values().filter_map(|(_, doing, _)| match doing {
                Doing::Runs(left) => Some(self.now + left * running),
                Doing::Host(until) => Some(*until),
                Doing::StandsAtGate => None,
            });
            let deadline = self.scheduler.next_deadline().map(|at| at.0.max(self.now + 1));
            let at = next.chain(deadline).chain([end]).min().expect("the end").max(self.now + 1).min(end);
            self.pass(at, running.max(1));
        }
    }

    fn pass(&mut self, at: u64, running: u64) {
        let each = (at - self.now).div_ceil(running);
        self.now = at;
        let mut ended = Vec::new();
        for (&task, (_, doing, _)) in &mut self.programs {
            match doing {
                Doing::Runs(left) => {
                    *self.took.entry(task).or_default() += each.min(*left);
                    *left = left.saturating_sub(each);
                    if *left == 0 {
                        ended.push(task);
                    }
                }
                Doing::Host(until) if *until <= at => ended.push(task),
                Doing::Host(_) | Doing::StandsAtGate => {}
            }
        }
        self.step(Event::Tick);
        self.launch_all();
        for task in ended {
            self.goes_on(task);
        }
    }

    /// A kernel has ended, or a pause: the program launches again, pauses, or stands at its gate.
    fn goes_on(&mut self, task: TaskId) {
        let (program, doing, launched) = self.programs.get_mut(&task).expect("a program");
        if let Doing::Runs(_) = doing {
            *launched = launched.saturating_add(1);
            if *launched % program.burst == 0 && program.pause > 0 {
                *doing = Doing::Host(self.now + program.pause);
                self.step(Event::Idle { task });
                return self.launch_all();
            }
            *doing = Doing::StandsAtGate;
            self.arrive(task);
            // As the shim does: a kernel that is held is told of before the end of the last one.
            if self.programs.get(&task).is_some_and(|(_, doing, _)| *doing == Doing::StandsAtGate) {
                self.step(Event::Idle { task });
                self.launch_all();
            }
            return;
        }
        self.programs.get_mut(&task).expect("a program").1 = Doing::StandsAtGate;
        self.arrive(task);
    }

    fn shares(&self) -> Vec<f64> {
        let all: u64 = self.took.values().sum();
        self.took.values().map(|took| *took as f64 / all as f64).collect()
    }
}

/// Shares that the weights 1991, 1024, 335 and 110 of nice -3, 0, 5 and 10 are due.
const DUE: [f64; 4] = [0.5754, 0.2960, 0.0968, 0.0318];

fn by_nice(policy: PolicyName, options: Options, kernel: u64) -> Bench {
    let programs = [-3, 0, 5, 10].map(|nice| Program::endless(nice, kernel));
    let mut bench = Bench::new(policy, options, &programs);
    bench.run(10_000 * MILLISECOND);
    bench
}

fn off(shares: &[f64]) -> f64 {
    shares.iter().zip(DUE).map(|(share, due)| (share / due - 1.0).abs()).fold(0.0, f64::max)
}

#[test]
fn time_is_shared_by_weight() {
    for kernel in [MILLISECOND / 10, MILLISECOND, 10 * MILLISECOND] {
        for (policy, in_flight) in [(PolicyName::Gcfs, Some(1)), (PolicyName::Fair, None)] {
            let bench = by_nice(policy, Options { in_flight, ..Options::default() }, kernel);
            assert!(off(&bench.shares()) < 0.05, "{policy}, kernels of {kernel} ns: {:?}", bench.shares());
        }
    }
}

#[test]
fn without_carry_long_kernels_win_time() {
    let options = Options { in_flight: Some(1), carry: false, ..Options::default() };
    let bench = by_nice(PolicyName::Gcfs, options, 10 * MILLISECOND);
    assert!(off(&bench.shares()) > 0.5, "{:?}", bench.shares());
}

#[test]
fn a_policy_without_rounds_ignores_nice() {
    let programs = [-3, 0, 5, 10].map(|nice| Program::endless(nice, MILLISECOND));
    let mut bench = Bench::new(PolicyName::Spread, Options::default(), &programs);
    for task in (1..=4).map(TaskId) {
        bench.gates.insert(task, Gate::Ungated);
    }
    bench.launch_all();
    bench.run(1_000 * MILLISECOND);
    assert!(bench.shares().iter().all(|share| (share - 0.25).abs() < 0.01), "{:?}", bench.shares());
}

#[test]
fn a_task_with_kernels_of_100_ms_gets_its_share_and_no_more() {
    let programs = [Program::endless(0, 100 * MILLISECOND), Program::endless(0, MILLISECOND)];
    let mut bench = Bench::new(PolicyName::Fair, Options::default(), &programs);
    bench.run(10_000 * MILLISECOND);
    assert!(bench.shares().iter().all(|share| (share - 0.5).abs() < 0.025), "{:?}", bench.shares());
}

#[test]
fn programs_that_wait_for_each_kernel_get_their_share_too() {
    let waits = |nice| Program { nice, kernel: MILLISECOND, burst: 1, pause: 50_000 };
    let mut bench = Bench::new(PolicyName::Fair, Options::default(), &[-3, 0, 5, 10].map(waits));
    bench.run(10_000 * MILLISECOND);
    assert!(off(&bench.shares()) < 0.05, "{:?}", bench.shares());
    let unaided = Options { round_idle_ns: Nanos(0), ..Options::default() };
    let mut bench = Bench::new(PolicyName::Fair, unaided, &[-3, 0, 5, 10].map(waits));
    bench.run(10_000 * MILLISECOND);
    assert!(off(&bench.shares()) > 0.3, "the pauses are not seen: {:?}", bench.shares());
}

fn any_program() -> impl Strategy<Value = Program> {
    let kernel = prop_oneof![4 => 10_000..2 * MILLISECOND, 1 => 2 * MILLISECOND..50 * MILLISECOND];
    let pause = prop_oneof![2 => Just(0), 1 => 1..5 * MILLISECOND];
    (-20i8..20, kernel, 1u32..20, pause).prop_map(|(nice, kernel, burst, pause)| Program {
        nice,
        kernel,
        burst,
        pause,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The promise of `fair`: no task's lag exceeds the longest slice and two of the longest kernels.
    #[test]
    fn no_lag_exceeds_the_promise(programs in proptest::collection::vec(any_program(), 2..7), round in 1u64..30) {
        let options = Options { round_ns: Nanos(round * MILLISECOND), ..Options::default() };
        let mut bench = Bench::new(PolicyName::Fair, options, &programs);
        bench.run(2_000 * MILLISECOND);
        let kernel = programs.iter().map(|program| program.kernel).max().expect("a program");
        let promise = round * MILLISECOND + 2 * kernel;
        prop_assert!(bench.lag_max <= promise, "lag {} of {promise}: {programs:?}", bench.lag_max);
    }
}
