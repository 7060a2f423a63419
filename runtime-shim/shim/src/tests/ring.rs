//! Copies of pageable memory through the pinned ring: which copies, in what steps, and with what result after
//! failures.

use super::fakes::Habits;
use super::fakes::PINNED;
use super::{Bench, HOST, SITE};
use crate::outcome::Outcome;
use crate::runtime::{Copy, CopyKind, CudaError, Order, Rows, StreamId};

/// Bytes of each place of the bench's ring.
const PLACE: u64 = 256 << 10;

fn bench() -> Bench {
    let mut bench = Bench::with_habits(Habits { fast_copies: true, ..Habits::default() });
    bench.begin(SITE, 1 << 30);
    bench
}

fn with_buffer(bytes: u64) -> (Bench, u64) {
    let mut bench = bench();
    let buffer = bench.malloc(bytes);
    bench.cuda.log();
    (bench, buffer)
}

fn copies(log: &[String]) -> Vec<&str> {
    log.iter().map(String::as_str).filter(|line| line.contains("copy") || line.contains("pinned")).collect()
}

#[test]
fn an_upload_fills_a_place_before_each_piece_goes_and_waits_for_all_at_the_end() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    assert_eq!(bench.upload(buffer, PLACE + 100), Outcome::Handled(()));
    let (pinned, piece) = (format!("pinned {}", 4 * PLACE), format!("copy {PLACE} kind 1 on stream 0"));
    let filled = format!("host copy {PLACE}");
    let expected: Vec<&str> = vec![
        &pinned,
        // Earlier work of the stream, which may have written the source.
        "event sync",
        &filled,
        &piece,
        "host copy 100",
        "copy 100 kind 1 on stream 0",
        "event sync",
        "event sync",
    ];
    assert_eq!(bench.cuda.log(), expected);
    assert_eq!(bench.upload(buffer, PLACE), Outcome::Handled(()));
    assert!(!bench.cuda.log().iter().any(|line| line.contains("pinned")), "the ring is there");
}

#[test]
fn the_ring_is_got_when_enough_was_copied_without() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    bench.own().config.ring.after = 2 * PLACE;
    let mut ways = Vec::new();
    for _ in 0..4 {
        assert_eq!(bench.upload(buffer, PLACE), Outcome::Handled(()));
        ways.push(bench.cuda.log().iter().any(|line| line.starts_with("host copy")));
    }
    assert_eq!(ways, [false, false, true, true]);
}

#[test]
fn a_place_is_filled_again_only_when_its_piece_is_there() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    assert_eq!(bench.upload(buffer, 6 * PLACE), Outcome::Handled(()));
    let log = bench.cuda.log();
    let waits = |until: usize| log[..until].iter().filter(|line| *line == "event sync").count();
    let fills: Vec<usize> = (0..log.len()).filter(|&at| log[at].starts_with("host copy")).collect();
    assert_eq!(fills.iter().map(|&at| waits(at)).collect::<Vec<_>>(), [1, 1, 1, 1, 2, 3]);
    assert_eq!(waits(log.len()), 7);
}

#[test]
fn a_download_reaches_the_program_piece_by_piece() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    assert_eq!(bench.download(buffer, PLACE + 100), Outcome::Handled(()));
    let log = bench.cuda.log();
    let (piece, out) = (format!("copy {PLACE} kind 2 on stream 0"), format!("host copy {PLACE}"));
    assert_eq!(copies(&log)[1..], [piece.as_str(), "copy 100 kind 2 on stream 0", &out, "host copy 100"]);
}

/// A copy from the host that is as large as a place of the ring.
fn one_place(buffer: u64) -> Copy {
    Copy {
        dst: buffer,
        src: HOST,
        bytes: PLACE,
        rows: Rows::ONE,
        kind: CopyKind::HOST_TO_DEVICE,
        order: Order::Blocking,
    }
}

#[test]
fn other_copies_go_as_they_came() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    let copy = one_place(buffer);
    let rows = Rows { count: 2, dst_pitch: PLACE, src_pitch: PLACE };
    for other in [
        Copy { bytes: 64 << 10, ..copy },
        Copy { src: PINNED + 64, ..copy },
        Copy { rows, ..copy },
        Copy { order: Order::On(StreamId(0x77)), ..copy },
        Copy { kind: CopyKind::DEFAULT, ..copy },
    ] {
        let _ = bench.shim.copy(&mut bench.thread, &other);
        assert!(!bench.cuda.log().iter().any(|line| line.contains("pinned")), "{other:?}");
    }
    let mut without = Bench::new();
    without.begin(SITE, 1 << 30);
    let buffer = without.malloc(8 * PLACE);
    let _ = without.upload(buffer, PLACE);
    let plain = format!("copy {PLACE} kind 1");
    assert_eq!(copies(&without.cuda.log()), [plain.as_str()], "the policy does not want it");
}

#[test]
fn managed_memory_is_not_copied_through_the_ring() {
    let (mut bench, _) = with_buffer(PLACE);
    bench.cuda.fill_up();
    let managed = bench.malloc(8 * PLACE);
    bench.cuda.log();
    let _ = bench.download(managed, PLACE);
    assert!(!bench.cuda.log().iter().any(|line| line.contains("pinned")));
}

#[test]
fn a_host_without_memory_to_lock_is_asked_once() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    bench.cuda.lack_pinned();
    let (asked, plain) = (format!("pinned {}", 4 * PLACE), format!("copy {PLACE} kind 1"));
    assert_eq!(bench.upload(buffer, PLACE), Outcome::Handled(()));
    assert_eq!(copies(&bench.cuda.log()), [&asked, &plain]);
    assert_eq!(bench.upload(buffer, PLACE), Outcome::Handled(()));
    assert_eq!(copies(&bench.cuda.log()), [&plain]);
}

#[test]
fn a_copy_that_fails_says_so_and_leaves_the_ring_free() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    bench.cuda.fail_copies(true);
    assert_eq!(bench.upload(buffer, 3 * PLACE), Outcome::Fail(CudaError::INVALID_VALUE));
    bench.cuda.fail_copies(false);
    assert_eq!(bench.upload(buffer, 3 * PLACE), Outcome::Handled(()));
}

#[test]
fn a_reset_of_the_device_gives_the_ring_back() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    let _ = bench.upload(buffer, PLACE);
    bench.cuda.log();
    assert_eq!(bench.shim.device_reset(&mut bench.thread), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["device sync", "free pinned", "device reset"]);
}

#[test]
fn nothing_goes_through_a_ring_while_a_graph_is_recorded() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    bench.shim.state.lock().captures.insert(StreamId(0x77));
    let _ = bench.upload(buffer, PLACE);
    assert!(!bench.cuda.log().iter().any(|line| line.contains("pinned")));
}

#[test]
fn a_second_thread_does_not_wait_for_the_ring() {
    let (mut bench, buffer) = with_buffer(8 * PLACE);
    let plain = format!("copy {PLACE} kind 1");
    let shim = &bench.shim;
    let held = shim.ring.lock();
    let copy = one_place(buffer);
    assert_eq!(shim.copy(&mut bench.thread, &copy), Outcome::Handled(()));
    drop(held);
    assert_eq!(copies(&bench.cuda.log()), [plain.as_str()]);
}
