//! Which programs are asked to take memory by name, depending on the programs that are connected (specification S-326).

use eager_core::event::Event;
use eager_core::journal::JournalHeader;
use eager_core::{Options, PolicyName, Scheduler};
use eager_units::{ClientId, Nanos};

const HOUR: u64 = 3600;

fn by_name(scheduler: &Scheduler) -> bool {
    scheduler.habits_of_newcomer(true).comes_by_name()
}

fn step(scheduler: &mut Scheduler, second: u64, event: Event) {
    scheduler.step(Nanos::from_secs(second), event, &mut Vec::new());
}

fn comes(client: u64, informed: bool) -> Event {
    Event::ClientConnected {
        client: ClientId(client),
        uid: 1000,
        label: "x".into(),
        informed,
        same_process: None,
        nice: 0,
    }
}

fn goes(client: u64) -> Event {
    Event::ClientGone { client: ClientId(client) }
}

#[test]
fn an_uninformed_program_keeps_memory_by_name_from_newcomers_until_an_hour_after_its_end() {
    let mut scheduler = Scheduler::new(PolicyName::EagerFair, Options::default());
    assert!(by_name(&scheduler), "nobody is there");
    step(&mut scheduler, 1, comes(1, true));
    assert!(by_name(&scheduler), "only informed programs");
    step(&mut scheduler, 2, comes(2, false));
    assert!(!by_name(&scheduler), "an uninformed one is there");
    assert!(scheduler.habits_of_newcomer(true).release_dead, "dead memory is given back all the same");
    step(&mut scheduler, 10 * HOUR, comes(3, true));
    assert!(!by_name(&scheduler), "it is still there");
    step(&mut scheduler, 10 * HOUR + 1, goes(2));
    step(&mut scheduler, 11 * HOUR, goes(3));
    assert!(!by_name(&scheduler), "it was there within the hour");
    step(&mut scheduler, 11 * HOUR + 2, comes(4, true));
    assert!(by_name(&scheduler), "it is forgotten");
}

#[test]
fn another_policy_and_an_image_keep_what_was_there() {
    let mut scheduler = Scheduler::new(PolicyName::EagerFair, Options::default());
    step(&mut scheduler, 1, comes(1, false));
    step(&mut scheduler, 2, goes(1));
    let image = JournalHeader::of(&scheduler).image.expect("something happened");
    let raised = Scheduler::from_image(PolicyName::EagerFair, Options::default(), *image).expect("an image");
    assert!(!by_name(&raised));
}

#[test]
fn programs_of_which_nothing_is_known_are_never_asked_for_it() {
    for policy in PolicyName::ALL {
        let scheduler = Scheduler::new(policy, Options::default());
        assert!(!scheduler.habits_of_newcomer(false).comes_by_name(), "{policy}");
    }
}
