//! What of a task's managed memory goes to the device: by copies, at new terms, and before kernels.

mod common;

use eager_client::buffers::Order;
use eager_client::cell::Told;
use eager_client::ledger::{Allocation, BufferId, Origin, Part};
use eager_client::request::Request;
use eager_client::spans::Span;
use eager_client::task::{Slot, TaskKey};
use eager_client::{Client, News, Occasion};
use eager_units::{Bytes, Class, DeviceId, Terms};

struct Program {
    client: Client<DeviceId, ()>,
    key: TaskKey,
}

fn terms(class: Class, grant: u64, managed: bool) -> Terms {
    Terms { class, grant: Bytes(grant), managed, ..Terms::none(DeviceId(0)) }
}

fn told(sequence: u32, terms: Terms) -> Told<DeviceId> {
    Told { sequence, reason: 0, extend_refused: false, terms }
}

impl Program {
    fn with(terms: Terms) -> Program {
        let (client, key, _) = common::bound(terms);
        Program { client, key }
    }

    fn malloc(&mut self, bytes: u64) -> BufferId {
        self.client.ledger.insert(Allocation::new(bytes, self.key, None, Origin::REWRITTEN))
    }

    fn has_room_for(&self, buffer: BufferId, bytes: u64) -> bool {
        self.client.has_room_for(part(buffer, 0, bytes))
    }

    fn fetch(&mut self, order: &Order<BufferId>, occasion: Occasion) -> Vec<Part> {
        self.client.plan_fetch(self.key, order, occasion)
    }
}

fn part(buffer: BufferId, start: u64, bytes: u64) -> Part {
    Part { buffer, span: Span { start, bytes } }
}

#[test]
fn a_copy_goes_to_the_device_where_the_task_is_known_to_have_room() {
    let mut eager = Program::with(terms(Class::Eager, 50, true));
    let (a, b) = (eager.malloc(60), eager.malloc(40));
    assert!(eager.has_room_for(a, 50) && !eager.has_room_for(a, 51));
    eager.client.ledger.moved_in(part(a, 0, 30));
    assert!(eager.has_room_for(b, 20) && !eager.has_room_for(b, 21), "beside what is there");
    let mut normal = Program::with(terms(Class::Normal, 50, true));
    let a = normal.malloc(60);
    assert!(normal.has_room_for(a, 60), "all that it has");
    let mut crowded = Program::with(terms(Class::Normal, 100, false));
    let a = crowded.malloc(60);
    assert!(!crowded.has_room_for(a, 1), "managed for want of room");
    crowded.client.end(crowded.key, &mut |_: Slot, _: Request| 2);
    assert!(!crowded.has_room_for(a, 0), "the task is over");
}

#[test]
fn older_terms_are_not_entered_and_only_more_memory_moves_data() {
    let mut program = Program::with(terms(Class::Eager, 50, true));
    let adopt = |program: &mut Program, sequence, terms| {
        program.client.adopt(program.key, told(sequence, terms), &mut |_, request| {
            assert_eq!(request, Request::Promoted);
            0
        })
    };
    assert_eq!(adopt(&mut program, 1, terms(Class::Eager, 90, true)), None, "older");
    assert_eq!(adopt(&mut program, 4, terms(Class::Eager, 40, true)), Some(News::Terms));
    assert_eq!(adopt(&mut program, 6, terms(Class::Eager, 60, true)), Some(News::Grant));
    assert_eq!(adopt(&mut program, 8, terms(Class::Promoted, 60, true)), Some(News::Promotion), "by freeing");
    assert_eq!(adopt(&mut program, 10, terms(Class::Promoted, 60, true)), Some(News::Terms));
}

#[test]
fn what_moves_in_follows_the_occasion_and_the_class() {
    let written = |program: &mut Program| {
        let (a, b) = (program.malloc(60), program.malloc(40));
        program.client.ledger.filled(part(a, 0, 20));
        (a, b)
    };
    let mut eager = Program::with(terms(Class::Eager, 90, true));
    let (a, b) = written(&mut eager);
    let sparse = Order { first: vec![], sparse: vec![a] };
    assert_eq!(eager.fetch(&sparse, Occasion::Filled), [], "left to faults");
    assert_eq!(eager.fetch(&Order::default(), Occasion::Grown), [part(a, 0, 20)]);
    let first = Order { first: vec![b], sparse: vec![] };
    assert_eq!(eager.fetch(&first, Occasion::Kernel), [part(b, 0, 40)], "the pages of what the kernel uses");
    assert!(eager.client.task(eager.key).expect("bound").lacks_pages, "there is room for more");

    let mut normal = Program::with(terms(Class::Normal, 100, true));
    let (a, b) = written(&mut normal);
    let sparse = Order { first: vec![], sparse: vec![a] };
    assert_eq!(normal.fetch(&sparse, Occasion::Filled), [part(a, 0, 20)], "moved in whole");
    let first = Order { first: vec![b], sparse: vec![] };
    assert_eq!(normal.fetch(&first, Occasion::TakenOver), [part(b, 0, 40)]);
    assert_eq!(normal.fetch(&Order::default(), Occasion::Kernel), [part(a, 20, 40)], "all pages");
    assert!(!normal.client.task(normal.key).expect("bound").lacks_pages);
}

#[test]
fn what_is_dead_is_not_moved_in_any_more() {
    let mut program = Program::with(terms(Class::Normal, 100, true));
    let (dead, live) = (program.malloc(60), program.malloc(40));
    program.client.ledger.filled(part(dead, 0, 20));
    program.client.ledger.declare_dead(dead);
    let order = Order { first: vec![dead], sparse: vec![] };
    assert_eq!(program.fetch(&order, Occasion::Kernel), [part(live, 0, 40)]);
}
