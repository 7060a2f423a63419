//! Runs that measure footprints: the steps around each launch, and programs that do not fit.

use super::Bench;
use crate::outcome::Outcome;
use crate::profile::Profile;
use crate::runtime::CudaError;
use crate::runtime::Span;
use eager_client::loss::OnLoss;

fn bench() -> Bench {
    let mut bench = Bench::with(false, OnLoss::Open, Profile::default());
    bench.own().measuring = Some(Default::default());
    bench
}

fn file(bench: &Bench) -> serde_json::Value {
    serde_json::to_value(bench.shim.measurement().expect("measuring").file()).expect("JSON")
}

#[test]
fn before_each_kernel_everything_is_on_the_host() {
    let mut bench = bench();
    let (a, b) = (bench.malloc(1000), bench.malloc(500));
    bench.cuda.log();
    bench.cuda.take_at_launch(300);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    let log = bench.cuda.log();
    let moved: Vec<&str> =
        log.iter().map(String::as_str).filter(|line| line.contains("to the host")).collect();
    assert_eq!(moved, ["to the host 1000", "to the host 500"]);
    let file = file(&bench);
    let kernel = &file["kernels"]["_Z1kPfS_i"];
    assert_eq!((&kernel["static_bytes"], &kernel["footprint_bytes"]), (&1000.into(), &300.into()));
    assert_eq!(file["measured_by"], "free-memory");
    bench.free(a);
    bench.free(b);
    assert_eq!(bench.cuda.live_bytes(), 0);
}

#[test]
fn what_a_first_launch_brings_along_is_no_footprint() {
    let mut bench = bench();
    let (a, _b) = (bench.malloc(1000), bench.malloc((2 << 20) + 1));
    bench.cuda.take_at_launch(100 << 20);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    let file = file(&bench);
    assert_eq!(file["kernels"]["_Z1kPfS_i"]["footprint_bytes"], 6 << 20, "all buffers in whole units");
}

/// Like NVIDIA's driver: memory that it took stays taken, so free memory never shows a second kernel.
#[test]
fn a_kernel_touched_the_blocks_whose_pages_left_the_host() {
    const BLOCK: u64 = 2 << 20;
    let mut bench = bench();
    bench.cuda.unmap_moved();
    bench.cuda.take_in_pieces(64 * BLOCK);
    let (large, small) = (bench.malloc(10 * BLOCK), bench.malloc(1000));
    let page = |offset| Span { start: large + offset, bytes: 1 };
    // Of launches with the same buffers the profile keeps the largest footprint.
    for (touched, bytes) in [
        (vec![], 0),
        (vec![Span { start: small, bytes: 1 }], 1000),
        (vec![page(BLOCK - 1)], BLOCK),
        (vec![page(BLOCK - 1), page(0), page(BLOCK)], 2 * BLOCK),
        (vec![Span { start: large, bytes: 10 * BLOCK }], 10 * BLOCK),
        (vec![Span { start: large, bytes: 10 * BLOCK }, Span { start: small, bytes: 1 }], 10 * BLOCK + 1000),
    ] {
        bench.cuda.touch_at_launch(&touched);
        assert_eq!(bench.launch(&[large]), Outcome::Handled(()));
        assert_eq!(file(&bench)["kernels"]["_Z1kPfS_i"]["footprint_bytes"], bytes, "{touched:?}");
    }
    assert_eq!(file(&bench)["measured_by"], "pages");
    assert!(bench.reported.lock().is_empty(), "{:?}", bench.reported.lock());
}

/// Like a virtual GPU.
#[test]
fn pages_of_which_all_are_unmapped_tell_nothing() {
    let mut bench = bench();
    bench.cuda.unmap_everything();
    let a = bench.malloc(1000);
    bench.cuda.take_at_launch(300);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(file(&bench)["measured_by"], "free-memory");
    assert_eq!(file(&bench)["kernels"]["_Z1kPfS_i"]["footprint_bytes"], 300);
}

