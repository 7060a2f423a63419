//! Requests of several threads for more memory of one task.

mod common;

use eager_client::cell::{Cell, State};
use eager_client::request::Request;
use eager_client::task::{Slot, TaskKey};
use eager_client::{Client, Extended, Extension};
use eager_units::{Bytes, DeviceId, Terms};

struct Program {
    client: Client<DeviceId, ()>,
    key: TaskKey,
    cell: Cell,
    sent: Vec<Request>,
}

impl Program {
    fn new() -> Program {
        let (client, key, cell) = common::bound(Terms { grant: Bytes(100), ..Terms::none(DeviceId(0)) });
        Program { client, key, cell, sent: Vec::new() }
    }

    fn extension(&self, bytes: u64) -> Extension {
        Extension::new(self.key, bytes)
    }

    fn extend(&mut self, extension: &mut Extension) -> Extended<DeviceId> {
        let sent = &mut self.sent;
        let mut out = |_: Slot, request: Request| {
            sent.push(request);
            sent.len() as u32 + 10
        };
        self.client.extend(extension, &self.cell, &mut out)
    }

    /// The daemon answers all requests.
    fn answer(&mut self, grant: u64, extend_refused: bool) {
        let terms = Terms { grant: Bytes(grant), ..Terms::none(DeviceId(0)) };
        let answered = self.sent.len() as u32 + 10;
        let state = State::Bound { terms, extend_refused };
        self.cell = Cell { sequence: self.cell.sequence + 2, answered, reason: 7, state };
    }
}

fn grant(extended: Extended<DeviceId>) -> u64 {
    match extended {
        Extended::Granted(told) => told.grant.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_extension_is_asked_for_once_and_answered_by_the_cell() {
    let mut program = Program::new();
    let (mut more, mut still_more) = (program.extension(20), program.extension(30));
    assert_eq!(program.extend(&mut more), Extended::Wait);
    assert_eq!(program.extend(&mut more), Extended::Wait, "not answered");
    assert_eq!(program.sent, [Request::Extend(20)]);
    program.answer(120, false);
    assert_eq!(grant(program.extend(&mut more)), 120);
    assert_eq!(program.extend(&mut still_more), Extended::Wait);
    program.answer(120, true);
    assert_eq!(program.extend(&mut still_more), Extended::Refused(7));
    assert_eq!(program.sent, [Request::Extend(20), Request::Extend(30)]);
}

#[test]
fn threads_ask_one_after_the_other_and_each_gets_its_own_answer() {
    let mut program = Program::new();
    let (mut one, mut other) = (program.extension(20), program.extension(30));
    assert_eq!(program.extend(&mut one), Extended::Wait);
    assert_eq!(program.extend(&mut other), Extended::Wait);
    assert_eq!(program.sent, [Request::Extend(20)], "the cell has one flag");
    program.answer(100, true);
    assert_eq!(program.extend(&mut other), Extended::Wait, "sees the other's answer, and asks");
    assert_eq!(program.sent, [Request::Extend(20), Request::Extend(30)]);
    program.answer(130, false);
    assert_eq!(program.extend(&mut one), Extended::Refused(7), "however late it looks");
    assert_eq!(grant(program.extend(&mut other)), 130);
}

#[test]
fn a_thread_that_never_looks_again_stops_no_other() {
    let mut program = Program::new();
    let (mut left, mut other) = (program.extension(20), program.extension(30));
    assert_eq!(program.extend(&mut left), Extended::Wait);
    program.answer(120, false);
    assert_eq!(program.extend(&mut other), Extended::Wait);
    program.answer(150, false);
    assert_eq!(grant(program.extend(&mut other)), 150);
}

#[test]
fn nothing_is_asked_for_a_task_that_is_over_since_its_slot_may_be_another_ones() {
    let mut program = Program::new();
    let mut more = program.extension(20);
    program.client.end(program.key, &mut |_: Slot, _: Request| 2);
    assert_eq!(program.extend(&mut more), Extended::Gone);
    assert_eq!(program.sent, []);
}
