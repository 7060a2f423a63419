//! Buffers that the compiler shows to be dead: a use after all is said once and harms nothing.

use super::*;

fn said_of_dead(bench: &Bench) -> usize {
    bench.said.lock().iter().filter(|line| line.contains("shown to be dead")).count()
}

#[test]
fn a_dead_buffer_that_nobody_uses_is_freed_like_any_other() {
    let mut bench = Bench::new();
    bench.begin(SITE, 100);
    let (dead, other) = (bench.malloc(40), bench.malloc(60));
    bench.dead(dead);
    let _ = bench.launch(&[other]);
    bench.free(dead);
    bench.free(other);
    bench.end(SITE);
    assert_eq!(said_of_dead(&bench), 0);
}

#[test]
fn uses_of_a_dead_buffer_are_said_once_and_still_work() {
    let mut bench = Bench::new();
    bench.begin(SITE, 100);
    let buffer = bench.malloc(40);
    bench.dead(buffer);
    // Twice, and what is no buffer, means nothing.
    bench.dead(buffer);
    bench.dead(0);
    bench.dead(buffer + 8);
    assert_eq!(bench.launch(&[buffer + 8]), crate::outcome::Outcome::Handled(()));
    let copy = Copy {
        dst: 16,
        src: buffer,
        bytes: 8,
        rows: Rows::ONE,
        kind: CopyKind::DEVICE_TO_HOST,
        order: Order::Blocking,
    };
    let _ = bench.shim.copy(&mut bench.thread, &copy);
    assert_eq!(said_of_dead(&bench), 1);
}

#[test]
fn an_address_that_is_allocated_again_is_a_new_buffer() {
    let mut bench = Bench::new();
    bench.begin(SITE, 100);
    let first = bench.malloc(40);
    bench.dead(first);
    bench.free(first);
    let mut state = bench.shim.state.lock();
    let owner = state.lazy();
    state.ledger.insert(
        crate::runtime::Span { start: first, bytes: 40 },
        owner,
        None,
        crate::ledger::Origin::Plain,
    );
    assert!(state.ledger.dead_among(&[first]).is_empty());
}
