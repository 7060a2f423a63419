//! Generators of random devices, options, limits and events, sensible and absurd ones.

use eager_core::event::{ClientUse, DeviceProfile, Estimate, Event, KernelRequest, TaskRequest};
use eager_core::limits::{Limits, Measure, Overstay};
use eager_core::options::QueueOrder;
use eager_core::{Options, PolicyName};
use eager_units::{AccessClass, Barred, Bytes, ClientId, DeviceId, Nanos, TaskId};
use proptest::prelude::*;

pub const GIB: u64 = 1 << 30;

pub fn device(id: u32, capacity: Bytes) -> Event {
    // Both kinds of device in every run that has two.
    let faults_stall = id % 2 == 1;
    let name = "test".into();
    let profile =
        DeviceProfile { name, capacity, sms: 80, warps_per_sm: 64, blocks_per_sm: 32, faults_stall };
    Event::DeviceAdded { device: DeviceId(id), profile }
}

pub fn any_policy() -> impl Strategy<Value = PolicyName> {
    proptest::sample::select(PolicyName::ALL.to_vec())
}

pub fn any_options() -> impl Strategy<Value = Options> {
    let queue = prop_oneof![
        2 => Just(None),
        1 => Just(Some(QueueOrder::Fifo)),
        1 => Just(Some(QueueOrder::Backfill)),
        1 => Just(Some(QueueOrder::LargestFirst)),
        2 => Just(Some(QueueOrder::LongestRemaining)),
    ];
    let sizes = (1u32..4, 0u32..60, 100u32..200, prop_oneof![Just(0), Just(GIB / 4)]);
    let gate = (
        any::<bool>(),
        50u32..120,
        (100u32..200, proptest::option::of(80u32..200)),
        proptest::option::of(1u64..50),
    );
    // Long enough that a program whose turn it is gets to act: shorter turns rotate without progress.
    let turns = (1u32..4, 1000u64..5000, 500u64..1000, 1u64..5000);
    let rounds = (1000u64..5000, proptest::option::of(0u32..4), any::<bool>(), 0u64..3000);
    let passing = (
        proptest::option::of(0u64..80),
        proptest::option::of(any::<bool>()),
        0u64..60,
        proptest::option::of(any::<bool>()),
    );
    (queue, sizes, gate, turns, rounds, passing).prop_map(|(queue, sizes, gate, turns, rounds, passing)| {
        Options {
            queue,
            eager_per_device: sizes.0,
            grant_percent_min: sizes.1,
            oversize_percent: sizes.2,
            context_bytes: Bytes(sizes.3),
            managed_normal_tasks: gate.0,
            os_ratio_percent_cyclic: gate.1,
            os_ratio_percent_other: gate.2.0,
            os_ratio_percent_sparse: gate.2.1,
            hold_ns_max: gate.3.map(Nanos),
            programs_per_device: turns.0,
            quantum_ns: Nanos(turns.1),
            quantum_idle_ns: Nanos(turns.2),
            round_ns: Nanos(rounds.0),
            in_flight: rounds.1,
            carry: rounds.2,
            round_grace_ns: Nanos(rounds.3),
            circle_ns: Nanos(turns.3),
            overtake_ns: passing.0.map(Nanos),
            reserve_head: passing.1,
            eager_promotion_within_ns: Nanos(passing.2),
            release_dead: passing.3,
            stream_ns: Nanos(passing.2 / 2),
            ..Options::default()
        }
    })
}

pub fn any_access() -> impl Strategy<Value = AccessClass> {
    proptest::sample::select(vec![
        AccessClass::Unknown,
        AccessClass::OnePass,
        AccessClass::Cyclic,
        AccessClass::Sparse,
    ])
}

/// No estimate, ordinary ones, absurd ones.
pub fn any_estimate() -> impl Strategy<Value = Option<Estimate>> {
    let length = || prop_oneof![8 => 0u64..100, 1 => Just(u64::MAX)].prop_map(Nanos);
    proptest::option::of((length(), length()).prop_map(|(remaining, hold)| Estimate { remaining, hold }))
}

/// Sizes that matter: none, ordinary, larger than a device, absurd.
fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        1 => Just(0),
        8 => 0..20 * GIB,
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
    .prop_map(Bytes)
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let measure = prop_oneof![Just(Measure::Observe), Just(Measure::Throttle), Just(Measure::Kill)];
    let bytes = prop::option::of(any_bytes());
    let stay = (
        prop::option::of((0u64..100).prop_map(Nanos)),
        prop_oneof![Just(Overstay::Observe), Just(Overstay::End)],
    );
    let tasks = (prop::option::of(0u32..4), prop::option::of(0u32..3));
    (measure, bytes, tasks, stay).prop_map(
        |(overrun, user_bytes_max, (user_waiting_max, user_queued_max), (task_ns_max, overstay))| Limits {
            overrun,
            user_bytes_max,
            user_waiting_max,
            user_queued_max,
            task_ns_max,
            overstay,
            ..Limits::default()
        },
    )
}

