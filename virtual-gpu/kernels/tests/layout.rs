//! Compares the offsets that the translator writes into LLVM IR with those of the binary interface.

use std::mem::offset_of;

use eager_exec::abi::{
    BlockContext, ClusterView, Helpers, KernelEntry, KernelTable, MemoryRange, VariableEntry, VariableMemory,
    Wait, dynamic_shared_offset,
};
use eager_exec::schedule::WaitKind;

#[test]
fn block_context_and_helpers() {
    assert_eq!(offset_of!(BlockContext, block_idx), 0);
    assert_eq!(offset_of!(BlockContext, block_dim), 12);
    assert_eq!(offset_of!(BlockContext, grid_dim), 24);
    assert_eq!(offset_of!(BlockContext, shared_bytes), 36);
    assert_eq!(offset_of!(BlockContext, shared), 40);
    assert_eq!(offset_of!(BlockContext, scratch), 48);
    assert_eq!(offset_of!(BlockContext, scratch_bytes), 56);
    assert_eq!(offset_of!(BlockContext, touch_base), 64);
    assert_eq!(offset_of!(BlockContext, touch_limit), 72);
    assert_eq!(offset_of!(BlockContext, touch_map), 80);
    assert_eq!(offset_of!(BlockContext, touch_shift), 88);
    assert_eq!(offset_of!(BlockContext, global_bytes), 96);
    assert_eq!(offset_of!(BlockContext, flops32), 104);
    assert_eq!(offset_of!(BlockContext, flops64), 112);
    assert_eq!(offset_of!(BlockContext, phase), 92);
    assert_eq!(offset_of!(BlockContext, frame_stride), 120);
    assert_eq!(offset_of!(BlockContext, helpers), 128);
    assert_eq!(offset_of!(BlockContext, waits), 136);
    assert_eq!(offset_of!(BlockContext, grid_workspace), 144);
    assert_eq!(offset_of!(BlockContext, cluster), 168);
    assert_eq!(offset_of!(ClusterView, shared), 0);
    assert_eq!(offset_of!(ClusterView, rank), 8);
    assert_eq!(offset_of!(ClusterView, count), 12);
    assert_eq!(offset_of!(ClusterView, block), 16);
    assert_eq!(offset_of!(ClusterView, sizes), 28);
    assert_eq!(offset_of!(ClusterView, cluster), 40);
    assert_eq!(offset_of!(ClusterView, clusters), 52);
    assert_eq!(offset_of!(Helpers, grow_scratch), 0);
    assert_eq!(offset_of!(Helpers, vprintf), 8);
    assert_eq!(offset_of!(Helpers, trap), 16);
    assert_eq!(offset_of!(Helpers, ready_lanes), 24);
    assert_eq!(offset_of!(Helpers, next_round), 32);
    assert_eq!(offset_of!(Helpers, nanoseconds), 40);
    assert_eq!(offset_of!(Helpers, allocate), 48);
    assert_eq!(offset_of!(Helpers, release), 56);
    assert_eq!(offset_of!(Helpers, check), 64);
    assert_eq!(offset_of!(Helpers, image), 72);
    assert_eq!(dynamic_shared_offset(17), 32);
}

#[test]
fn wait_records() {
    assert_eq!(offset_of!(Wait, kind), 0);
    assert_eq!(offset_of!(Wait, mask), 4);
    assert_eq!(offset_of!(Wait, value), 8);
    assert_eq!(offset_of!(Wait, argument), 16);
    assert_eq!(offset_of!(Wait, control), 20);
    assert_eq!(offset_of!(Wait, result), 24);
    assert_eq!(size_of::<Wait>(), 32);
    assert_eq!((WaitKind::Exited as u32, WaitKind::Barrier as u32, WaitKind::Yield as u32), (1, 2, 3));
    let late = [WaitKind::Tensor as u32, WaitKind::ClusterArrive as u32, WaitKind::ClusterWait as u32];
    assert_eq!(late, [24, 25, 26]);
}

#[test]
fn tables() {
    assert_eq!(offset_of!(KernelTable, kernels), 16);
    assert_eq!(offset_of!(KernelTable, variables), 24);
    assert_eq!(offset_of!(KernelTable, device_code), 32);
    assert_eq!(offset_of!(KernelTable, memory), 40);
    assert_eq!(offset_of!(KernelEntry, run_block), 8);
    assert_eq!(offset_of!(KernelEntry, params), 16);
    assert_eq!(offset_of!(KernelEntry, param_count), 24);
    assert_eq!(offset_of!(KernelEntry, mode), 28);
    assert_eq!(offset_of!(KernelEntry, static_shared_bytes), 32);
    assert_eq!(offset_of!(KernelEntry, flags), 36);
    assert_eq!(offset_of!(KernelEntry, threads_max), 40);
    assert_eq!(offset_of!(KernelEntry, cluster), 44);
    assert_eq!(offset_of!(VariableEntry, address), 8);
    assert_eq!(offset_of!(VariableEntry, bytes), 16);
    assert_eq!(offset_of!(MemoryRange, bytes), 8);
    assert_eq!(offset_of!(VariableMemory, zeroed), 16);
}
