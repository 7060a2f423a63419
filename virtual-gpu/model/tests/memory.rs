//! Residency and eviction as a caller sees them.

use eager_gpu_model::checks::bench::*;
use eager_gpu_model::*;

fn card_of(bytes: u64) -> Card {
    Card { memory_bytes: bytes, ..card("V100-16GB").unwrap() }
}

/// Resident MiB of a buffer that is used again, of a buffer that was made after it, and of a buffer that fills the
/// device.
fn left_of_hot_cold_and_new(options: Options) -> (u64, u64, u64) {
    let mut bench = Bench::new(card_of(10 * MIB), options);
    let context = bench.context();
    let hot = bench.managed(context, 4 * MIB);
    let cold = bench.managed(context, 4 * MIB);
    bench.prefetch(context, hot, 4 * MIB);
    bench.prefetch(context, cold, 4 * MIB);
    bench.run(context, Op::Kernel(sweep(vec![whole(hot, 4 * MIB, Pattern::Stream)], 10)));
    let new = bench.managed(context, 4 * MIB);
    bench.prefetch(context, new, 4 * MIB);
    bench.model.check();
    let resident = |alloc| bench.model.resident_bytes(alloc).unwrap() / MIB;
    (resident(hot), resident(cold), resident(new))
}

#[test]
fn the_first_to_come_in_is_the_first_to_go_even_if_it_is_hot() {
    assert_eq!(left_of_hot_cold_and_new(quiet()), (2, 4, 4), "using it again does not make it younger");
}

#[test]
fn victims_are_written_back_although_nobody_wrote_them() {
    let mut bench = Bench::new(card_of(8 * MIB), quiet());
    let context = bench.context();
    let read_only = bench.on_host(context, 8 * MIB);
    bench.prefetch(context, read_only, 8 * MIB);
    let other = bench.on_host(context, 8 * MIB);
    let (_, stats) = bench.prefetch(context, other, 8 * MIB);
    let moved = stats.moved;
    assert_eq!((moved.prefetched_bytes, moved.evicted_bytes), (8 * MIB, 8 * MIB));
}

#[test]
fn what_is_wanted_is_told_apart_from_what_over_subscription_costs() {
    let mut bench = Bench::new(card_of(8 * MIB), quiet());
    let context = bench.context();
    let (first, second) = (bench.on_host(context, 8 * MIB), bench.on_host(context, 8 * MIB));
    let (_, wanted) = bench.prefetch(context, first, 8 * MIB);
    assert_eq!(wanted.moved, Moved { prefetched_bytes: 8 * MIB, ..Moved::default() });
    let (_, faults) = bench.run(context, Op::Kernel(sweep(vec![whole(second, 8 * MIB, Pattern::Stream)], 1)));
    let both_ways = Moved { faulted_bytes: 8 * MIB, evicted_bytes: 8 * MIB, ..Moved::default() };
    assert_eq!(faults.moved, both_ways);
    let (_, again) = bench.prefetch(context, first, 8 * MIB);
    let refetched = Moved { refetched_bytes: 8 * MIB, evicted_bytes: 8 * MIB, ..Moved::default() };
    assert_eq!(again.moved, refetched);
    // Memory that the host has written again counts as a first prefetch.
    let range = Range { offset: 0, bytes: 8 * MIB };
    bench.run(context, Op::HostAccess { alloc: second, range });
    let (_, anew) = bench.prefetch(context, second, 8 * MIB);
    assert_eq!((anew.moved.prefetched_bytes, anew.moved.refetched_bytes), (8 * MIB, 0));
    let totals = bench.model.totals(bench.now, 0).unwrap().moved;
    assert_eq!((wanted.moved.paged_bytes(), totals.paged_bytes()), (0, 40 * MIB));
}

