//! A small language for scenarios: one event per line in, the decisions and their reasons out.
//!
//! Every line that is an event is one step, and the invariants are checked after each.
//!
//! ```text
//! # comment
//! policy eager-opt            first line that is no comment
//! option {"context_bytes":1}  further options, as JSON
//! gpu 0 16GiB [stalls]        a device with this capacity, on which a fault stops all kernels
//! at 2.5                      seconds; for all that follows
//! client 1 [uid=7]            a program connects
//! begin 7 of 1 4GiB [warps=N] [lazy] [managed] [whole] [not=0,2] [runs=SECONDS [holds=SECONDS]]
//! extend 7 1GiB | shrink 7 1GiB | launched-all 7 | end 7 | busy 7 | idle 7 | promoted 7 | gone 1 | tick
//! observed 0 foreign=2GiB 1=3GiB   in use on GPU 0: by processes that are no clients, by client 1
//! limits {"overrun":"throttle"}
//! lost 0 | found 0            GPU 0 is lost; it is back
//! drain 0 | undrain 0         no new task starts on GPU 0; GPU 0 takes tasks again
//! hold 7 | release 7 | cancel 7   a waiting task; by uid 1000
//! policy-set case             another policy from now on
//! queue                       places, classes, expected starts
//! explain 7 | explain-gpu 0   sentences
//! held 7 kernel=srad footprint=4GiB [cyclic|one-pass|sparse]
//! show                        tables of tasks and devices
//! ```

use eager_core::event::{ClientUse, DeviceProfile, Estimate, Event, KernelRequest, TaskRequest};
use eager_core::scheduler::{Stage, Standing};
use eager_core::{Scheduler, invariants};
use eager_units::{AccessClass, Barred, Bytes, ClientId, DeviceId, Nanos, TaskId};
use std::fmt::Write;

/// Runs a script and returns the transcript. Panics with the line on a mistake in the script or a broken invariant.
pub fn run(script: &str) -> String {
    let mut lines =
        script.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).peekable();
    let first = lines.next().expect("an empty script");
    let policy = first.strip_prefix("policy ").expect("the first line names the policy");
    let policy = policy.parse().expect("a known policy");
    let options = match lines.peek().and_then(|line| line.strip_prefix("option ")) {
        Some(json) => {
            lines.next();
            serde_json::from_str(json).expect("options as JSON")
        }
        None => Default::default(),
    };
    let mut scheduler = Scheduler::new(policy, options);
    let mut now = Nanos::default();
    let mut transcript = String::new();
    for line in lines {
        writeln!(transcript, "{line}").expect("writing to a string");
        if let Some(seconds) = line.strip_prefix("at ") {
            now = Nanos((seconds.parse::<f64>().expect("seconds") * 1e9) as u64);
        } else if line == "show" {
            show(&scheduler, &mut transcript);
        } else if let Some(said) = tell(&scheduler, line, now) {
            said.iter().for_each(|line| writeln!(transcript, "    {line}").expect("writing to a string"));
        } else {
            let mut actions = Vec::new();
            scheduler.step(now, event(line), &mut actions);
            for action in &actions {
                writeln!(transcript, "    {action}").expect("writing to a string");
            }
            if let Err(violation) = invariants::check(&scheduler) {
                panic!("after `{line}`: {violation}\n{transcript}");
            }
        }
    }
    for (anomaly, count) in scheduler.anomalies() {
        writeln!(transcript, "anomaly: {anomaly:?} ×{count}").expect("writing to a string");
    }
    transcript
}

/// Answers a line that is a question and not an event; None for all others.
fn tell(scheduler: &Scheduler, line: &str, now: Nanos) -> Option<Vec<String>> {
    let (verb, what) = line.split_once(' ').unwrap_or((line, ""));
    let number = || what.parse::<u32>().unwrap_or_else(|_| panic!("no number in `{line}`"));
    match verb {
        "queue" => Some(scheduler.queue().iter().map(standing).collect()),
        "explain" => Some(scheduler.explain_task(TaskId(number().into()), now).expect("a task")),
        "explain-gpu" => Some(scheduler.explain_device(DeviceId(number()), now).expect("a device")),
        _ => None,
    }
}

fn standing(of: &Standing<'_>) -> String {
    let place = of.place.map_or("-".to_owned(), |place| place.to_string());
    let class = of.class.map_or("unknown".to_owned(), |class| class.to_string());
    let expected = of.expected.map_or(String::new(), |at| format!(", expected at {}", at.moment()));
    format!("{place}: {}, {class}{expected}", of.task.task)
}

fn profile(capacity: Bytes, faults_stall: bool) -> DeviceProfile {
    let name = "test".into();
    DeviceProfile { name, capacity, sms: 80, warps_per_sm: 64, blocks_per_sm: 32, faults_stall }
}

