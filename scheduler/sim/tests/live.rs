//! Gains from the habits of `eager-live`, one by one. The auditor is on in every run, so no habit may break a rule.

mod common;
use common::*;
use eager_core::PolicyName;
use eager_sim::job::{Job, JobOp};
use eager_sim::{Estimates, Outcome, SimOptions, SimResult, run};
use eager_units::Nanos;

const SECOND: f64 = 1e9;

/// Options of `case` with some habits switched on.
fn case_with(switch: impl Fn(&mut eager_core::Options)) -> SimOptions {
    let mut options = options(PolicyName::Case, 1);
    switch(&mut options.scheduler);
    options
}

fn end(jobs: &[Job], options: &SimOptions) -> f64 {
    let result = run(jobs, options).unwrap();
    assert!(result.all_done(), "{:?}", result.jobs);
    assert_eq!(result.bytes_paged(), 0);
    result.makespan.0 as f64 / SECOND
}

/// Moves the allocation, and the task with it, before the host work.
fn allocate_first(mut job: Job) -> Job {
    job.ops[..3].rotate_left(1);
    job
}

fn shrinks(result: &SimResult) -> usize {
    result.trace.iter().filter(|line| line.contains("gives back")).count()
}

#[test]
fn dead_memory_given_back_starts_the_next_during_the_tail() {
    let jobs = [job(&CYCLIC), job(&CYCLIC)];
    let plain = end(&jobs, &case_with(|_| {}));
    let released = end(&jobs, &case_with(|options| options.release_dead = Some(true)));
    assert!((plain - released - CYCLIC.tail).abs() < 0.1, "{plain} {released}");
}

#[test]
fn late_reservation_frees_the_device_during_the_host_work_of_programs_that_allocate_first() {
    let shape = Shape { host_before: 20.0, tail: 0.0, ..CYCLIC };
    let jobs = [allocate_first(job(&shape)), allocate_first(job(&shape))];
    let plain = end(&jobs, &case_with(|_| {}));
    let late = end(&jobs, &case_with(|options| options.late_reservation = Some(true)));
    assert!(plain - late > 19.0, "{plain} {late}");
    // The order of allocation and host work no longer matters.
    let usual = [job(&shape), job(&shape)];
    assert!((late - end(&usual, &case_with(|_| {}))).abs() < 0.1);
}

#[test]
fn early_copies_let_the_host_go_on_and_are_limited_by_its_memory() {
    let jobs = [job(&Shape { tail: 0.0, ..CYCLIC }), job(&Shape { tail: 0.0, host_before: 2.0, ..CYCLIC })];
    // The host works for a second between the copy and the kernels.
    let jobs = jobs.map(|mut job| {
        job.ops.insert(4, JobOp::Host { seconds: 1.0 });
        job
    });
    let late = |early: bool, host_memory: Option<u64>| {
        let mut options = case_with(|options| {
            options.late_reservation = Some(true);
            options.early_copies = Some(early);
        });
        options.host_memory_bytes = host_memory;
        end(&jobs, &options)
    };
    // The second job has done that work when the device becomes free.
    let (early, plain) = (late(true, None), late(false, None));
    assert!(plain - early > 0.8, "{plain} {early}");
    // Both jobs' own copies take 24 GiB, which leaves nothing for staging.
    assert!((late(true, Some(24 * GIB)) - plain).abs() < 0.01);
    assert!((late(true, Some(36 * GIB)) - early).abs() < 0.01);
}

#[test]
fn early_copies_alone_do_nothing_as_only_memory_by_name_can_wait_for_its_data() {
    let jobs = [job(&Shape { tail: 0.0, ..CYCLIC }), job(&Shape { tail: 0.0, host_before: 2.0, ..CYCLIC })];
    let with = |early| run(&jobs, &case_with(|options| options.early_copies = Some(early))).unwrap().jobs;
    assert_eq!(with(true), with(false));
}

#[test]
fn a_live_requirement_lets_tasks_share_what_they_need_one_after_the_other() {
    // Two phases of 7 GiB each: 14 GiB in total, 7 GiB at once.
    let copy = |buffer: &str| JobOp::CopyToDevice { buffer: buffer.into(), bytes: 7 * GIB, pinned: true };
    let alloc = |buffer: &str| JobOp::Alloc { buffer: buffer.into(), bytes: 7 * GIB };
    let free = |buffer: &str| JobOp::Free { buffer: buffer.into() };
    let mut phases = job(&ONE_PASS);
    phases.ops = vec![
        JobOp::TaskBegin { requirement: 14 * GIB, blocks: 1, threads_per_block: 32, lazy: false },
        alloc("first"),
        alloc("second"),
        copy("first"),
        JobOp::Host { seconds: 5.0 },
        copy("second"),
        free("first"),
        free("second"),
        JobOp::TaskEnd,
    ];
    let jobs = [phases.clone(), phases];
    let with = |live: bool| {
        case_with(|options| {
            options.release_dead = Some(true);
            options.live_requirement = Some(live);
        })
    };
    let waits = |options: &SimOptions| run(&jobs, options).unwrap().jobs[1].wait;
    assert!(waits(&with(false)) > Nanos(1));
    assert_eq!(waits(&with(true)), Nanos(0));
    // The second buffer reuses the first buffer's memory: nothing is given back until the end, and nothing is
    // requested again.
    let result = run(&jobs[..1], &with(true)).unwrap();
    assert_eq!(shrinks(&result), 1);
    assert!(!result.trace.iter().any(|line| line.contains("more")), "{:#?}", result.trace);
}