#[test]
fn discarded_blocks_leave_without_being_written_back() {
    let mut bench = Bench::new(card_of(8 * MIB), quiet());
    let context = bench.context();
    let dead = bench.on_host(context, 8 * MIB);
    bench.prefetch(context, dead, 8 * MIB);
    let range = Range { offset: 0, bytes: 8 * MIB };
    bench.model.advise(bench.now, dead, range, Advice::Discard).unwrap();
    let other = bench.on_host(context, 8 * MIB);
    let (_, stats) = bench.prefetch(context, other, 8 * MIB);
    assert_eq!(stats.moved.evicted_bytes, 0);
}

#[test]
fn device_memory_evicts_managed_memory_of_another_process_but_never_the_reverse() {
    let mut bench = Bench::new(card_of(16 * MIB), quiet());
    let (one, other) = (bench.context(), bench.context());
    let managed = bench.managed(one, 16 * MIB);
    bench.prefetch(one, managed, 16 * MIB);
    let device = bench.alloc(other, 12 * MIB, AllocKind::Device);
    assert_eq!(bench.model.resident_bytes(managed).unwrap(), 4 * MIB);
    assert_eq!(bench.model.totals(bench.now, 0).unwrap().moved.evicted_bytes, 12 * MIB);
    bench.prefetch(one, managed, 16 * MIB);
    assert!(bench.model.resident_bytes(managed).unwrap() <= 4 * MIB);
    assert_eq!(bench.model.resident_bytes(device).unwrap(), 12 * MIB);
    bench.model.check();
}

#[test]
fn device_memory_that_does_not_fit_is_refused_with_what_there_is() {
    let mut bench = Bench::new(card_of(16 * MIB), quiet());
    let context = bench.context();
    bench.alloc(context, 10 * MIB, AllocKind::Device);
    let refused = bench.model.alloc(bench.now, context, 7 * MIB, AllocKind::Device).unwrap_err();
    assert_eq!(refused, ModelError::OutOfMemory { wanted: 7 * MIB, free: 6 * MIB });
    assert!(bench.model.alloc(bench.now, context, 64 * GIB, AllocKind::Managed).is_ok());
}

#[test]
fn a_context_takes_memory_and_gives_all_of_it_back() {
    let options = Options { context_bytes: Some(2 * MIB), ..Options::default() };
    let mut bench = Bench::new(card_of(16 * MIB), options);
    let context = bench.context();
    let managed = bench.on_host(context, 8 * MIB);
    bench.alloc(context, 4 * MIB, AllocKind::Device);
    bench.prefetch(context, managed, 4 * MIB);
    let kernel = sweep(vec![whole(managed, 8 * MIB, Pattern::Stream)], 1000);
    bench.submit(context, Op::Kernel(kernel));
    bench.model.context_destroy(bench.now, context).unwrap();
    let info = bench.model.memory_info(0).unwrap();
    assert_eq!(info, MemoryInfo { total: 16 * MIB, free: 16 * MIB, ..MemoryInfo::default() });
    assert!(!bench.model.busy(0));
    assert_eq!(bench.model.next_event(), None, "a cancelled operation never completes");
    let gone = bench.model.submit(
        bench.now,
        context,
        Op::Fill { alloc: managed, range: Range { offset: 0, bytes: 1 } },
    );
    assert!(matches!(gone, Err(ModelError::Unknown(_))));
}

#[test]
fn a_buffer_preferred_on_the_host_is_read_over_the_link_and_takes_no_device_memory() {
    let mut bench = Bench::new(card_of(8 * GIB), quiet());
    let context = bench.context();
    let alloc = bench.on_host(context, 4 * GIB);
    let range = Range { offset: 0, bytes: 4 * GIB };
    bench.model.advise(bench.now, alloc, range, Advice::PreferredHost).unwrap();
    let sparse = Access { density: 0.001, ..whole(alloc, 4 * GIB, Pattern::Random) };
    let (_, stats) = bench.run(context, Op::Kernel(sweep(vec![sparse], 1)));
    assert_eq!((stats.moved.faulted_bytes, bench.model.resident_bytes(alloc).unwrap()), (0, 0));
    assert!(stats.paging.0 > 0);
}