fn event(line: &str) -> Event {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| -> u64 {
        words.get(index).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no number in `{line}`"))
    };
    let size = |index: usize| bytes(words.get(index).copied().unwrap_or_default(), line);
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
    let (task, device) = (|| TaskId(number(1)), || DeviceId(number(1) as u32));
    match words[0] {
        "gpu" => {
            Event::DeviceAdded { device: device(), profile: profile(size(2), words.contains(&"stalls")) }
        }
        "client" => Event::ClientConnected {
            client: ClientId(number(1)),
            uid: value("uid=").map_or(1000, |uid| uid.parse().expect("a uid")),
            label: format!("job{}", number(1)),
            informed: false,
        },
        "gone" => Event::ClientGone { client: ClientId(number(1)) },
        "begin" => Event::TaskBegin {
            task: task(),
            client: ClientId(number(3)),
            request: TaskRequest {
                requirement: size(4),
                blocks: value("warps=").map_or(0, |warps| warps.parse().expect("warps")),
                threads_per_block: 32,
                lazy: words.contains(&"lazy"),
                managed: words.contains(&"managed"),
                whole: words.contains(&"whole"),
                barred: barred(value("not=")),
                function: "main".into(),
                estimate: estimate(value("runs="), value("holds=")),
                held_by: None,
                priority: 0,
            },
        },
        "extend" => Event::TaskExtend { task: task(), bytes: size(2) },
        "shrink" => Event::TaskShrink { task: task(), bytes: size(2) },
        "launched-all" => Event::AllLaunched { task: task() },
        "end" => Event::TaskEnd { task: task() },
        "busy" => Event::Busy { task: task() },
        "idle" => Event::Idle { task: task() },
        "frozen" => Event::Frozen { client: ClientId(number(1)) },
        "thawed" => Event::Thawed { client: ClientId(number(1)) },
        "promoted" => Event::Promoted { task: task() },
        "tick" => Event::Tick,
        "observed" => Event::Observed {
            device: device(),
            foreign: value("foreign=").map_or(Bytes::ZERO, |size| bytes(size, line)),
            clients: words.iter().filter_map(|word| client_use(word, line)).collect(),
        },
        "limits" => Event::LimitsSet {
            limits: serde_json::from_str(&line["limits ".len()..]).expect("limits as JSON"),
        },
        "drain" => Event::Drained { device: device() },
        "lost" => Event::DeviceLost { device: device() },
        "found" => Event::DeviceFound { device: device() },
        "undrain" => Event::Undrained { device: device() },
        "hold" => Event::Held { task: task(), by: 1000 },
        "release" => Event::Released { task: task() },
        "cancel" => Event::Cancelled { task: task(), by: 1000 },
        "policy-set" => Event::PolicySet { policy: words[1].parse().expect("a policy") },
        "held" => {
            let footprint = bytes(value("footprint=").expect("a footprint"), line);
            let access = access(words.last().copied());
            let name = value("kernel=").expect("a kernel").to_owned();
            Event::KernelHeld {
                task: task(),
                kernel: KernelRequest { name, footprint, static_size: footprint, access },
            }
        }
        other => panic!("unknown event `{other}` in `{line}`"),
    }
}

fn access(word: Option<&str>) -> AccessClass {
    match word {
        Some("cyclic") => AccessClass::Cyclic,
        Some("one-pass") => AccessClass::OnePass,
        Some("sparse") => AccessClass::Sparse,
        _ => AccessClass::Unknown,
    }
}

fn client_use(word: &str, line: &str) -> Option<ClientUse> {
    let (client, size) = word.split_once('=')?;
    Some(ClientUse { client: ClientId(client.parse().ok()?), bytes: bytes(size, line) })
}

/// Devices that the task may not have.
fn barred(numbers: Option<&str>) -> Barred {
    let bit = |number: &str| 1 << number.parse::<u32>().expect("a device");
    Barred(numbers.map_or(0, |numbers| numbers.split(',').map(bit).sum()))
}

fn estimate(runs: Option<&str>, holds: Option<&str>) -> Option<Estimate> {
    let seconds = |text: &str| Nanos((text.parse::<f64>().expect("seconds") * 1e9) as u64);
    Some(Estimate { remaining: seconds(runs?), hold: seconds(holds.or(runs)?) })
}

fn bytes(word: &str, line: &str) -> Bytes {
    let shift = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
    let (number, shift) = shift
        .into_iter()
        .find_map(|(unit, shift)| Some((word.strip_suffix(unit)?, shift)))
        .unwrap_or_else(|| panic!("no size `{word}` in `{line}`"));
    let number: f64 = number.parse().unwrap_or_else(|_| panic!("no size `{word}` in `{line}`"));
    Bytes((number * (1u64 << shift) as f64) as u64)
}

fn show(scheduler: &Scheduler, out: &mut String) {
    for device in scheduler.devices() {
        writeln!(
            out,
            "    {}: {} granted, {} free, {} over-subscribed; {} normal, {} eager",
            device.device,
            device.granted,
            device.free,
            device.oversubscribed,
            device.normal_tasks,
            device.eager_tasks
        )
        .expect("writing to a string");
    }
    for task in scheduler.tasks() {
        let (id, wants) = (task.task, task.requirement);
        match task.stage {
            Stage::Waiting { reason } => writeln!(out, "    {id}: {wants}, {reason}"),
            Stage::Bound { device, class, grant, gate, gate_reason, held, .. } => {
                let held = held.map_or(String::new(), |(kernel, since)| {
                    format!("; {kernel} held since {}", since.moment())
                });
                writeln!(
                    out,
                    "    {id}: {grant} of {wants} on {device}, {class}; {gate} ({gate_reason}){held}"
                )
            }
        }
        .expect("writing to a string");
    }
    match scheduler.next_deadline() {
        Some(deadline) => writeln!(out, "    next deadline: {}", deadline.moment()),
        None => Ok(()),
    }
    .expect("writing to a string");
}