#[test]
fn fast_copies_halve_pageable_copies() {
    let jobs = [job(&Shape { compute: 0.0, launches: 1, tail: 0.0, ..CYCLIC })];
    let plain = end(&jobs, &case_with(|_| {}));
    let fast = end(&jobs, &case_with(|options| options.fast_copies = Some(true)));
    // 12 GiB in and an eighth of it out, at 6 or at 12 GB/s.
    assert!((plain - fast - 1.125 * 12.0 * GIB as f64 / 12e9).abs() < 0.1, "{plain} {fast}");
}

#[test]
fn eager_live_is_no_slower_than_each_part_and_pages_nothing_while_estimates_are_exact() {
    let shape = Shape { host_before: 3.0, ..CYCLIC };
    let jobs = vec![job(&shape), job(&ONE_PASS), job(&shape), job(&ONE_PASS), job(&shape)];
    let live = end(&jobs, &SimOptions { estimates: None, ..options(PolicyName::EagerLive, 1) });
    let case = end(&jobs, &case_with(|_| {}));
    let released = end(&jobs, &case_with(|options| options.release_dead = Some(true)));
    assert!(live <= released && released < case, "{live} {released} {case}");
}

#[test]
fn estimates_decide_the_order_and_wrong_ones_lose_no_job() {
    // Three jobs of which only one fits at a time. The last to arrive has the longest tail, so it should start
    // second.
    let short = Shape { tail: 0.5, ..CYCLIC };
    let long = Shape { tail: 30.0, host_before: 1.1, ..CYCLIC };
    let jobs = [job(&short), job(&short), job(&long)];
    let with = |estimates: Option<Estimates>| {
        run(&jobs, &SimOptions { estimates, ..options(PolicyName::EagerLive, 1) }).unwrap()
    };
    let (known, unknown) = (with(Some(Estimates::EXACT)), with(None));
    assert!(known.jobs[2].bind < known.jobs[1].bind);
    assert!(unknown.jobs[2].bind > unknown.jobs[1].bind);
    assert!(known.makespan < unknown.makespan);
    for seed in 0..8 {
        let wrong = with(Some(Estimates { spread: 10.0, seed }));
        assert!(wrong.jobs.iter().all(|job| job.outcome == Outcome::Done));
    }
}

#[test]
fn who_holds_memory_for_a_short_time_does_not_wait_behind_long_kernels() {
    let long = Shape { bytes: 6 * GIB, compute: 1.0, launches: 10, gap: 0.0, tail: 0.0, ..CYCLIC };
    let short = Shape { name: "short", bytes: GIB, compute: 0.01, launches: 10, ..long.clone() };
    let jobs = [job(&long), job(&Shape { host_before: 5.0, ..short })];
    let with = |seconds: u64| {
        let mut options = options(PolicyName::EagerLive, 1);
        options.scheduler.short_hold_ns = Some(Nanos::from_secs(seconds));
        let jobs = run(&jobs, &options).unwrap().jobs;
        (jobs[1].device_side(), jobs[0].end)
    };
    let ((all_equal, long_end), (short_first, long_end_after)) = (with(1000), with(3));
    assert!(short_first.0 * 2 < all_equal.0, "{short_first} {all_equal}");
    assert!(long_end_after.0 < long_end.0 * 101 / 100, "{long_end_after} {long_end}");
}

#[test]
fn what_a_task_turns_out_not_to_need_while_it_waits_is_given_back_when_it_has_it() {
    let alloc = |buffer: &str| JobOp::Alloc { buffer: buffer.into(), bytes: 6 * GIB };
    let free = |buffer: &str| JobOp::Free { buffer: buffer.into() };
    let mut second = job(&ONE_PASS);
    second.ops = vec![
        JobOp::Host { seconds: 1.0 },
        JobOp::TaskBegin { requirement: 12 * GIB, blocks: 1, threads_per_block: 32, lazy: false },
        alloc("used"),
        alloc("unused"),
        JobOp::CopyToDevice { buffer: "used".into(), bytes: 6 * GIB, pinned: true },
        free("unused"),
        JobOp::CopyToHost { buffer: "used".into(), bytes: 6 * GIB, pinned: true },
        JobOp::Host { seconds: 20.0 },
        free("used"),
        JobOp::TaskEnd,
    ];
    let third = job(&Shape { bytes: 8 * GIB, host_before: 2.0, tail: 0.0, ..CYCLIC });
    let options = case_with(|options| {
        options.late_reservation = Some(true);
        options.early_copies = Some(true);
    });
    let result = run(&[job(&CYCLIC), second, third], &options).unwrap();
    assert!(result.all_done(), "{:?}", result.jobs);
    // The third job fits beside what the second keeps during the second's host work.
    assert!(result.jobs[2].end < result.jobs[1].end, "{:#?}", result.trace);
}

#[test]
fn a_task_whose_requirement_is_a_peak_asks_for_nothing_more() {
    let alloc = |buffer: &str| JobOp::Alloc { buffer: buffer.into(), bytes: 6 * GIB };
    let free = |buffer: &str| JobOp::Free { buffer: buffer.into() };
    let fill = |buffer: &str| JobOp::Fill { buffer: buffer.into(), bytes: 6 * GIB };
    let mut peak = job(&ONE_PASS);
    let one_after_the_other = ["first", "second"].map(|buffer| [alloc(buffer), fill(buffer), free(buffer)]);
    peak.ops = vec![JobOp::TaskBegin { requirement: 6 * GIB, blocks: 1, threads_per_block: 32, lazy: false }];
    peak.ops.extend(one_after_the_other.into_iter().flatten());
    peak.ops.push(JobOp::TaskEnd);
    for late in [false, true] {
        let result = run(&[peak.clone()], &case_with(|o| o.late_reservation = Some(late))).unwrap();
        let said = |words: &str| result.trace.iter().filter(|line| line.contains(words)).count();
        assert_eq!((said("gives back"), said("more")), (0, 0), "{:#?}", result.trace);
    }
}
