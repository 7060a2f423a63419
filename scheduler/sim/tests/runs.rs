//! Whole runs: determinism, replay of their own journals, no job lost, and comparisons of speed between policies.

mod common;
use common::*;
use eager_core::PolicyName;
use eager_core::policy::MemoryRule;
use eager_sim::job::{Job, JobOp};
use eager_sim::{Kill, Outcome, SimError, SimOptions, Span, Submission, replay, run};
use eager_units::{AccessClass, Class, Nanos};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn mix() -> Vec<Job> {
    let short =
        Shape { name: "short", bytes: 2 * GIB, host_before: 0.5, compute: 0.2, tail: 1.0, ..ONE_PASS };
    let few = Shape { launches: 10, ..CYCLIC };
    [&few, &ONE_PASS, &short, &few, &short, &ONE_PASS, &few, &short].map(job).to_vec()
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for policy in PolicyName::ALL {
        let once = || {
            let result = run(&mix(), &options(policy, 2)).unwrap();
            let journal = result.journal.clone().unwrap();
            (serde_json::to_string(&result).unwrap(), journal.write().unwrap())
        };
        assert_eq!(once(), once(), "{policy}");
    }
}

#[test]
fn every_policy_ends_every_job_and_its_journal_replays() {
    for policy in PolicyName::ALL {
        let result = run(&mix(), &options(policy, 2)).unwrap();
        assert_eq!(result.jobs.len(), mix().len());
        // `cg` does not count memory, so here the third job on a device finds none.
        let fails = policy == PolicyName::Cg;
        assert_eq!(result.oom_errors > 0, fails, "{policy}");
        assert_eq!(result.all_done(), !fails, "{policy}: {:?}", result.jobs);
        let journal = result.journal.unwrap();
        assert_eq!(replay::replay(&journal.write().unwrap()).unwrap(), journal.lines.len(), "{policy}");
    }
}

#[test]
fn a_journal_with_a_changed_decision_diverges_there() {
    let mut journal = run(&mix(), &options(PolicyName::Case, 2)).unwrap().journal.unwrap();
    let step = journal.lines.iter().position(|line| !line.actions.is_empty()).unwrap();
    journal.lines[step].actions.clear();
    let error = replay::replay(&journal.write().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("step {} decides differently", step + 1)), "{error}");
}

#[test]
fn a_journal_cut_in_its_last_line_replays_up_to_there() {
    let journal = run(&mix(), &options(PolicyName::Case, 2)).unwrap().journal.unwrap();
    let text = journal.write().unwrap();
    assert_eq!(replay::replay(&text[..text.len() - 9]).unwrap(), journal.lines.len() - 1);
}

#[test]
fn dead_memory_makes_eager_opt_faster_than_case() {
    // Two jobs that fit one at a time; the first works long on the host after its last kernel (specification S-810).
    let jobs = [job(&CYCLIC), job(&CYCLIC)];
    let time = |policy| run(&jobs, &options(policy, 1)).unwrap().makespan.0 as f64;
    let (case, opt) = (time(PolicyName::Case), time(PolicyName::EagerOpt));
    assert!(case / opt > 1.2, "case {case}, eager-opt {opt}");
    assert!(time(PolicyName::Eager) > 5.0 * case, "ungated eager launch thrashes");
}

#[test]
fn promotion_moves_the_rest_in_and_is_counted() {
    let result = run(&[job(&CYCLIC), job(&CYCLIC)], &options(PolicyName::EagerOpt, 1)).unwrap();
    assert_eq!((result.eager_launches, result.promotions), (1, 1));
    let told = result.trace.iter().filter(|line| line.ends_with("sees that it is promoted")).count();
    assert_eq!(told, 1);
}

/// True if the policy gives managed memory even to tasks that have their whole requirement.
fn is_managed(policy: PolicyName) -> bool {
    let traits = policy.traits();
    traits.memory == MemoryRule::Paged || (traits.eager && !traits.habits.release_dead)
}

