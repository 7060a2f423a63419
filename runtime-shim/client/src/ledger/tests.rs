//! The ledger's own tests: those that count how many allocations it visits.

use super::*;
use eager_proto::request::Slot;

fn owner() -> TaskKey {
    TaskKey { slot: Slot::FIRST, generation: 1 }
}

fn managed(ledger: &mut Ledger, bytes: u64) -> BufferId {
    ledger.insert(Allocation::new(bytes, owner(), None, Origin::REWRITTEN))
}

fn part(buffer: BufferId, start: u64, bytes: u64) -> Part {
    Part { buffer, span: Span { start, bytes } }
}

fn fetch(ledger: &mut Ledger, grant: u64, first: &[BufferId]) -> Vec<Part> {
    ledger.plan_fetch(owner(), grant, first, &[], Unwritten::Nothing)
}

#[test]
fn fetches_within_the_grant_and_the_rest_when_it_grows() {
    let mut ledger = Ledger::default();
    let (a, b) = (managed(&mut ledger, 100), managed(&mut ledger, 50));
    ledger.filled(part(a, 0, 100));
    ledger.filled(part(b, 0, 50));
    assert_eq!(fetch(&mut ledger, 80, &[b]), [part(b, 0, 50), part(a, 0, 30)]);
    assert_eq!(fetch(&mut ledger, 80, &[]), [], "the grant is used up");
    assert_eq!(fetch(&mut ledger, 150, &[]), [part(a, 30, 70)]);
    ledger.filled(part(a, 0, 10));
    assert_eq!(fetch(&mut ledger, 150, &[]), [part(a, 0, 10)], "written again, fetched again");
}

#[test]
fn buffers_move_in_in_the_order_of_their_allocation_wherever_they_are_kept() {
    let mut ledger = Ledger::default();
    let [a, b, c] = [(); 3].map(|()| managed(&mut ledger, 10));
    ledger.remove(a).expect("a");
    let taken = ledger.remove(b).expect("b");
    let d = managed(&mut ledger, 10);
    let b = ledger.restore(taken);
    [b, c, d].into_iter().for_each(|id| ledger.filled(part(id, 0, 10)));
    let plan = fetch(&mut ledger, 30, &[c]);
    assert_eq!(plan.into_iter().map(|part| part.buffer).collect::<Vec<_>>(), [c, b, d]);
}

#[test]
fn memory_that_is_away_lacks_no_pages() {
    let mut ledger = Ledger::default();
    let buffer = managed(&mut ledger, 10);
    for (is_away, lacks_pages) in [(false, true), (true, false), (false, true)] {
        ledger.set_away(buffer, is_away);
        assert_eq!(ledger.lacks_pages(owner(), 5), lacks_pages);
        let plan = ledger.clone().plan_fetch(owner(), 5, &[], &[], Unwritten::All);
        assert_eq!(plan.is_empty(), is_away, "nothing of it is moved in");
    }
}

#[test]
fn the_id_of_a_freed_buffer_names_nothing_although_its_slot_is_used_again() {
    let mut ledger = Ledger::default();
    let old = managed(&mut ledger, 10);
    ledger.remove(old).expect("live");
    let new = managed(&mut ledger, 20);
    assert_eq!(new.index(), old.index());
    assert!(ledger.get(old).is_none() && ledger.remove(old).is_none());
    ledger.clear();
    let newest = managed(&mut ledger, 30);
    assert_eq!((ledger.get(new), ledger.get(newest).map(|found| found.bytes)), (None, Some(30)));
}

/// The same few calls on a ledger with a task of `many` buffers, all of which have data on the host; returns how many
/// buffers they visit.
fn visits_beside(many: usize) -> u64 {
    let mut ledger = Ledger::default();
    let buffers: Vec<BufferId> = (0..many).map(|_| managed(&mut ledger, 10)).collect();
    buffers.iter().for_each(|id| ledger.filled(part(*id, 0, 5)));
    let before = ledger.visits.get();
    let (one, other) = (buffers[many - 1], buffers[many - 2]);
    // The grant has room for three buffers' data: one that the launch names, and the first two.
    assert_eq!(fetch(&mut ledger, 15, &[one]).len(), 3);
    assert_eq!(fetch(&mut ledger, 15, &[one]), []);
    assert!(!ledger.lacks_pages(owner(), 15) && ledger.lacks_pages(owner(), 16));
    assert!(ledger.fits(owner(), part(other, 0, 1), 16) && !ledger.fits(owner(), part(other, 0, 2), 16));
    ledger.moved_in(part(other, 0, 1));
    ledger.filled(part(other, 0, 1));
    let unwritten = ledger.plan_fetch(owner(), 22, &[], &[other], Unwritten::All);
    assert_eq!(unwritten, [part(buffers[2], 0, 5), part(buffers[3], 0, 2)]);
    assert_eq!((ledger.waste_of(owner()), ledger.bytes_of(owner())), (0, 10 * many as u64));
    let another = TaskKey { generation: 2, ..owner() };
    ledger.hand_over(one, another);
    assert_eq!(ledger.of_task(another).count(), 1);
    let taken = ledger.remove(other).expect("live");
    ledger.restore(taken);
    ledger.visits.get() - before
}

#[test]
fn a_call_visits_as_few_buffers_among_100_000_as_among_10() {
    assert_eq!(visits_beside(100_000), visits_beside(10));
}

/// A plan visits what it moves in, what the call names, and nothing else.
#[test]
fn a_plan_visits_no_more_buffers_than_it_moves_in() {
    let mut ledger = Ledger::default();
    let buffers: Vec<BufferId> = (0..100_000).map(|_| managed(&mut ledger, 10)).collect();
    buffers.iter().step_by(1000).for_each(|id| ledger.filled(part(*id, 0, 10)));
    let before = ledger.visits.get();
    let plan = ledger.plan_fetch(owner(), u64::MAX, &[], &[], Unwritten::Nothing);
    assert_eq!((plan.len(), ledger.visits.get() - before), (100, 100));
}