/// A priority, most often the usual one.
fn rare() -> impl Strategy<Value = i8> {
    prop_oneof![3 => Just(0), 1 => -2i8..3]
}

fn any_request() -> impl Strategy<Value = TaskRequest> {
    let barred = prop_oneof![3 => Just(0), 1 => 0u64..8].prop_map(Barred);
    let flags = (any::<[bool; 3]>(), rare());
    (any_bytes(), any::<u64>(), any::<u32>(), flags, barred, any_estimate()).prop_map(
        |(requirement, blocks, threads_per_block, (flags, priority), barred, estimate)| {
            let [lazy, managed, whole] = flags;
            TaskRequest {
                priority,
                requirement,
                blocks,
                threads_per_block,
                lazy,
                managed,
                whole,
                barred,
                estimate,
                ..TaskRequest::default()
            }
        },
    )
}

pub fn any_event() -> impl Strategy<Value = Event> {
    let task = || (0u64..12).prop_map(TaskId);
    let client = || (0u64..5).prop_map(ClientId);
    let kernel = (any_bytes(), any_access()).prop_map(|(footprint, access)| KernelRequest {
        name: "k".into(),
        footprint,
        static_size: footprint,
        access,
    });
    prop_oneof![
        1 => (0u32..3, any_bytes()).prop_map(|(id, capacity)| device(id, capacity)),
        3 => (client(), prop::option::weighted(0.3, client())).prop_map(|(client, same_process)| {
            let (uid, label) = (client.0 as u32 % 3, "x".into());
            Event::ClientConnected { client, uid, label, informed: false, same_process, nice: 0 }
        }),
        1 => client().prop_map(|client| Event::ClientGone { client }),
        10 => (task(), client(), any_request())
            .prop_map(|(task, client, request)| Event::TaskBegin { task, client, request }),
        3 => (task(), any_bytes()).prop_map(|(task, bytes)| Event::TaskExtend { task, bytes }),
        3 => (task(), any_bytes()).prop_map(|(task, bytes)| Event::TaskShrink { task, bytes }),
        3 => task().prop_map(|task| Event::AllLaunched { task }),
        4 => task().prop_map(|task| Event::TaskEnd { task }),
        4 => (task(), kernel).prop_map(|(task, kernel)| Event::KernelHeld { task, kernel }),
        2 => task().prop_map(|task| Event::Busy { task }),
        3 => task().prop_map(|task| Event::Idle { task }),
        1 => task().prop_map(|task| Event::Promoted { task }),
        1 => client().prop_map(|client| Event::Frozen { client }),
        1 => client().prop_map(|client| Event::Thawed { client }),
        1 => (client(), any::<i8>()).prop_map(|(client, nice)| Event::Reniced { client, nice }),
        2 => (0u32..3, any_bytes(), prop::collection::vec((client(), any_bytes()), 0..4)).prop_map(
            |(device, foreign, clients)| Event::Observed {
                device: DeviceId(device),
                foreign,
                clients: clients.into_iter().map(|(client, bytes)| ClientUse { client, bytes }).collect(),
            }
        ),
        1 => any_limits().prop_map(|limits| Event::LimitsSet { limits }),
        1 => (0u32..3).prop_map(|device| Event::Drained { device: DeviceId(device) }),
        1 => (0u32..3).prop_map(|device| Event::DeviceLost { device: DeviceId(device) }),
        2 => (0u32..3).prop_map(|device| Event::DeviceFound { device: DeviceId(device) }),
        1 => (0u64..5, 0u32..3).prop_map(|(client, device)| Event::Restored {
            tasks: Vec::new(),
            contexts: vec![(ClientId(client), DeviceId(device))],
        }),
        2 => (0u32..3).prop_map(|device| Event::Undrained { device: DeviceId(device) }),
        2 => task().prop_map(|task| Event::Held { task, by: 1 }),
        3 => task().prop_map(|task| Event::Released { task }),
        2 => (task(), rare()).prop_map(|(task, priority)| Event::PrioritySet { task, priority }),
        1 => task().prop_map(|task| Event::Cancelled { task, by: 1 }),
        2 => any_policy().prop_map(|policy| Event::PolicySet { policy }),
        2 => Just(Event::Reverted { why: "is tried".into() }),
        1 => Just(Event::Tick),
    ]
}