#[test]
fn jobs_that_do_not_meet_take_as_long_on_the_device_as_alone_and_page_nothing() {
    let shape = Shape { bytes: 3 * GIB, tail: 10.0, ..ONE_PASS };
    let alone = run(&[job(&shape)], &options(PolicyName::Case, 4)).unwrap().jobs[0].device_side();
    // 3 GiB in and an eighth of it out at 6 GB/s, and a kernel of 5 s; no host phase.
    assert!((5.5..5.7).contains(&(alone.0 as f64 / 1e9)), "{alone}");
    // `schedgpu` puts all four jobs on the first device, and `scatter` two of them on one, where they meet.
    let apart = |policy: &PolicyName| ![PolicyName::SchedGpu, PolicyName::Scatter].contains(policy);
    for policy in PolicyName::ALL.into_iter().filter(apart) {
        let jobs = vec![job(&shape); 4];
        let result = run(&jobs, &SimOptions { host_cores: 2, ..options(policy, 4) }).unwrap();
        assert_eq!(result.bytes_paged(), 0, "{policy}");
        for one in &result.jobs {
            let slowdown = one.device_side().0 as f64 / alone.0 as f64;
            // Managed memory costs a kernel 1 %.
            let (least, most) = match (policy.traits().habits.fast_copies, is_managed(policy)) {
                (true, _) => (0.9, 1.01),
                (false, true) => (0.999, 1.01),
                (false, false) => (0.999, 1.001),
            };
            assert!((least..most).contains(&slowdown), "{policy}: {slowdown}");
        }
        let prefetched: u64 = result.jobs.iter().map(|job| job.moved.prefetched_bytes).sum();
        assert_eq!(prefetched, 0, "{policy}: the copy engine puts the data there");
    }
}

#[test]
fn copies_that_the_grant_has_room_for_are_the_copy_engines() {
    let shape = Shape { bytes: 8 * GIB, host_before: 0.0, ..ONE_PASS };
    let result = run(&[job(&shape)], &options(PolicyName::EagerOpt, 1)).unwrap();
    // 8 GiB of pageable memory at 6 GB/s, a kernel of 5 s on managed memory, 1 GiB out.
    let wanted = 8.0 * GIB as f64 / 6e9 + 5.0 * 1.01 + GIB as f64 / 6.25e9;
    let got = result.jobs[0].device_side().0 as f64 / 1e9;
    assert!((got - wanted).abs() < 0.01, "{got}, wanted {wanted}");
    assert_eq!(result.jobs[0].moved.prefetched_bytes, 0);
}

#[test]
fn managed_memory_beyond_the_grant_is_filled_and_moved_in_piece_by_piece() {
    let holds = Shape { bytes: 10 * GIB, host_before: 0.0, ..ONE_PASS };
    let shape = Shape { bytes: 8 * GIB, host_before: 3.0, ..ONE_PASS };
    let result = run(&[job(&holds), job(&shape)], &options(PolicyName::EagerOpt, 1)).unwrap();
    assert_eq!(result.jobs[1].classes[0].1, Class::Eager, "{:?}", result.trace);
    // Within the grant of some 5 GiB when it is filled; kernels and the promotion move in the rest.
    assert!(
        (5 * GIB..=8 * GIB).contains(&result.jobs[1].moved.prefetched_bytes),
        "{:?}",
        result.jobs[1].moved
    );
    assert_eq!(result.jobs[0].moved.prefetched_bytes, 0);
}

#[test]
fn a_gate_that_was_opened_for_a_streaming_kernel_is_asked_again_for_a_cyclic_one() {
    let normal = Shape { name: "normal", host_before: 0.1, launches: 2, gap: 30.0, tail: 0.0, ..CYCLIC };
    let cyclic = Shape { name: "mixed", bytes: 8 * GIB, host_before: 5.0, launches: 1, tail: 0.0, ..CYCLIC };
    let mut mixed = job(&cyclic);
    let at = mixed.ops.iter().position(|op| matches!(op, JobOp::Kernel(_))).unwrap();
    let mut streaming = mixed.ops[at].clone();
    if let JobOp::Kernel(kernel) = &mut streaming {
        (kernel.name, kernel.access_class) = ("streaming".to_owned(), AccessClass::OnePass);
    }
    mixed.ops.insert(at, streaming);
    let result = run(&[job(&normal), mixed], &options(PolicyName::EagerOpt, 1)).unwrap();
    let line = |what: &str| result.trace.iter().position(|line| line.contains(what));
    let streams =
        line("is held at the gate with streaming").expect("8 GiB are more than the gate allows at first");
    let again =
        line("is held at the gate with mixed_kernel").expect("what streams may, a cyclic kernel may not");
    assert!(streams < again);
    assert!(result.trace[again + 1..].iter().any(|line| line.contains("kernel mixed_kernel touches 8 GiB")));
}

