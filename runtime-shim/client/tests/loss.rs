//! What a program does when its daemon is gone.

use eager_client::Client;
use eager_client::ledger::{Allocation, Backing, Origin};
use eager_client::loss::{Loss, OnLoss, Resumed, Standing};
use eager_units::DeviceId;
use std::time::Duration;

const NOW: Duration = Duration::ZERO;

fn loss(on_loss: OnLoss) -> Loss {
    Loss { on_loss, is_closed_at_start: false, connect_max: Duration::from_secs(10) }
}

#[test]
fn the_users_wish_for_a_loss_holds_once_a_task_was_bound() {
    let closed = Loss { is_closed_at_start: true, ..loss(OnLoss::Open) };
    assert_eq!((closed.standing(false), closed.standing(true)), (Standing::Closed, Standing::Plain));
    let closes = loss(OnLoss::Closed);
    assert_eq!((closes.standing(false), closes.standing(true)), (Standing::Plain, Standing::Closed));
}

#[test]
fn the_place_of_a_killed_daemon_is_looked_at_for_a_while_and_an_empty_place_only_on_demand() {
    let (open, waits) = (loss(OnLoss::Open), loss(OnLoss::Wait(Duration::from_secs(60))));
    let after =
        |loss: &Loss, resumed, s, was_bound| loss.looks_again(resumed, Duration::from_secs(s), was_bound);
    assert!(after(&open, Resumed::NotYet, 4, true) && !after(&open, Resumed::NotYet, 5, true));
    // As long as at its start.
    assert!(after(&open, Resumed::NotYet, 9, false) && !after(&open, Resumed::NotYet, 10, false));
    assert!(!after(&open, Resumed::Left, 0, true) && after(&waits, Resumed::Left, 59, true));
    assert!(!after(&waits, Resumed::NotYet, 60, true));
    for is_decided in [Resumed::Done, Resumed::Never] {
        assert!(!waits.looks_again(is_decided, NOW, true));
    }
}

#[test]
fn what_waits_for_memory_gets_it_without_a_daemon_and_what_is_gone_does_not() {
    let mut client: Client<DeviceId, ()> = Client::default();
    let owner = client.lazy();
    let mapped = |backing| Allocation::new(10, owner, None, Origin::Mapped { reserved: 10, backing });
    let [awaited, ..] = [Backing::Awaited, Backing::Present, Backing::Gone]
        .map(|backing| client.ledger.insert(mapped(backing)));
    assert_eq!(client.awaiting(), [(awaited, DeviceId::default())]);
}
