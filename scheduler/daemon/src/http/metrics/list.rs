//! All metrics, in the order of the reference page (`docs/reference/metrics.md`).
//!
//! Units are base units (bytes, seconds), and a value that only grows is a counter; the library adds the suffixes.

use super::{Kind, Metric, Sample, Value};
use eager_proto::admin::DeviceRow;
use eager_proto::snapshot::{Distribution, Snapshot};
use prometheus_client::registry::Unit;
use std::collections::BTreeMap;

const BYTES: Option<fn() -> Unit> = Some(|| Unit::Bytes);
const SECONDS: Option<fn() -> Unit> = Some(|| Unit::Seconds);
/// Singular, as Prometheus names it ("Metric and label naming", base units).
const RATIO: Option<fn() -> Unit> = Some(|| Unit::Other("ratio".into()));
/// Labels as in dcgm-exporter, so that dashboards can join the two.
const GPU: &[&str] = &["gpu", "modelName"];

/// One value without labels.
fn one(value: Value) -> Vec<Sample> {
    vec![Sample { labels: Vec::new(), value }]
}

fn whole(value: impl Into<u64>) -> Vec<Sample> {
    one(Value::Whole(value.into()))
}

fn info(labels: &[&str]) -> Vec<Sample> {
    vec![Sample { labels: labels.iter().map(|&label| label.to_owned()).collect(), value: Value::Info }]
}

/// One value for each key.
fn by_key<T>(values: &BTreeMap<String, T>, value: fn(&T) -> Value) -> Vec<Sample> {
    values.iter().map(|(key, it)| Sample { labels: vec![key.clone()], value: value(it) }).collect()
}

/// One value for each device that reports it.
fn of_devices(snapshot: &Snapshot, value: impl Fn(&DeviceRow) -> Option<Value>) -> Vec<Sample> {
    let sample = |device: &DeviceRow| {
        let labels = vec![device.device.to_string(), device.name.clone()];
        Some(Sample { labels, value: value(device)? })
    };
    snapshot.devices.iter().filter_map(sample).collect()
}

fn by_device(snapshot: &Snapshot, value: fn(&DeviceRow) -> Option<u64>) -> Vec<Sample> {
    of_devices(snapshot, |device| value(device).map(Value::Whole))
}

fn count(value: &u64) -> Value {
    Value::Whole(*value)
}

fn spread(value: &Distribution) -> Value {
    Value::Spread(value.clone())
}

fn tasks_by_state(snapshot: &Snapshot) -> Vec<Sample> {
    let daemon = &snapshot.daemon;
    [("running", daemon.running), ("waiting", daemon.waiting)]
        .map(|(state, tasks)| Sample { labels: vec![state.into()], value: Value::Whole(tasks.into()) })
        .into()
}

fn degraded(snapshot: &Snapshot) -> Vec<Sample> {
    let problems = snapshot.daemon.problems();
    let is_so = |what: &str| problems.iter().any(|(about, _)| *about == what);
    let sample = |what: &str| Sample { labels: vec![what.into()], value: Value::Whole(is_so(what).into()) };
    ["policy", "state", "journal", "history", "ended", "usage"].map(sample).into()
}

fn tasks_by_device(snapshot: &Snapshot) -> Vec<Sample> {
    let sample = |device: &DeviceRow, class: &str, tasks: u32| Sample {
        labels: vec![device.device.to_string(), device.name.clone(), class.into()],
        value: Value::Whole(tasks.into()),
    };
    let both = |device: &DeviceRow| {
        let DeviceRow { normal_tasks, eager_tasks, .. } = *device;
        [sample(device, "normal", normal_tasks), sample(device, "eager", eager_tasks)]
    };
    snapshot.devices.iter().flat_map(both).collect()
}

/// A metric without unit or labels.
const fn plain(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: fn(&Snapshot) -> Vec<Sample>,
) -> Metric {
    Metric { name, unit: None, kind, labels: &[], help, samples }
}

/// A metric of each device's memory, in bytes.
const fn memory(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: fn(&Snapshot) -> Vec<Sample>,
) -> Metric {
    Metric { name, unit: BYTES, kind, labels: GPU, help, samples }
}