#[test]
fn host_access_brings_resident_pages_back() {
    let mut bench = Bench::new(card_of(64 * MIB), quiet());
    let context = bench.context();
    let alloc = bench.managed(context, 16 * MIB);
    bench.prefetch(context, alloc, 16 * MIB);
    let range = Range { offset: 0, bytes: 4 * MIB };
    let (_, stats) = bench.run(context, Op::HostAccess { alloc, range });
    assert_eq!(stats.moved.returned_bytes, 4 * MIB);
    assert_eq!(bench.model.resident_bytes(alloc).unwrap(), 12 * MIB);
}

#[test]
fn the_hosts_own_stores_bring_pages_back_and_cost_no_copy() {
    let [copied, stored] = [true, false].map(|copies| {
        let mut bench = Bench::new(card_of(64 * MIB), quiet());
        let context = bench.context();
        let alloc = bench.managed(context, 16 * MIB);
        bench.prefetch(context, alloc, 8 * MIB);
        let range = Range { offset: 0, bytes: 16 * MIB };
        let op = if copies { Op::HostAccess { alloc, range } } else { Op::HostFault { alloc, range } };
        let (seconds, stats) = bench.run(context, op);
        assert_eq!(bench.model.resident_bytes(alloc).unwrap(), 0);
        (seconds, stats.moved.returned_bytes)
    });
    assert!(stored.0 > 0.0 && stored.0 < copied.0, "{stored:?} {copied:?}");
    assert_eq!((stored.1, copied.1), (8 * MIB, 8 * MIB));
}

#[test]
fn a_kernel_larger_than_all_memory_still_ends() {
    let mut bench = Bench::new(card_of(8 * MIB), quiet());
    let context = bench.context();
    bench.alloc(context, 7 * MIB, AllocKind::Device);
    let alloc = bench.on_host(context, 256 * MIB);
    let (seconds, _) =
        bench.run(context, Op::Kernel(sweep(vec![whole(alloc, 256 * MIB, Pattern::Stream)], 3)));
    assert!(seconds > 0.0);
    bench.model.check();
}

#[test]
fn ranges_outside_an_allocation_are_refused() {
    let mut bench = Bench::new(card_of(64 * MIB), quiet());
    let context = bench.context();
    let alloc = bench.managed(context, 4 * MIB);
    for range in [Range { offset: 4 * MIB, bytes: 1 }, Range { offset: u64::MAX, bytes: 2 }] {
        let refused = bench.model.submit(bench.now, context, Op::Fill { alloc, range });
        assert_eq!(refused, Err(ModelError::OutOfRange));
    }
}

#[test]
fn prefetch_ahead_beats_demand_paging_of_one_pass_when_memory_is_full() {
    let time = |ahead: bool| {
        let mut bench = Bench::new(card("V100-16GB").unwrap(), quiet());
        let context = bench.context();
        let old = bench.on_host(context, 16 * GIB);
        bench.prefetch(context, old, 16 * GIB);
        let alloc = bench.on_host(context, 8 * GIB);
        let start = bench.now;
        if ahead {
            bench.prefetch(context, alloc, 8 * GIB);
        }
        bench.run(context, Op::Kernel(sweep(vec![whole(alloc, 8 * GIB, Pattern::Stream)], 1)));
        (bench.now.0 - start.0) as f64 / 1e9
    };
    let (demand, ahead) = (time(false), time(true));
    assert!(demand / ahead >= 2.0, "{demand} s by faults, {ahead} s by prefetch");
}

#[test]
fn under_least_recently_used_the_hot_stay() {
    let options = Options { eviction: Eviction::Used, ..quiet() };
    assert_eq!(left_of_hot_cold_and_new(options), (4, 2, 4));
}