/// Pages stay mapped, and memory stays taken.
#[test]
fn a_device_that_tells_nothing_gives_static_sizes_and_one_line() {
    let mut bench = bench();
    bench.cuda.keep_moved();
    let a = bench.malloc(1000);
    bench.cuda.take_at_launch(300);
    for _ in 0..2 {
        assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    }
    let file = file(&bench);
    assert_eq!(file["measured_by"], "none");
    assert_eq!(file["kernels"]["_Z1kPfS_i"]["footprint_bytes"], 1000);
    let reported = bench.reported.lock();
    assert!(reported.len() == 1 && reported[0].contains("footprints are static sizes"), "{reported:?}");
}

#[test]
fn small_buffers_have_blocks_of_their_own_while_there_is_room() {
    const BLOCK: u64 = 2 << 20;
    let (room, padding, filler) = (1 << 40, 1 << 34, 160 * BLOCK);
    let mut by_free_memory = bench();
    by_free_memory.malloc(1000);
    assert_eq!(by_free_memory.cuda.live_bytes(), 1000, "where pages tell nothing there is no need");
    let mut bench = bench();
    bench.cuda.unmap_moved();
    let small = bench.malloc(1000);
    assert_eq!(bench.cuda.live_bytes(), BLOCK);
    assert_eq!(bench.shim.measurement().expect("measuring").find(small + 1000), None);
    // The largest allocation that still fits.
    let large = bench.malloc(room - padding - filler - BLOCK);
    let count = padding / BLOCK + 10;
    for _ in 0..count {
        bench.malloc(1);
    }
    let stands_behind = bench.shim.measurement().expect("measuring").padding();
    assert!((padding - 2 * BLOCK..=padding).contains(&stands_behind), "{stands_behind}");
    bench.free(large);
}

#[test]
fn advice_of_the_program_is_not_followed() {
    let mut bench = bench();
    let followed = || Outcome::PassThrough(crate::outcome::Why::AsItIs);
    assert_eq!(bench.shim.advised(followed()), Outcome::Handled(()));
    bench.own().measuring = None;
    assert_eq!(bench.shim.advised(followed()), followed());
}

/// Like a driver that takes pieces and frees them again: the first kernel would appear to take a piece, and the next
/// ones nothing.
#[test]
fn the_drivers_pieces_do_not_show() {
    const BLOCK: u64 = 2 << 20;
    let mut bench = bench();
    let buffer = bench.malloc(200 * BLOCK);
    bench.cuda.take_in_pieces(64 * BLOCK);
    // Of launches with the same buffers the profile keeps the largest footprint.
    for blocks in [0, 1, 21, 39, 63, 64, 65, 150] {
        bench.cuda.take_at_launch((blocks * BLOCK).cast_signed());
        assert_eq!(bench.launch(&[buffer]), Outcome::Handled(()));
        let file = file(&bench);
        assert_eq!(file["kernels"]["_Z1kPfS_i"]["footprint_bytes"], blocks * BLOCK, "{blocks} blocks");
    }
    assert!(bench.reported.lock().is_empty(), "{:?}", bench.reported.lock());
}

#[test]
fn pieces_that_are_too_large_to_tell_give_static_sizes() {
    let mut bench = bench();
    let buffer = bench.malloc(1000);
    bench.cuda.take_in_pieces(1 << 30);
    bench.cuda.take_at_launch(300);
    assert_eq!(bench.launch(&[buffer]), Outcome::Handled(()));
    let file = file(&bench);
    assert_eq!(file["kernels"]["_Z1kPfS_i"]["footprint_bytes"], 1000);
    assert!(bench.reported.lock()[0].contains("footprints are static sizes"), "{:?}", bench.reported.lock());
}

#[test]
fn a_device_that_is_not_ones_own_is_said_once() {
    let mut bench = bench();
    let a = bench.malloc(1000);
    bench.cuda.set_hidden(1000);
    for taken in [0, -300, -500] {
        bench.cuda.take_at_launch(taken);
        assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    }
    let reported = bench.reported.lock();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("another program uses it"), "{reported:?}");
}

#[test]
fn what_is_measured_must_fit() {
    let mut bench = bench();
    let a = bench.malloc(1 << 39);
    assert_eq!(
        bench.shim.malloc(&mut bench.thread, (1 << 39) + 1),
        Outcome::Fail(CudaError::MEMORY_ALLOCATION)
    );
    assert!(bench.reported.lock()[0].contains("footprints can be measured only for programs that fit"));
    bench.free(a);
    bench.malloc((1 << 39) + 1);
}
