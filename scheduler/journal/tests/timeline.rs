//! Timelines of journals from the real core, as text; and every trace file is well-formed.

use eager_core::event::{DeviceProfile, Event, KernelRequest, TaskRequest};
use eager_core::journal::JournalHeader;
use eager_core::{Options, PolicyName, Scheduler};
use eager_journal::timeline::{Shows, What};
use eager_journal::{Drawing, Journal, TextError, Timeline};
use eager_units::{AccessClass, Bytes, ClientId, DeviceId, Nanos, TaskId};
use std::fmt::Write;

const GIB: u64 = 1 << 30;

/// Journal with one step per second.
fn journal(policy: PolicyName, events: Vec<Event>) -> Journal {
    let seconds = (0..).map(|second| Nanos(second * 1_000_000_000));
    Journal::recorded(Scheduler::new(policy, Options::default()), seconds.zip(events))
}

fn device() -> Event {
    let (capacity, sms, warps_per_sm, blocks_per_sm) = (Bytes(10 * GIB), 1, 64, 32);
    let name = "test".into();
    let profile = DeviceProfile { name, capacity, sms, warps_per_sm, blocks_per_sm, faults_stall: false };
    Event::DeviceAdded { device: DeviceId(0), profile }
}

fn client(id: u64, label: &str) -> Event {
    Event::ClientConnected {
        client: ClientId(id),
        uid: 0,
        label: label.into(),
        informed: false,
        same_process: None,
        nice: 0,
    }
}

fn begin(id: u64, gib: u64) -> Event {
    let request =
        TaskRequest { requirement: Bytes(gib * GIB), function: "main".into(), ..TaskRequest::default() };
    Event::TaskBegin { task: TaskId(id), client: ClientId(id), request }
}

fn held(id: u64) -> Event {
    let (footprint, static_size) = (Bytes(GIB), Bytes(2 * GIB));
    let kernel =
        KernelRequest { name: "_Z3sumPf".into(), footprint, static_size, access: AccessClass::Cyclic };
    Event::KernelHeld { task: TaskId(id), kernel }
}

/// Formats each entry as second, track and content; details in brackets, an arrow's number after `~`.
fn printed(timeline: &Timeline) -> String {
    let mut text = String::new();
    for entry in &timeline.entries {
        let (second, track) = (entry.at.0 / 1_000_000_000, &timeline.tracks[entry.track.0]);
        let what = match &entry.what {
            What::Begin(event) => format!("( {}{}", event.name, arrow(event)),
            What::End => ")".into(),
            What::Mark(event) => format!("* {}{}", event.name, arrow(event)),
            What::Value(value) if track.shows == Shows::Bytes => format!("= {} GiB", value / GIB),
            What::Value(value) => format!("= {value}"),
        };
        let _ = writeln!(text, "{second} [{}] {what}", track.name);
    }
    text
}

fn arrow(event: &eager_journal::timeline::Event) -> String {
    event.flow.map(|flow| format!(" ~{}", flow.0)).unwrap_or_default()
}

fn eager_start() -> Journal {
    let events = vec![
        device(),
        client(1, "first"),
        client(2, "second"),
        begin(1, 8),
        begin(2, 6),
        held(2),
        Event::Busy { task: TaskId(2) },
        Event::AllLaunched { task: TaskId(1) },
        Event::TaskEnd { task: TaskId(1) },
        Event::Idle { task: TaskId(2) },
        Event::ClientGone { client: ClientId(2) },
    ];
    journal(PolicyName::EagerB, events)
}

#[test]
fn an_eager_start_is_told_from_its_request_to_its_end() {
    let expected = "\
0 [memory granted] = 0 GiB
0 [memory missing to eager tasks] = 0 GiB
0 [tasks] = 0
3 [task 1: first (main)] ( task 1: first (main)
3 [task 1: first (main)] ( normal
3 [memory granted] = 8 GiB
3 [tasks] = 1
4 [task 2: second (main)] ( task 2: second (main) ~2
4 [task 2: second (main)] ( eager
4 [task 2: second (main)] * gate: hold
4 [memory granted] = 10 GiB
4 [memory missing to eager tasks] = 4 GiB
4 [tasks] = 2
5 [task 2: second (main)] ( sum is held at the gate
6 [kernels] ( kernels run
7 [task 1: first (main)] * all launched
7 [task 2: second (main)] )
7 [task 2: second (main)] * barrier opens
8 [task 2: second (main)] )
8 [task 2: second (main)] ( promoted
8 [task 2: second (main)] * promoted ~2
8 [task 2: second (main)] * gate: no gate
8 [task 1: first (main)] )
8 [task 1: first (main)] )
8 [memory granted] = 6 GiB
8 [memory missing to eager tasks] = 0 GiB
8 [tasks] = 1
9 [kernels] )
10 [task 2: second (main)] )
10 [task 2: second (main)] )
10 [memory granted] = 0 GiB
10 [tasks] = 0
";
    assert_eq!(printed(&Timeline::of(&eager_start().lines)), expected);
}

