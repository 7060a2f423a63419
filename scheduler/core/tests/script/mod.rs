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
//! client 1 [uid=7] [with=2]   a program connects; it is of the same process as client 2
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
        } else if let Some(answer) = answer(&scheduler, line, now) {
            answer.iter().for_each(|line| writeln!(transcript, "    {line}").expect("writing to a string"));
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
fn answer(scheduler: &Scheduler, line: &str, now: Nanos) -> Option<Vec<String>> {
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
    let words = Words { line, words: line.split_whitespace().collect() };
    task_event(&words)
        .or_else(|| request_event(&words))
        .or_else(|| device_event(&words))
        .unwrap_or_else(|| panic!("unknown event `{}` in `{line}`", words.words[0]))
}

/// The words of a line; its methods panic with the line where a word is missing or malformed.
struct Words<'a> {
    line: &'a str,
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn number(&self, index: usize) -> u64 {
        let word = self.words.get(index).and_then(|word| word.parse().ok());
        word.unwrap_or_else(|| panic!("no number in `{}`", self.line))
    }

    fn size(&self, index: usize) -> Bytes {
        bytes(self.words.get(index).copied().unwrap_or_default(), self.line)
    }

    /// The part after `key` of the first word that starts with it.
    fn value(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find_map(|word| word.strip_prefix(key))
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn task(&self) -> TaskId {
        TaskId(self.number(1))
    }

    fn client(&self) -> ClientId {
        ClientId(self.number(1))
    }

    fn device(&self) -> DeviceId {
        DeviceId(self.number(1) as u32)
    }
}

/// Events of programs and their tasks.
fn task_event(words: &Words<'_>) -> Option<Event> {
    Some(match words.words[0] {
        "client" => Event::ClientConnected {
            client: words.client(),
            uid: words.value("uid=").map_or(1000, |uid| uid.parse().expect("a uid")),
            label: format!("job{}", words.number(1)),
            informed: false,
            same_process: words.value("with=").map(|other| ClientId(other.parse().expect("a client"))),
            nice: words.value("nice=").map_or(0, |nice| nice.parse().expect("a nice value")),
        },
        "renice" => {
            Event::Reniced { client: words.client(), nice: words.words[2].parse().expect("a nice value") }
        }
        "gone" => Event::ClientGone { client: words.client() },
        "frozen" => Event::Frozen { client: words.client() },
        "thawed" => Event::Thawed { client: words.client() },
        "begin" => Event::TaskBegin {
            task: words.task(),
            client: ClientId(words.number(3)),
            request: task_request(words),
        },
        "extend" => Event::TaskExtend { task: words.task(), bytes: words.size(2) },
        "shrink" => Event::TaskShrink { task: words.task(), bytes: words.size(2) },
        "launched-all" => Event::AllLaunched { task: words.task() },
        "end" => Event::TaskEnd { task: words.task() },
        "busy" => Event::Busy { task: words.task() },
        "idle" => Event::Idle { task: words.task() },
        "promoted" => Event::Promoted { task: words.task() },
        "held" => {
            let footprint = bytes(words.value("footprint=").expect("a footprint"), words.line);
            let access = access(words.words.last().copied());
            let name = words.value("kernel=").expect("a kernel").to_owned();
            Event::KernelHeld {
                task: words.task(),
                kernel: KernelRequest { name, footprint, static_size: footprint, access },
            }
        }
        _ => return None,
    })
}

fn task_request(words: &Words<'_>) -> TaskRequest {
    TaskRequest {
        requirement: words.size(4),
        blocks: words.value("warps=").map_or(0, |warps| warps.parse().expect("warps")),
        threads_per_block: 32,
        lazy: words.has("lazy"),
        managed: words.has("managed"),
        whole: words.has("whole"),
        barred: barred(words.value("not=")),
        function: "main".into(),
        estimate: estimate(words.value("runs="), words.value("holds=")),
        held_by: None,
        priority: 0,
    }
}

/// Requests of people: about a waiting task, the limits, the policy.
fn request_event(words: &Words<'_>) -> Option<Event> {
    Some(match words.words[0] {
        "hold" => Event::Held { task: words.task(), by: 1000 },
        "release" => Event::Released { task: words.task() },
        "cancel" => Event::Cancelled { task: words.task(), by: 1000 },
        "limits" => Event::LimitsSet {
            limits: serde_json::from_str(&words.line["limits ".len()..]).expect("limits as JSON"),
        },
        "policy-set" => Event::PolicySet { policy: words.words[1].parse().expect("a policy") },
        _ => return None,
    })
}

/// Events of devices, and the tick of the clock.
fn device_event(words: &Words<'_>) -> Option<Event> {
    Some(match words.words[0] {
        "gpu" => Event::DeviceAdded {
            device: words.device(),
            profile: profile(words.size(2), words.has("stalls")),
        },
        "observed" => Event::Observed {
            device: words.device(),
            foreign: words.value("foreign=").map_or(Bytes::ZERO, |size| bytes(size, words.line)),
            clients: words.words.iter().filter_map(|word| client_use(word, words.line)).collect(),
        },
        "drain" => Event::Drained { device: words.device() },
        "undrain" => Event::Undrained { device: words.device() },
        "lost" => Event::DeviceLost { device: words.device() },
        "found" => Event::DeviceFound { device: words.device() },
        "tick" => Event::Tick,
        _ => return None,
    })
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