use Kind::{Counter, Gauge, Histogram, Info};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        labels: &["version"],
        ..plain("build", Info, "Version of the daemon.", |it| info(&[&it.daemon.version]))
    },
    Metric {
        labels: &["policy"],
        ..plain("policy", Info, "The policy that decides now.", |it| info(&[&it.daemon.policy]))
    },
    Metric {
        unit: SECONDS,
        ..plain("uptime", Gauge, "Time since the daemon started.", |it| {
            one(Value::Real(it.daemon.uptime_ms as f64 / 1e3))
        })
    },
    Metric {
        labels: &["what"],
        ..plain(
            "degraded",
            Gauge,
            "1 while the daemon serves and this part of it does not work as configured: policy, state file, journal, \
             history of runs, list of ended programs, or the observation of device use.",
            degraded,
        )
    },
    plain("clients", Gauge, "Programs that are connected.", |it| whole(it.daemon.clients)),
    plain(
        "clients_unattached",
        Gauge,
        "Programs of an earlier daemon that have not reconnected; they keep what they hold.",
        |it| whole(it.daemon.unattached),
    ),
    Metric {
        labels: &["state"],
        ..plain("tasks", Gauge, "Tasks that wait for a device, and that have one.", tasks_by_state)
    },
    Metric {
        labels: &["gpu", "modelName", "class"],
        ..plain(
            "device_tasks",
            Gauge,
            "Tasks on the device: normal and promoted ones, and eager ones.",
            tasks_by_device,
        )
    },
    memory("device_memory_capacity", Gauge, "Memory that may be granted in all.", |it| {
        by_device(it, |device| Some(device.capacity_bytes))
    }),
    memory("device_memory_granted", Gauge, "Memory that is granted to tasks.", |it| {
        by_device(it, |device| Some(device.granted_bytes))
    }),
    memory(
        "device_memory_declared",
        Gauge,
        "Memory that tasks on the device need: their grants and what eager tasks lack.",
        |it| by_device(it, |device| Some(device.granted_bytes.saturating_add(device.oversubscribed_bytes))),
    ),
    memory(
        "device_memory_oversubscribed",
        Gauge,
        "Memory that eager tasks need beyond their grants.",
        |it| by_device(it, |device| Some(device.oversubscribed_bytes)),
    ),
    memory("device_memory_contexts", Gauge, "Memory set aside for the contexts of programs.", |it| {
        by_device(it, |device| Some(device.context_bytes))
    }),
    memory(
        "device_memory_free",
        Gauge,
        "Memory that can be granted now: neither granted, nor for contexts, nor in use by others.",
        |it| by_device(it, |device| Some(device.free_bytes)),
    ),
    memory(
        "device_memory_resident",
        Gauge,
        "Memory in use on the device: contexts, allocations, and managed memory that is there; absent where the device does not report it.",
        |it| by_device(it, |device| device.resident_bytes),
    ),
    memory(
        "device_memory_pinned",
        Gauge,
        "Of what is resident, what cannot be evicted; absent where the device does not report it.",
        |it| by_device(it, |device| device.pinned_bytes),
    ),
    memory(
        "device_memory_foreign",
        Gauge,
        "Memory in use by processes that are not scheduled by the daemon.",
        |it| by_device(it, |device| Some(device.foreign_bytes)),
    ),
    memory(
        "device_memory_unaccounted",
        Gauge,
        "Memory in use that is granted to no task: foreign, or beyond what clients declared; no task can get it.",
        |it| by_device(it, |device| Some(device.unaccounted_bytes)),
    ),
    memory(
        "device_paged",
        Counter,
        "Managed memory moved because it did not fit, in both directions; absent where the device does not report it.",
        |it| by_device(it, |device| device.paged_bytes),
    ),
    Metric {
        unit: RATIO,
        labels: GPU,
        ..plain(
            "device_utilization",
            Gauge,
            "Share of the time with a kernel on the device, stalled ones included; absent where the device does not report it.",
            |it| {
                of_devices(it, |device| {
                    device.utilization_percent.map(|it| Value::Real(f64::from(it) / 100.0))
                })
            },
        )
    },
    Metric {
        labels: &["class"],
        ..plain("tasks_started", Counter, "Tasks that got a device, by the class they began with.", |it| {
            by_key(&it.counts.started, count)
        })
    },
    plain("tasks_promoted", Counter, "Eager tasks that got all they need.", |it| whole(it.counts.promoted)),
    plain("tasks_ended", Counter, "Tasks that ended, by themselves or with their program.", |it| {
        whole(it.counts.ended)
    }),
    Metric {
        labels: &["reason"],
        ..plain("tasks_refused", Counter, "Requests that were refused, by the reason's name.", |it| {
            by_key(&it.counts.refused, count)
        })
    },
    Metric {
        unit: SECONDS,
        labels: &["class"],
        ..plain("task_wait", Histogram, "From a task's request until it got a device.", |it| {
            by_key(&it.counts.wait_seconds, spread)
        })
    },
    plain("kernels_held", Counter, "Kernels that waited at a closed gate.", |it| {
        whole(it.counts.held_kernels)
    }),
    Metric {
        unit: SECONDS,
        ..plain("decision", Histogram, "Time of one step of the scheduler.", |it| {
            one(spread(&it.counts.decision_seconds))
        })
    },
    Metric {
        labels: &["how"],
        ..plain(
            "client_deaths",
            Counter,
            "Programs that are gone: idle, holding tasks, or cut-off because they broke the protocol.",
            |it| by_key(&it.counts.clients_gone, count),
        )
    },
    plain("overruns", Counter, "Times that a program used more memory than it declared.", |it| {
        whole(it.daemon.overruns)
    }),
    plain(
        "policy_fallbacks",
        Counter,
        "Times that the policy broke and case took over; 0 again when the daemon starts.",
        |it| whole(it.counts.policy_fallbacks),
    ),
    plain(
        "policy_reverted",
        Gauge,
        "1 while case decides in place of the policy that was asked for.",
        |it| whole(it.daemon.policy_state.starts_with("reverted")),
    ),
];