#[test]
fn a_wait_ends_at_its_grant_and_an_arrow_joins_them() {
    let events = vec![
        device(),
        client(1, "first"),
        client(2, "second"),
        begin(1, 10),
        begin(2, 6),
        Event::TaskEnd { task: TaskId(1) },
        client(3, "third"),
        begin(3, 64),
    ];
    let expected = "\
0 [memory granted] = 0 GiB
0 [memory missing to eager tasks] = 0 GiB
0 [tasks] = 0
3 [task 1: first (main)] ( task 1: first (main)
3 [task 1: first (main)] ( normal
3 [memory granted] = 10 GiB
3 [tasks] = 1
4 [task 2: second (main)] ( waits ~2
5 [task 2: second (main)] )
5 [task 2: second (main)] ( task 2: second (main) ~2
5 [task 2: second (main)] ( normal
5 [task 1: first (main)] )
5 [task 1: first (main)] )
5 [memory granted] = 6 GiB
7 [task 3: third (main)] ( waits ~3
7 [task 3: third (main)] * refused
7 [task 3: third (main)] )
";
    assert_eq!(printed(&Timeline::of(&journal(PolicyName::Case, events).lines)), expected);
}

#[test]
fn what_is_not_the_schedulers_and_drained_devices_are_shown_once_there_is_some() {
    let device = DeviceId(0);
    let observed = |foreign| Event::Observed { device, foreign: Bytes(foreign), clients: Vec::new() };
    let events = vec![
        self::device(),
        observed(0),
        observed(2 * GIB),
        Event::Drained { device },
        Event::Drained { device },
        Event::Undrained { device },
        observed(0),
        Event::Undrained { device },
    ];
    let expected = "\
0 [memory granted] = 0 GiB
0 [memory missing to eager tasks] = 0 GiB
0 [tasks] = 0
2 [memory of programs not scheduled] = 2 GiB
3 [nothing new starts: drained] ( drained
5 [nothing new starts: drained] )
6 [memory of programs not scheduled] = 0 GiB
";
    assert_eq!(printed(&Timeline::of(&journal(PolicyName::Case, events).lines)), expected);
}

#[test]
fn what_people_do_is_shown_where_it_matters() {
    let (task, device) = (TaskId(2), DeviceId(0));
    let events = vec![
        self::device(),
        client(1, "first"),
        client(2, "second"),
        begin(1, 10),
        begin(2, 6),
        Event::Held { task, by: 7 },
        Event::Held { task, by: 7 },
        Event::PolicySet { policy: PolicyName::Sa },
        Event::Released { task },
        Event::Held { task, by: 0 },
        Event::TaskEnd { task: TaskId(1) },
        Event::Cancelled { task, by: 0 },
        Event::DeviceLost { device },
        Event::DeviceFound { device },
    ];
    let text = printed(&Timeline::of(&journal(PolicyName::Case, events).lines));
    let (_, text) = text.split_once("3 [tasks] = 1\n").expect("the first task's start");
    let expected = "\
4 [task 2: second (main)] ( waits ~2
5 [task 2: second (main)] ( held
5 [task 2: second (main)] * waits: uid 7 holds it until it is released
7 [daemon] * policy sa set
7 [task 2: second (main)] * waits: uid 7 holds it until it is released
8 [task 2: second (main)] )
8 [task 2: second (main)] * waits: every device has its program already, and this policy gives a device to one program until it ends
9 [task 2: second (main)] ( held
9 [task 2: second (main)] * waits: uid 0 holds it until it is released
10 [task 1: first (main)] )
10 [task 1: first (main)] )
10 [memory granted] = 0 GiB
10 [tasks] = 0
11 [task 2: second (main)] * refused
11 [task 2: second (main)] )
11 [task 2: second (main)] )
12 [nothing new starts: lost] ( lost
13 [nothing new starts: lost] )
";
    assert_eq!(text, expected);
}

#[test]
fn a_journal_is_read_as_it_was_written_and_a_cut_line_is_left_out() {
    let journal = eager_start();
    let text = journal.write().expect("text");
    assert_eq!(Journal::read(&text).expect("journal"), journal);
    let cut = &text[..text.len() - 10];
    assert_eq!(Journal::read(cut).expect("journal").lines, journal.lines[..journal.lines.len() - 1]);
}

#[test]
fn what_is_no_journal_is_named_with_its_line() {
    let text = eager_start().write().expect("text");
    let said = |text: &str| Journal::read(text).expect_err("no journal").to_string();
    assert!(matches!(Journal::read(""), Err(TextError::Empty)));
    assert!(
        said("{}\n").starts_with("line 1 of the journal cannot be read: missing field"),
        "{}",
        said("{}\n")
    );
    let spoilt = text.replacen("\"task\":2", "\"task\":\"two\"", 1);
    assert!(said(&spoilt).starts_with("line 6 of the journal cannot be read: "), "{}", said(&spoilt));
    let other = |version: &str| text.replacen("\"journal\":2", &format!("\"journal\":{version}"), 1);
    assert_eq!(said(&other("0")), "it is a journal of version 0, and this program reads versions 1 to 2");
    assert!(Journal::read(&other("1")).is_ok(), "the release before wrote it");
}

/// A later piece of a journal knows the running tasks, the waiting tasks, and the kernels that stand at a gate.
#[test]
fn a_piece_alone_shows_who_was_there_when_it_began() {
    let whole = eager_start();
    let (before, after) = whole.lines.split_at(6);
    let mut scheduler = whole.header.clone().restore().expect("a scheduler");
    for line in before {
        scheduler.step(line.now, line.event.clone(), &mut Vec::new());
    }
    let text = serde_json::to_string(&JournalHeader::of(&scheduler)).expect("JSON");
    let mut drawing = Drawing::from(&serde_json::from_str(&text).expect("a header"));
    drawing.add(after);
    let shown = printed(&drawing.finish());
    let whole_shown = printed(&Timeline::of(&whole.lines));
    // Slices that end later were open when the piece began.
    for end in
        whole_shown.lines().filter(|line| line.ends_with("] )")).filter(|line| line.as_bytes()[0] > b'5')
    {
        assert!(shown.lines().any(|line| line == end), "no {end:?} in\n{shown}");
    }
    for open in ["first", "second", "is held at the gate"] {
        assert!(shown.contains(open), "no {open:?} in\n{shown}");
    }
}
