//! Entry points for fuzzers (`scheduler/fuzz`): feed untrusted bytes to the parts that take them, and check what must
//! hold after.
//!
//! Trap: a panic here stands for a daemon that dies. The daemon itself may call nothing of this module.

use crate::clients::slots::{TaskSlot, TaskSlots};
use crate::persistence::state_file;
use crate::settings::file;
use eager_core::action::Action;
use eager_core::event::{DeviceProfile, Event};
use eager_core::{Options, PolicyName, Scheduler, invariants};
use eager_proto::RING_SLOTS;
use eager_proto::request::{Request, Slot, decode};
use eager_shm::daemon::ClientPages;
use eager_units::{Bytes, ClientId, DeviceId, Nanos, TaskId};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const CLIENT: ClientId = ClientId(1);
const POLICIES: [PolicyName; 4] =
    [PolicyName::Case, PolicyName::EagerOpt, PolicyName::EagerLive, PolicyName::Quanta];

/// Reads a settings file: either a one-line error, or settings whose printed form reads back as the same settings.
pub fn settings(text: &str) {
    match file::read(Path::new("eagerd.toml"), text) {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error:?}"),
        Ok(settings) => {
            let shown = toml::to_string(&settings).expect("settings as TOML");
            let again = file::read(Path::new("shown"), &shown).expect("shown settings are settings");
            assert_eq!(again, settings, "{shown}");
        }
    }
}

/// Feeds a state file to a core, as after a restart.
pub fn state(bytes: &[u8]) {
    let (kept, _) = state_file::load(bytes);
    let mut harness = Harness::new(PolicyName::EagerOpt);
    let mut tasks = Vec::new();
    let contexts = kept.contexts().collect();
    for (id, client) in kept.clients {
        harness.step(Event::ClientConnected {
            client: ClientId(id),
            uid: client.uid,
            label: client.label,
            informed: false,
            same_process: None,
            nice: 0,
        });
        for (index, slot) in client.slots {
            let restored = TaskSlot::restored(&slot);
            assert_eq!(restored.task.is_some(), slot.task.is_some());
            // A slot that this build does not have is skipped, as the daemon does.
            tasks.extend(Slot::new(usize::from(index)).and(slot.task));
        }
    }
    harness.step(Event::Restored { tasks, contexts });
}

/// Writes a client's request page as the bytes direct, and serves it as the daemon does.
///
/// The first byte chooses the policy. Pieces follow: two bytes of offset, one of length, and the bytes to write there;
/// after each piece the ring is emptied as far as it goes.
pub fn pages(bytes: &[u8]) {
    let Some((&first, mut rest)) = bytes.split_first() else { return };
    let (mut pages, descriptors) = ClientPages::create().expect("pages");
    let file = File::from(descriptors.requests);
    let mut harness = Harness::new(POLICIES[usize::from(first) % POLICIES.len()]);
    while let Some(([low, high, length], after)) = rest.split_first_chunk::<3>() {
        let (piece, after) = after.split_at(after.len().min(usize::from(*length)));
        let place = u64::from(u16::from_le_bytes([*low, *high]));
        let size = file.metadata().expect("its size").len();
        // The page is sealed, so a write beyond its end fails.
        let written = file.write_all_at(piece, place);
        assert_eq!(written.is_ok(), piece.is_empty() || place + piece.len() as u64 <= size, "{written:?}");
        if !harness.drain(&mut pages) {
            return;
        }
        rest = after;
    }
}

/// One client and a core, wired as in the daemon.
struct Harness {
    scheduler: Scheduler,
    slots: TaskSlots,
    owners: BTreeMap<TaskId, Slot>,
    tasks: u64,
    now: u64,
}

impl Harness {
    fn new(policy: PolicyName) -> Harness {
        let mut harness = Harness {
            scheduler: Scheduler::new(policy, Options::default()),
            slots: TaskSlots::default(),
            owners: BTreeMap::new(),
            tasks: 1,
            now: 0,
        };
        let profile = DeviceProfile {
            name: "fuzz".into(),
            capacity: Bytes::from_mib(1024),
            sms: 80,
            warps_per_sm: 64,
            blocks_per_sm: 32,
            faults_stall: false,
        };
        harness.step(Event::DeviceAdded { device: DeviceId(0), profile });
        harness.step(Event::ClientConnected {
            client: CLIENT,
            uid: 1,
            label: "fuzz".into(),
            informed: false,
            same_process: None,
            nice: 0,
        });
        harness
    }

    /// Empties the ring; false if the client broke the protocol and is cut off.
    fn drain(&mut self, pages: &mut ClientPages) -> bool {
        for _ in 0..=RING_SLOTS {
            let Ok(popped) = pages.pop() else { return false };
            let Some(record) = popped else { return true };
            let Ok(request) = decode(&record) else { return false };
            self.request(&request);
        }
        panic!("a ring of {RING_SLOTS} records gave more, though nobody wrote meanwhile");
    }

    fn request(&mut self, request: &Request) {
        let fresh = TaskId(self.tasks);
        let Ok(Some(event)) = self.slots.get_mut(request.slot).accept(CLIENT, request, fresh, 0) else {
            return;
        };
        if let Event::TaskBegin { .. } = event {
            self.tasks += 1;
            self.owners.insert(fresh, request.slot);
        }
        self.step(event);
        let traits = self.scheduler.traits();
        for slot in Slot::all() {
            let state = self.slots.get_mut(slot);
            let view = state.task.and_then(|task| self.scheduler.task(task));
            let (cell, reason) = state.answer(view.as_ref(), traits);
            assert_eq!(cell.reason == 0, reason.is_empty());
        }
    }

    fn step(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.now += 1_000_000;
        self.scheduler.step(Nanos(self.now), event, &mut actions);
        invariants::check(&self.scheduler).expect("an invariant");
        for action in &actions {
            let Some(slot) = action.task().and_then(|task| self.owners.get(&task)) else { continue };
            match action {
                Action::Bind { .. } => self.slots.get_mut(*slot).bound(),
                Action::Refuse { reason, .. } => self.slots.get_mut(*slot).refuse(reason.clone()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_proto::request::BeginFlags;
    use eager_proto::request::{RequestBody, RequestPage, encode};
    use std::mem::offset_of;
    use zerocopy::IntoBytes;

    /// Checks the entry point itself: a record written byte by byte becomes a task.
    #[test]
    fn bytes_become_tasks() {
        let body = RequestBody::TaskExtend { bytes: 5 };
        let begin = RequestBody::TaskBegin {
            requirement: 1 << 20,
            site: 1,
            blocks: 0,
            threads_per_block: 0,
            flags: BeginFlags::NONE,
            function: "main".into(),
        };
        let (mut pages, descriptors) = ClientPages::create().expect("pages");
        let file = File::from(descriptors.requests);
        let mut harness = Harness::new(PolicyName::Case);
        for (place, body) in [begin, body].into_iter().enumerate() {
            let slot = Slot::new(0).expect("the first");
            let record = encode(&Request { sequence: place as u32 + 1, slot, body });
            let offset = offset_of!(RequestPage, ring) + place * 128;
            file.write_all_at(record.as_bytes(), offset as u64).expect("write");
        }
        file.write_all_at(&2u32.to_le_bytes(), offset_of!(RequestPage, head) as u64).expect("write");
        assert!(harness.drain(&mut pages));
        assert_eq!(
            harness.scheduler.tasks().map(|task| task.requirement.0).collect::<Vec<_>>(),
            [(1 << 20) + 5]
        );
    }
}