#[test]
fn a_job_waits_for_its_context_and_that_is_time_of_the_host() {
    let with = |context_s: u64| {
        let mut options = options(PolicyName::Case, 1);
        options.model.context_create = eager_gpu_model::Nanos(context_s * 1_000_000_000);
        run(&[job(&ONE_PASS)], &options).unwrap()
    };
    let (quick, slow) = (with(0), with(2));
    assert_eq!(slow.makespan.0 - quick.makespan.0, 2_000_000_000);
    assert_eq!(slow.jobs[0].host.0 - quick.jobs[0].host.0, 2_000_000_000);
}

#[test]
fn host_memory_counts_copies_and_what_stands_behind_managed_memory() {
    let shape = Shape { bytes: 3 * GIB, ..ONE_PASS };
    let used = |policy| run(&[job(&shape)], &options(policy, 1)).unwrap().host_bytes_max;
    assert_eq!(used(PolicyName::Case), 3 * GIB);
    assert_eq!(used(PolicyName::EagerOpt), 3 * GIB, "nothing stands behind what the copy engine put there");
    // With room for one job, the second is submitted when the first has ended.
    let tight = |policy| {
        let options = SimOptions { host_memory_bytes: Some(7 * GIB), ..options(policy, 2) };
        let jobs = run(&[job(&shape), job(&shape)], &options).unwrap().jobs;
        jobs[1].ask > Some(jobs[0].end)
    };
    assert!(!tight(PolicyName::Case) && tight(PolicyName::EagerOpt));
    // The job may start eagerly, but no task has managed memory until it does.
    assert!(!tight(PolicyName::EagerLive) && used(PolicyName::EagerLive) == 3 * GIB);
}

/// In CASE's evaluation a process has its device from its start to its exit.
#[test]
fn under_sa_and_cg_a_program_has_its_device_also_while_it_works_on_the_host() {
    let shape = Shape { host_before: 30.0, tail: 20.0, ..ONE_PASS };
    let jobs = [job(&shape), job(&shape), job(&Shape { bytes: GIB, ..shape })];
    let run_under = |policy, programs_per_device| {
        let mut options = options(policy, 1);
        options.scheduler.programs_per_device = programs_per_device;
        run(&jobs, &options).unwrap()
    };
    let sequence =
        |result: &eager_sim::SimResult| result.jobs.windows(2).all(|pair| pair[1].bind >= Some(pair[0].end));
    let sa = run_under(PolicyName::Sa, 3);
    assert!(sequence(&sa) && sa.makespan > Nanos::from_secs(150), "{:?}", sa.makespan);
    assert!(sa.jobs.iter().all(|job| job.ask == Some(Nanos(0))), "each asks when it starts");
    assert_eq!(sa.jobs[1].wait, sa.jobs[0].end, "and waits before its first host phase");
    let case = run_under(PolicyName::Case, 3);
    assert!(!sequence(&case) && case.makespan < Nanos::from_secs(120), "{:?}", case.makespan);

    let one = run_under(PolicyName::Cg, 1);
    assert!(sequence(&one) && one.makespan == sa.makespan, "{:?}", one.makespan);
    let two = run_under(PolicyName::Cg, 2);
    assert!(two.jobs[1].bind == Some(Nanos(0)) && two.jobs[2].bind >= Some(two.jobs[0].end));
}

#[test]
fn a_neighbour_on_the_device_is_slowdown_and_a_wait_for_it_is_not() {
    let shape = Shape { bytes: 3 * GIB, ..ONE_PASS };
    let slowdowns = |policy| {
        let alone = run(&[job(&shape)], &options(policy, 1)).unwrap().jobs[0].device_side().0 as f64;
        let both = run(&[job(&shape), job(&shape)], &options(policy, 1)).unwrap();
        both.jobs.iter().map(|job| job.device_side().0 as f64 / alone).fold(0.0, f64::max)
    };
    assert!(slowdowns(PolicyName::Case) > 1.8);
    assert!((0.999..1.001).contains(&slowdowns(PolicyName::Sa)));
}

#[test]
fn a_gated_row_of_launches_longer_than_the_queue_ends() {
    let mut long =
        job(&Shape { launches: 4095, gap: 0.0, compute: 0.0, bytes: 9 * GIB, tail: 2.0, ..CYCLIC });
    for op in &mut long.ops {
        if let JobOp::Kernel(kernel) = op {
            kernel.accesses[0].pattern = eager_gpu_model::Pattern::Diagonal;
            kernel.dram_bytes = 1 << 20;
        }
    }
    let result = run(&[long.clone(), long], &options(PolicyName::EagerB, 1)).unwrap();
    assert!(result.all_done());
    assert_eq!(result.eager_launches, 1);
}