#[test]
fn under_least_recently_used_a_running_kernel_keeps_what_it_has_just_swept() {
    let left = |eviction| {
        let options = Options { eviction, step_blocks: 1, ..quiet() };
        let mut bench = Bench::new(card_of(64 * MIB), options);
        let context = bench.context();
        let (hot, cold) = (bench.on_host(context, 16 * MIB), bench.on_host(context, 48 * MIB));
        bench.prefetch(context, hot, 16 * MIB);
        bench.prefetch(context, cold, 48 * MIB);
        // Sweeps the hot buffer for as long as `fresh` is fetched.
        let kernel = Kernel { dram_bytes: 0, ..sweep(vec![whole(hot, 16 * MIB, Pattern::Stream)], 10_000) };
        bench.submit(context, Op::Kernel(kernel));
        bench.now = Nanos(bench.now.0 + 1_000_000);
        let fresh = bench.on_host(context, 32 * MIB);
        bench.prefetch(context, fresh, 32 * MIB);
        bench.model.resident_bytes(cold).unwrap() / MIB
    };
    assert_eq!(left(Eviction::Used), 16, "only cold memory went");
    assert!(left(Eviction::Migrated) > 16);
}

#[test]
fn an_allocation_waits_until_what_it_pushes_out_is_written_back() {
    let mut bench = Bench::new(card_of(GIB), quiet());
    let (one, other) = (bench.context(), bench.context());
    let managed = bench.managed(one, GIB);
    bench.prefetch(one, managed, GIB);
    let before = bench.now;
    let made = bench.model.alloc(before, other, 512 * MIB, AllocKind::Device).unwrap();
    let done = bench.wait(made.ready.expect("victims are on their way"));
    // 256 blocks at 12.5 GB/s and 15 us each.
    let wanted = 512.0 * MIB as f64 / 12.5e9 + 256.0 * 15e-6;
    assert!((((done.at.0 - before.0) as f64 / 1e9) / wanted - 1.0).abs() < 0.01);
    assert_eq!(done.stats.moved.evicted_bytes, 512 * MIB);
    let free = bench.model.alloc(bench.now, other, 0, AllocKind::Device).unwrap();
    assert_eq!(free.ready, None, "nothing had to go");
}

#[test]
fn a_context_takes_its_time() {
    let mut bench = Bench::new(card_of(GIB), Options::default());
    let made = bench.model.context_create(bench.now, 0).unwrap();
    assert_eq!(bench.wait(made.ready.expect("not at once")).at, Nanos(300_000_000));
}

#[test]
fn what_faults_cost_scales() {
    let time = |fault_factor| {
        let mut bench = Bench::new(card_of(GIB), Options { fault_factor, ..quiet() });
        let context = bench.context();
        let alloc = bench.on_host(context, 2 * GIB);
        let sweep = sweep(vec![whole(alloc, 2 * GIB, Pattern::Stream)], 1);
        bench.run(context, Op::Kernel(sweep)).1.paging.0 as f64
    };
    assert!((time(2.0) / time(1.0) - 2.0).abs() < 1e-3);
}

#[test]
fn managed_memory_keeps_its_host_memory_until_it_is_freed() {
    let mut bench = Bench::new(card_of(8 * MIB), quiet());
    let context = bench.context();
    let host = |bench: &Bench| bench.model.memory_info(0).unwrap().host_bytes / MIB;
    let written = bench.on_host(context, 8 * MIB);
    assert_eq!(host(&bench), 8);
    bench.prefetch(context, written, 8 * MIB);
    assert_eq!(host(&bench), 8, "on the device, and its host pages stay");
    let fresh = bench.managed(context, 8 * MIB);
    bench.prefetch(context, fresh, 8 * MIB);
    assert_eq!(host(&bench), 8, "never written on the host");
    bench.prefetch(context, written, 4 * MIB);
    assert_eq!(host(&bench), 12, "half of it was evicted");
    bench.model.free(bench.now, written).unwrap();
    assert_eq!(host(&bench), 4);
    assert_eq!(bench.model.totals(bench.now, 0).unwrap().host_bytes_max, 12 * MIB);
    bench.model.check();
}
