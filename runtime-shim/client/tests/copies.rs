//! Who makes a copy, in which pieces, and which copies wait on the host.

mod common;

use eager_client::ledger::{Allocation, Backing, BufferId, Origin, Part};
use eager_client::spans::Span;
use eager_client::task::TaskKey;
use eager_client::{Client, Direction, KeptCopies, KeptCopy, Route};
use eager_units::{Bytes, Class, DeviceId, Habits, Terms};

const MAPPED: Origin = Origin::Mapped { reserved: 100, backing: Backing::Present };

/// A bound task with an allocation of 100 bytes, over-subscribed by a grant of 50.
fn over_subscribed(origin: Origin) -> (Client<DeviceId, ()>, Part) {
    let terms = Terms { class: Class::Eager, grant: Bytes(50), managed: true, ..Terms::none(DeviceId(3)) };
    let (mut client, key, _) = common::bound(terms);
    let buffer = client.ledger.insert(Allocation::new(100, key, None, origin));
    (client, part(buffer, 0, 100))
}

fn part(buffer: BufferId, start: u64, bytes: u64) -> Part {
    Part { buffer, span: Span { start, bytes } }
}

#[test]
fn the_cpu_writes_what_exceeds_the_grant_in_pieces_and_the_grants_worth_moves_in() {
    let (mut client, whole) = over_subscribed(Origin::REWRITTEN);
    let Route::Cpu(mut pieces) = client.route(Direction::ToDevice, Some(whole), None) else {
        panic!("not by the CPU");
    };
    assert!(pieces.is_new() && pieces.bound.is_some(), "the device may still use it");
    let mut moved = Vec::new();
    while let Some(piece) = pieces.next(40) {
        moved.push((piece.span.start, client.filled(piece)));
    }
    let expected =
        [(0, vec![part(whole.buffer, 0, 40)]), (40, vec![part(whole.buffer, 40, 10)]), (80, vec![])];
    assert_eq!(moved, expected);
    assert!(!pieces.is_new());
}

#[test]
fn the_device_takes_copies_that_fit_and_all_to_memory_that_is_not_managed() {
    let on_device = Route::Device(DeviceId(3));
    for (origin, bytes, fits) in [
        (Origin::REWRITTEN, 50, true),
        (Origin::REWRITTEN, 51, false),
        (Origin::Plain, 100, true),
        (MAPPED, 100, true),
    ] {
        let (mut client, Part { buffer, .. }) = over_subscribed(origin);
        let to = Some(part(buffer, 0, bytes));
        assert_eq!(
            client.route(Direction::Fill, to, None),
            on_device,
            "one value needs no data of the host's"
        );
        assert_eq!(client.route(Direction::ToHost, None, to), on_device);
        assert_eq!(
            client.route(Direction::ToDevice, to, None) == on_device,
            fits,
            "{bytes} bytes, {origin:?}"
        );
    }
}

#[test]
fn before_a_task_has_a_device_the_cpu_copies_unless_it_may_not_read_the_source() {
    let mut client: Client<DeviceId, ()> = Client::default();
    let owner = client.lazy();
    let [a, b] = [0, 1].map(|_| client.ledger.insert(Allocation::new(10, owner, None, Origin::REWRITTEN)));
    let [a, b] = [a, b].map(|buffer| Some(part(buffer, 0, 10)));
    let is_by_cpu = |route| matches!(route, Route::Cpu(pieces) if pieces.bound.is_none());
    assert!(is_by_cpu(client.route(Direction::ToDevice, a, None)));
    assert!(is_by_cpu(client.route(Direction::Fill, a, None)));
    assert!(is_by_cpu(client.route(Direction::OnDevice, a, b)));
    assert_eq!(client.route(Direction::ToHost, None, a), Route::CpuReads);
    assert_eq!(client.route(Direction::Unknown, a, None), Route::Elsewhere);
}

#[test]
fn the_ring_serves_memory_that_is_not_managed_where_the_policy_wants_it() {
    for (origin, uses) in [(Origin::Plain, true), (MAPPED, true), (Origin::REWRITTEN, false)] {
        let (mut client, whole) = over_subscribed(origin);
        assert!(!client.uses_ring(whole));
        client.habits = Habits { fast_copies: true, ..Habits::PLAIN };
        assert_eq!(client.uses_ring(whole), uses, "{origin:?}");
    }
}

#[test]
fn kept_copies_are_sent_in_the_programs_order_and_go_with_their_buffers() {
    let mut client: Client<DeviceId, ()> = Client::default();
    let owner = client.lazy();
    let other = TaskKey { generation: owner.generation + 1, ..owner };
    let mut malloc = |owner| client.ledger.insert(Allocation::new(10, owner, None, MAPPED));
    let (a, b, others) = (malloc(owner), malloc(owner), malloc(other));
    let mut kept = KeptCopies::default();
    for (copy, buffer) in [others, b, a, b].into_iter().enumerate() {
        kept.push(KeptCopy { buffer, bytes: 10, copy });
    }
    assert_eq!((kept.bytes(), kept.forget(a), kept.bytes()), (40, 10, 30));
    let first = kept.take_first_of(&client.ledger, owner).expect("kept");
    assert_eq!((first.buffer, first.copy), (b, 1));
    kept.put_back(first);
    let mut sent = || kept.take_first_of(&client.ledger, owner).map(|kept| kept.copy);
    assert_eq!([sent(), sent(), sent()], [Some(1), Some(3), None]);
    assert_eq!(kept.take_all().len(), 1, "the other task's");
}