#[test]
fn workers_pull_jobs_one_after_the_other() {
    let jobs = vec![job(&ONE_PASS); 3];
    let one_by_one = SimOptions { submission: Submission::Workers(1), ..options(PolicyName::Case, 1) };
    let result = run(&jobs, &one_by_one).unwrap();
    let submits: Vec<_> = result.jobs.iter().map(|job| job.submit).collect();
    let ends: Vec<_> = result.jobs.iter().map(|job| job.end).collect();
    assert_eq!(submits[1..], ends[..2]);
    assert_eq!(result.jobs[2].wait.0, 0);
}

#[test]
fn host_phases_wait_for_cores() {
    let jobs = vec![job(&Shape { bytes: GIB, ..ONE_PASS }); 4];
    let end = |cores| {
        let options = SimOptions { host_cores: cores, ..options(PolicyName::Case, 4) };
        run(&jobs, &options).unwrap().makespan.0 as f64 / 1e9
    };
    assert!((end(1) - end(4) - 6.0).abs() < 0.1, "{} {}", end(1), end(4));
}

#[test]
fn a_program_that_needs_more_than_it_said_is_extended_or_refused_alone() {
    let with = |bytes: u64| {
        let mut liar = job(&Shape { bytes, ..ONE_PASS });
        for op in &mut liar.ops {
            if let JobOp::TaskBegin { requirement, .. } = op {
                *requirement = GIB;
            }
        }
        let jobs = [job(&CYCLIC), liar, job(&Shape { bytes: GIB, ..ONE_PASS })];
        run(&jobs, &options(PolicyName::Case, 1)).unwrap()
    };
    // The missing memory is granted over-subscribed, in managed memory; other jobs notice only the paging.
    let extended = with(6 * GIB);
    assert!(extended.all_done(), "{:?}", extended.jobs);
    assert!(extended.jobs[1].classes.iter().any(|(_, class)| *class == Class::Eager));
    assert!(extended.trace.iter().any(|line| line.contains("runs over-subscribed by")));
    // A request larger than any device is refused, as an allocation would be.
    let refused = with(20 * GIB);
    assert!(matches!(refused.jobs[1].outcome, Outcome::Refused { .. }), "{:?}", refused.jobs[1]);
    assert_eq!((&refused.jobs[0].outcome, &refused.jobs[2].outcome), (&Outcome::Done, &Outcome::Done));
}

#[test]
fn jobs_come_when_they_are_said_to() {
    let second = Nanos(1_000_000_000);
    let times = vec![Nanos(0), Nanos(5 * second.0), Nanos(2 * second.0)];
    let jobs = vec![job(&Shape { bytes: GIB, ..ONE_PASS }); 3];
    let options = SimOptions { submission: Submission::At(times.clone()), ..options(PolicyName::Case, 4) };
    let result = run(&jobs, &options).unwrap();
    assert_eq!(result.jobs.iter().map(|job| job.submit).collect::<Vec<_>>(), times);
    let turnarounds: Vec<u64> = result.jobs.iter().map(|job| job.end.0 - job.submit.0).collect();
    assert!(turnarounds.windows(2).all(|pair| pair[0].abs_diff(pair[1]) < 1000), "{turnarounds:?}");
}

#[test]
fn host_memory_holds_jobs_back_and_a_smaller_ledger_makes_them_wait() {
    let jobs = vec![job(&Shape { bytes: 4 * GIB, ..ONE_PASS }); 2];
    let plain = options(PolicyName::Case, 1);
    let waits = |options: &SimOptions| run(&jobs, options).unwrap().jobs[1].wait;
    assert_eq!(waits(&plain), Nanos(0));
    assert!(waits(&SimOptions { device_memory_bytes: vec![6 * GIB], ..plain.clone() }) > Nanos(0));
    // Each job copies 4 GiB: only one fits into 6 GiB of host memory, and the second does not ask before the first
    // ends.
    let result = run(&jobs, &SimOptions { host_memory_bytes: Some(6 * GIB), ..plain }).unwrap();
    assert!(result.jobs[1].ask.unwrap() > result.jobs[0].end);
}

