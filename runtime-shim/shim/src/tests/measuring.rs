//! Runs in which footprints are measured: what happens around each launch, and what does not fit.

use super::Bench;
use crate::config::OnLoss;
use crate::outcome::Outcome;
use crate::profile::Profile;
use crate::runtime::CudaError;

fn bench() -> Bench {
    let mut bench = Bench::with(false, OnLoss::Open, Profile::default());
    bench.own().measuring = Some(Default::default());
    bench
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
    let file = serde_json::to_value(bench.shim.measurement().expect("measuring").file()).expect("JSON");
    let kernel = &file["kernels"]["_Z1kPfS_i"];
    assert_eq!((&kernel["static_bytes"], &kernel["footprint_bytes"]), (&1000.into(), &300.into()));
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
    let file = serde_json::to_value(bench.shim.measurement().expect("measuring").file()).expect("JSON");
    assert_eq!(file["kernels"]["_Z1kPfS_i"]["footprint_bytes"], 6 << 20, "all buffers in whole units");
}

/// As NVIDIA's driver takes it: a first kernel would read as a piece, and the next ones as nothing.
#[test]
fn the_drivers_pieces_do_not_show() {
    const BLOCK: u64 = 2 << 20;
    let mut bench = bench();
    let buffer = bench.malloc(200 * BLOCK);
    bench.cuda.take_in_pieces(64 * BLOCK);
    // Of launches with the same buffers the profile has the largest footprint.
    for blocks in [0, 1, 21, 39, 63, 64, 65, 150] {
        bench.cuda.take_at_launch((blocks * BLOCK).cast_signed());
        assert_eq!(bench.launch(&[buffer]), Outcome::Handled(()));
        let file = serde_json::to_value(bench.shim.measurement().expect("measuring").file()).expect("JSON");
        assert_eq!(file["kernels"]["_Z1kPfS_i"]["footprint_bytes"], blocks * BLOCK, "{blocks} blocks");
    }
    assert!(bench.said.lock().is_empty(), "{:?}", bench.said.lock());
}

#[test]
fn pieces_that_are_too_large_to_tell_give_static_sizes() {
    let mut bench = bench();
    let buffer = bench.malloc(1000);
    bench.cuda.take_in_pieces(1 << 30);
    bench.cuda.take_at_launch(300);
    assert_eq!(bench.launch(&[buffer]), Outcome::Handled(()));
    let file = serde_json::to_value(bench.shim.measurement().expect("measuring").file()).expect("JSON");
    assert_eq!(file["kernels"]["_Z1kPfS_i"]["footprint_bytes"], 1000);
    assert!(bench.said.lock()[0].contains("too large pieces"), "{:?}", bench.said.lock());
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
    let said = bench.said.lock();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("another program uses it"), "{said:?}");
}

#[test]
fn what_is_measured_must_fit() {
    let mut bench = bench();
    let a = bench.malloc(1 << 39);
    assert_eq!(
        bench.shim.malloc(&mut bench.thread, (1 << 39) + 1),
        Outcome::Fail(CudaError::MEMORY_ALLOCATION)
    );
    assert!(bench.said.lock()[0].contains("footprints are measured of programs that fit"));
    bench.free(a);
    bench.malloc((1 << 39) + 1);
}
