//! A program with one bound task, where a test needs no more of its life.

use eager_client::Client;
use eager_client::account::Requirement;
use eager_client::cell::{Cell, State};
use eager_client::request::Request;
use eager_client::sites::{Beginning, Begun, Sites};
use eager_client::task::{Geometry, Slot, TaskKey};
use eager_units::{DeviceId, Terms};

/// A client with a task of 100 bytes that was bound with these terms, and the cell that showed them.
pub fn bound<W: Default>(terms: Terms) -> (Client<DeviceId, W>, TaskKey, Cell) {
    let requirement = Requirement { bytes: 100, live_bytes: 100 };
    let beginning =
        Beginning { site: 1, requirement, geometry: Geometry::UNKNOWN, reuses: false, by_name: None };
    let (mut client, mut sites) = (Client::default(), Sites::default());
    let mut out = |_: Slot, _: Request| 1;
    let begun = client.begin(&mut sites, &beginning, |_| false, |_, _| true, &mut out);
    let Begun::Asked(key) = begun else { panic!("{begun:?}") };
    let state = State::Bound { terms, extend_refused: false };
    let cell = Cell { sequence: 2, answered: 1, reason: 0, state };
    client.look(key, &cell, &mut out);
    (client, key, cell)
}
