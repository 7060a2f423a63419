//! Tests that the executor runs every block once, gives each worker its own memory, and survives traps. The kernels are
//! Rust functions with the binary interface of translated ones.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use eager_exec::abi::{BlockContext, BlockFn, KernelEntry};
use eager_exec::{Executor, Launch, LaunchCost, LaunchFailure, TouchMap};

fn entry(run_block: BlockFn, static_shared_bytes: u32) -> KernelEntry {
    KernelEntry {
        name: c"test".as_ptr(),
        run_block,
        params: null(),
        param_count: 1,
        mode: 0,
        static_shared_bytes,
        flags: 0,
        threads_max: 0,
        cluster: 0,
    }
}

fn executor(workers: usize) -> Executor {
    Executor::new(NonZeroUsize::new(workers).unwrap()).unwrap()
}

fn launch(
    executor: &Executor,
    entry: &KernelEntry,
    grid: [u32; 3],
    counts: &[AtomicU32],
    touch: Option<&TouchMap>,
) -> Result<LaunchCost, LaunchFailure> {
    let pointer = counts.as_ptr();
    let args = [std::ptr::from_ref(&pointer).cast::<c_void>()];
    let launch = Launch {
        entry,
        grid,
        block: [256, 1, 1],
        dynamic_shared_bytes: 100,
        args: &args,
        touch,
        cooperative: false,
        cluster: [1; 3],
        strict: None,
        objects: None,
        time_max: None,
    };
    // SAFETY: the kernels of this file take one argument, a pointer to as many counters as the grid has blocks.
    unsafe { executor.launch(&launch) }
}

/// Returns the block's linear index and its counter.
///
/// # Safety
/// The arguments are those that the executor passes to a kernel of this file.
unsafe fn this_block<'a>(ctx: *mut BlockContext, args: *const *const c_void) -> (u32, &'a AtomicU32) {
    // SAFETY: `launch` passes the address of a pointer to one counter per block; the context is the executor's.
    unsafe {
        let (at, grid) = ((*ctx).block_idx, (*ctx).grid_dim);
        let index = at[0] + grid[0] * (at[1] + grid[1] * at[2]);
        (index, &*(*(*args).cast::<*const AtomicU32>()).add(index as usize))
    }
}

unsafe extern "C-unwind" fn count(ctx: *mut BlockContext, args: *const *const c_void) {
    // SAFETY: see `this_block`; shared memory has the requested size, marks at least the two bytes of entry 0.
    unsafe {
        let (index, counter) = this_block(ctx, args);
        counter.fetch_add(1, Relaxed);
        assert_eq!(((*ctx).shared as usize % 128, (*ctx).shared_bytes), (0, 32 + 100));
        (*ctx).shared.write_bytes(0xff, (*ctx).shared_bytes as usize);
        let entry = u64::from(index).min((*ctx).touch_limit);
        (*ctx).touch_map.add(2 * entry as usize + 1).write(1);
        (*ctx).global_bytes += 4;
        (*ctx).flops64 += u64::from(index);
    }
}

#[test]
fn every_block_runs_once_whatever_the_workers() {
    let kernel = entry(count, 20);
    for workers in [1, 2, 5] {
        let executor = executor(workers);
        for grid in [[1, 1, 1], [7, 1, 1], [13, 5, 3], [2000, 1, 1]] {
            let blocks: u32 = grid.iter().product();
            let counts: Vec<AtomicU32> = (0..blocks).map(|_| AtomicU32::new(0)).collect();
            let cost = launch(&executor, &kernel, grid, &counts, None).unwrap();
            assert!(counts.iter().all(|c| c.load(Relaxed) == 1), "{workers} workers, {grid:?}");
            let blocks = u64::from(blocks);
            let expected =
                LaunchCost { global_bytes: 4 * blocks, flops32: 0, flops64: blocks * (blocks - 1) / 2 };
            assert_eq!(cost, expected);
        }
        assert_eq!(launch(&executor, &kernel, [0, 1, 1], &[], None), Ok(LaunchCost::default()));
    }
}

