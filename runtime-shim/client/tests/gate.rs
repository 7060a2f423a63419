//! What a program tells of its kernels: which of them the gate holds, and whether any are running.

mod common;

use eager_client::cell::{Cell, gate};
use eager_client::request::{Kernel, Request};
use eager_client::task::{Slot, TaskKey};
use eager_client::{AtGate, Client};
use eager_units::{AccessClass, Bytes, DeviceId, Terms};
use std::cell::RefCell;

struct Program {
    client: Client<DeviceId, bool>,
    sent: RefCell<Vec<Request>>,
}

impl Program {
    /// A program with a bound task that has these terms.
    fn with_task(watched: bool, gated: bool) -> (Program, TaskKey, Cell) {
        let terms = Terms { grant: Bytes(100), watched, gated, ..Terms::none(DeviceId(0)) };
        let (client, key, cell) = common::bound(terms);
        let program = Program { client, sent: RefCell::default() };
        (program, key, cell)
    }

    /// `allowed`: what the gate admits, in KiB.
    fn passes(&mut self, key: TaskKey, at_gate: &mut AtGate, cell: &Cell, allowed: u64) -> bool {
        self.passes_word(key, at_gate, cell, gate::pack(true, 1, allowed << 10))
    }

    fn passes_word(&mut self, key: TaskKey, at_gate: &mut AtGate, cell: &Cell, word: u64) -> bool {
        let sent = &self.sent;
        let mut out = |_: Slot, request: Request| {
            sent.borrow_mut().push(request);
            7
        };
        self.client.pass_gate(key, at_gate, cell, word, &mut out)
    }

    fn tell(&mut self, is_sent: bool) -> Vec<Request> {
        self.client.tell_activity(
            |is_busy| *is_busy,
            |_, request| {
                self.sent.borrow_mut().push(request);
                is_sent
            },
        );
        self.sent.take()
    }
}

/// `kib`: its footprint.
fn kernel(kib: u64, access: AccessClass) -> Kernel {
    Kernel { footprint: kib << 10, static_size: 100, access }
}

#[test]
fn a_gate_holds_what_is_too_large_until_the_daemon_has_answered_for_this_kernel() {
    let (mut program, key, cell) = Program::with_task(false, true);
    let held = kernel(60, AccessClass::Unknown);
    let mut at_gate = AtGate::new(held);
    assert!(program.passes(key, &mut AtGate::new(kernel(50, AccessClass::Unknown)), &cell, 50));
    assert_eq!(program.sent.take(), []);
    assert!(!program.passes(key, &mut at_gate, &cell, 50));
    assert_eq!(program.sent.take(), [Request::Held(held)]);
    assert!(!program.passes(key, &mut at_gate, &cell, 60), "opened before the daemon knew of it");
    let answered = Cell { answered: 7, ..cell };
    assert!(!program.passes(key, &mut at_gate, &answered, 59));
    assert!(program.passes(key, &mut at_gate, &answered, 60));
    assert_eq!(program.sent.take(), [], "told once");
}

#[test]
fn a_program_that_slept_while_its_gate_was_open_tells_of_its_kernel_again() {
    let (mut program, key, cell) = Program::with_task(false, true);
    let held = kernel(60, AccessClass::Unknown);
    let mut at_gate = AtGate::new(held);
    let closed = |epoch| gate::pack(false, epoch, 0);
    let answered = Cell { answered: 7, ..cell };
    assert!(!program.passes_word(key, &mut at_gate, &cell, closed(0x7fff)));
    assert_eq!(program.sent.take(), [Request::Held(held)]);
    assert!(!program.passes_word(key, &mut at_gate, &answered, closed(0x7fff)));
    assert_eq!(program.sent.take(), [], "it was not open meanwhile");
    // The gate opened and closed while the program was stopped; epochs wrap at 15 bits.
    assert!(!program.passes_word(key, &mut at_gate, &answered, closed(1)));
    assert_eq!(program.sent.take(), [Request::Held(held)]);
    assert!(!program.passes_word(key, &mut at_gate, &answered, closed(1)));
    assert_eq!(program.sent.take(), [], "told once each time");
    assert!(program.passes_word(key, &mut at_gate, &answered, gate::pack(true, 2, u64::MAX)));
}

#[test]
fn a_gate_opened_for_a_streaming_kernel_says_nothing_of_a_cyclic_one() {
    let (mut program, key, cell) = Program::with_task(false, true);
    assert!(!program.passes(key, &mut AtGate::new(kernel(60, AccessClass::OnePass)), &cell, 0));
    program.sent.take();
    assert!(program.passes(key, &mut AtGate::new(kernel(60, AccessClass::Sparse)), &cell, 60));
    assert!(!program.passes(key, &mut AtGate::new(kernel(60, AccessClass::Cyclic)), &cell, 60));
    assert_eq!(program.sent.take(), [Request::Held(kernel(60, AccessClass::Cyclic))]);
    assert!(program.passes(key, &mut AtGate::new(kernel(60, AccessClass::Cyclic)), &cell, 60));
    assert_eq!(program.sent.take(), [], "it is for cyclic ones now");
}

#[test]
fn a_task_without_a_gate_and_a_task_that_is_over_hold_nothing() {
    let (mut program, key, cell) = Program::with_task(false, false);
    assert!(program.passes(key, &mut AtGate::new(kernel(60, AccessClass::Unknown)), &cell, 0));
    let (mut program, key, cell) = Program::with_task(false, true);
    program.client.end(key, &mut |_: Slot, _: Request| 2);
    assert!(program.passes(key, &mut AtGate::new(kernel(60, AccessClass::Unknown)), &cell, 0));
}

#[test]
fn the_daemon_is_told_of_each_change_while_it_watches_and_again_what_did_not_reach_it() {
    let (mut program, key, _) = Program::with_task(true, false);
    assert_eq!(program.tell(true), [Request::Idle]);
    assert_eq!(program.tell(true), []);
    let set = |program: &mut Program, watched: bool, is_busy: bool| {
        let task = program.client.task_mut(key).expect("bound");
        (task.terms.terms.watched, task.own) = (watched, is_busy);
    };
    set(&mut program, true, true);
    assert_eq!(program.tell(false), [Request::Busy]);
    assert_eq!(program.tell(true), [Request::Busy], "it was not sent");
    assert_eq!(program.tell(true), []);
    set(&mut program, false, false);
    assert_eq!(program.tell(true), [], "nobody watches");
    set(&mut program, true, true);
    assert_eq!(program.tell(true), [Request::Busy], "watched anew");
}