#[test]
fn a_killed_job_leaves_its_device_to_the_next() {
    let jobs = vec![job(&CYCLIC); 2];
    let at = Nanos(3_000_000_000);
    // Not `cg`, under which the second job has failed for lack of memory before.
    for policy in PolicyName::ALL.into_iter().filter(|&policy| policy != PolicyName::Cg) {
        let options = SimOptions { kills: vec![Kill { at, job: 0 }], ..options(policy, 1) };
        let result = run(&jobs, &options).unwrap();
        assert_eq!((&result.jobs[0].outcome, result.jobs[0].end), (&Outcome::Killed, at), "{policy}");
        assert_eq!(result.jobs[1].outcome, Outcome::Done, "{policy}");
    }
}

#[test]
fn descriptors_that_make_no_sense_are_refused_in_one_line() {
    let mut broken = job(&ONE_PASS);
    broken.ops.remove(2);
    let error = run(&[broken], &options(PolicyName::Case, 1)).unwrap_err();
    assert!(matches!(error, SimError::Job(_)));
    assert_eq!(
        error.to_string(),
        "job one-pass: copy-to-device uses buffer `data`, which is not allocated there"
    );
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let access = prop_oneof![
        Just(eager_units::AccessClass::Cyclic),
        Just(eager_units::AccessClass::OnePass),
        Just(eager_units::AccessClass::Unknown),
    ];
    (1..15u64, 0..40u32, 1..8u32, any::<bool>(), 0..30u32, access, 0..50u32).prop_map(
        |(gib, host, launches, gap, compute, access, tail)| Shape {
            name: "any",
            bytes: gib * GIB - 12345,
            host_before: f64::from(host) / 10.0,
            launches,
            gap: if gap { 0.001 } else { 0.0 },
            compute: f64::from(compute) / 100.0,
            access,
            tail: f64::from(tail) / 10.0,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        // The same cases every time, as in the core's tests; `eager-sim swarm` searches for new ones.
        rng_seed: RngSeed::Fixed(2026),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn no_job_is_lost_and_the_books_agree(
        shapes in proptest::collection::vec(any_shape(), 1..9),
        policy in 0..PolicyName::ALL.len(),
        devices in 1..3usize,
        mps in any::<bool>(),
        cores in 1..4u32,
        workers in proptest::option::of(1..5u32),
    ) {
        let policy = PolicyName::ALL[policy];
        let jobs: Vec<Job> = shapes.iter().map(job).collect();
        let mut options = SimOptions { trace: false, host_cores: cores, ..options(policy, devices) };
        options.model.mps = mps;
        options.submission = workers.map_or(Submission::AllAtOnce, Submission::Workers);
        options.scheduler.context_bytes = eager_units::Bytes(options.model.context_memory());
        let result = run(&jobs, &options).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(result.jobs.len(), jobs.len());
        prop_assert!(policy == PolicyName::Cg || result.all_done(), "{:?}", result.jobs);
        let journal = result.journal.unwrap();
        prop_assert!(eager_core::journal::replay(journal.header, journal.lines).is_ok());
    }
}

#[test]
fn a_timeline_accounts_for_held_kernels_and_grants() {
    let late = Shape { host_before: 2.0, ..CYCLIC };
    let plain = options(PolicyName::EagerB, 1);
    let with = run(&[job(&CYCLIC), job(&late)], &SimOptions { timeline: true, ..plain.clone() }).unwrap();
    let sum = |spans: &[Span]| spans.iter().map(|span| span.to.0 - span.from.0).sum::<u64>();
    for job in &with.jobs {
        assert_eq!(sum(&job.held_spans), job.held.0, "{}", job.name);
        assert_eq!(sum(&job.kernel_spans), job.kernels.0, "{}", job.name);
    }
    assert!(with.jobs.iter().any(|job| job.held > Nanos(0)), "the barrier held nobody: {:?}", with.jobs);
    let granted = &with.devices[0].granted;
    assert_eq!(granted.last().map(|(_, bytes)| *bytes), Some(0), "{granted:?}");
    assert!(granted.iter().any(|(_, bytes)| *bytes > 12 * GIB), "{granted:?}");
    // Keeping the timeline does not change the run.
    let without = run(&[job(&CYCLIC), job(&late)], &plain).unwrap();
    assert_eq!(without.trace, with.trace);
    assert!(without.jobs.iter().all(|job| job.kernel_spans.is_empty()));
}