#[test]
fn marks_of_all_workers_come_together_and_accumulate() {
    let kernel = entry(count, 20);
    let (executor, map) = (executor(3), TouchMap::new(0, 100 << 12, 12));
    let counts: Vec<AtomicU32> = (0..90).map(|_| AtomicU32::new(0)).collect();
    launch(&executor, &kernel, [90, 1, 1], &counts, Some(&map)).unwrap();
    assert_eq!(map.touched().map(|(block, _)| block).collect::<Vec<_>>(), (0..90).collect::<Vec<_>>());
    assert!(!map.outside().written);
    let counts: Vec<AtomicU32> = (0..150).map(|_| AtomicU32::new(0)).collect();
    launch(&executor, &kernel, [150, 1, 1], &counts, Some(&map)).unwrap();
    assert_eq!(map.touched().count(), 100);
    assert!(map.outside().written, "what lies beyond the range is told apart");
}

#[test]
fn launches_from_several_threads_take_turns() {
    let executor = executor(2);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let counts: Vec<AtomicU32> = (0..40).map(|_| AtomicU32::new(0)).collect();
                    let cost = launch(&executor, &entry(count, 20), [40, 1, 1], &counts, None).unwrap();
                    assert_eq!(cost.global_bytes, 160);
                    assert!(counts.iter().all(|c| c.load(Relaxed) == 1));
                }
            });
        }
    });
}

unsafe extern "C-unwind" fn grow(ctx: *mut BlockContext, args: *const *const c_void) {
    // SAFETY: see `this_block`; the arena is at least as large as requested.
    unsafe {
        let (index, counter) = this_block(ctx, args);
        let need = u64::from(index) * 1000 + 1;
        let arena = ((*(*ctx).helpers).grow_scratch)(ctx, need);
        assert!(
            (*ctx).scratch_bytes >= need && arena == (*ctx).scratch && (arena as usize).is_multiple_of(64)
        );
        arena.write_bytes(1, need as usize);
        counter.store(1, Relaxed);
    }
}

#[test]
fn scratch_grows_on_demand() {
    let counts: Vec<AtomicU32> = (0..100).map(|_| AtomicU32::new(0)).collect();
    launch(&executor(2), &entry(grow, 0), [100, 1, 1], &counts, None).unwrap();
    assert!(counts.iter().all(|c| c.load(Relaxed) == 1));
}

unsafe extern "C-unwind" fn trap_in_block_3(ctx: *mut BlockContext, args: *const *const c_void) {
    // SAFETY: see `this_block`.
    unsafe {
        let (index, counter) = this_block(ctx, args);
        if index == 3 {
            ((*(*ctx).helpers).trap)(ctx);
        }
        counter.store(1, Relaxed);
    }
}

#[test]
fn a_trap_fails_the_launch_and_leaves_the_executor_usable() {
    for workers in [1, 3] {
        let executor = executor(workers);
        let counts: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        let kernel = entry(trap_in_block_3, 0);
        assert_eq!(launch(&executor, &kernel, [64, 1, 1], &counts, None), Err(LaunchFailure::Trap));
        assert_eq!(counts[3].load(Relaxed), 0);
        assert!(launch(&executor, &kernel, [3, 1, 1], &counts, None).is_ok());
    }
}

unsafe extern "C-unwind" fn fail(_ctx: *mut BlockContext, _args: *const *const c_void) {
    std::panic::resume_unwind(Box::new("a defect"))
}

#[test]
fn a_defect_in_a_worker_reaches_the_launching_thread() {
    for workers in [1, 3] {
        let executor = executor(workers);
        let counts: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        let run = || launch(&executor, &entry(fail, 0), [64, 1, 1], &counts, None);
        let thrown =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).expect_err("it is passed on");
        assert_eq!(thrown.downcast_ref::<&str>(), Some(&"a defect"));
    }
}
