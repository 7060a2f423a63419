//! The daemon's service to programs: devices, waits, refusals, promotion, gates.

use crate::support::{Daemon, MIB, answer, begin, begin_whole, command, slot, wait_until};
use eager_proto::reply::{
    CLASS_EAGER, CLASS_NORMAL, CLASS_PROMOTED, FLAG_EXTEND_REFUSED, FLAG_GATED, FLAG_HIGH_PRIORITY,
    FLAG_MANAGED, FLAG_WATCH, STATE_BOUND, STATE_FREE, STATE_REFUSED, STATE_WAITING, gate,
};
use eager_proto::request::RequestBody;
use eager_units::AccessClass;
use std::io::{BufRead, BufReader};

#[test]
fn a_task_is_bound_and_its_grant_is_free_after_its_end() {
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("vecadd");
    let bound = answer(&client, slot(3), begin(&client, slot(3), 300));
    assert_eq!((bound.state, bound.device, bound.class), (STATE_BOUND, 0, CLASS_NORMAL));
    assert_eq!((bound.grant, bound.requirement), (300 * MIB, 300 * MIB));
    assert_eq!(bound.flags & (FLAG_GATED | FLAG_MANAGED), 0, "CASE has no gate and plain memory");
    assert!(gate::admits(client.gate(slot(3)), u64::MAX));

    let tasks = daemon.tasks();
    assert_eq!(tasks.len(), 1);
    assert_eq!((tasks[0].label.as_str(), tasks[0].function.as_str()), ("vecadd", "main"));
    assert_eq!((tasks[0].state.as_str(), tasks[0].class.as_str()), ("running", "normal"));
    assert_eq!(tasks[0].pid as u32, std::process::id());
    assert_eq!(daemon.device().granted_bytes, 300 * MIB);

    let ended = answer(&client, slot(3), client.send(RequestBody::TaskEnd, slot(3)).expect("send"));
    assert_eq!(ended.state, STATE_FREE);
    assert_eq!(daemon.device().granted_bytes, 0);
    let again = answer(&client, slot(3), begin(&client, slot(3), 1024));
    assert_eq!((again.state, again.grant), (STATE_BOUND, 1024 * MIB));
}

#[test]
fn who_does_not_fit_waits_until_memory_is_released() {
    let daemon = Daemon::start(&[]);
    let (first, second) = (daemon.connect("first"), daemon.connect("second"));
    answer(&first, slot(0), begin(&first, slot(0), 700));
    let asked = begin_whole(&second, slot(0), 700);
    let waiting = wait_until(&second, slot(0), |cell| cell.state == STATE_WAITING);
    assert!(!waiting.answers(asked), "a wait is no answer");
    assert_ne!(waiting.reason, 0, "a wait has a reason");
    assert!(daemon.tasks()[1].reason.contains("700 MiB"), "{}", daemon.tasks()[1].reason);
    first.send(RequestBody::TaskEnd, slot(0)).expect("send");
    let bound = answer(&second, slot(0), asked);
    assert_eq!((bound.state, bound.grant), (STATE_BOUND, 700 * MIB));
}

#[test]
fn a_waiting_task_may_give_up() {
    let daemon = Daemon::start(&[]);
    let (first, second) = (daemon.connect("first"), daemon.connect("second"));
    answer(&first, slot(0), begin(&first, slot(0), 700));
    begin(&second, slot(0), 700);
    let ended = answer(&second, slot(0), second.send(RequestBody::TaskEnd, slot(0)).expect("send"));
    assert_eq!(ended.state, STATE_FREE);
    assert_eq!(daemon.tasks().len(), 1);
}

#[test]
fn what_can_never_fit_is_refused_and_the_slot_is_free() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let client = daemon.connect("huge");
    let refused = answer(&client, slot(0), begin(&client, slot(0), 2048));
    assert_eq!((refused.state, refused.grant), (STATE_REFUSED, 0));
    assert_ne!(refused.reason, 0);
    let ended = answer(&client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
    assert_eq!(ended.state, STATE_FREE);
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 1)).state, STATE_BOUND);
    // A claim that would overflow every sum is refused like any other.
    assert_eq!(answer(&client, slot(1), begin(&client, slot(1), u64::MAX / MIB)).state, STATE_REFUSED);
}

#[test]
fn an_extension_is_granted_or_refused_without_losing_the_device() {
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("lazy");
    answer(&client, slot(0), begin(&client, slot(0), 100));
    let extend = |mib: u64| {
        let body = RequestBody::TaskExtend { bytes: mib * MIB };
        answer(&client, slot(0), client.send(body, slot(0)).expect("send"))
    };
    let more = extend(50);
    assert_eq!((more.state, more.grant, more.flags & FLAG_EXTEND_REFUSED), (STATE_BOUND, 150 * MIB, 0));
    let refused = extend(5000);
    assert_eq!((refused.state, refused.grant), (STATE_BOUND, 150 * MIB));
    assert_eq!(refused.flags & FLAG_EXTEND_REFUSED, FLAG_EXTEND_REFUSED);
    assert_eq!(extend(1).flags & FLAG_EXTEND_REFUSED, 0, "a later one is judged anew");
    let body = RequestBody::TaskShrink { bytes: 100 * MIB };
    let less = answer(&client, slot(0), client.send(body, slot(0)).expect("send"));
    assert_eq!(less.grant, 51 * MIB);
}

#[test]
fn an_eager_task_is_promoted_when_memory_comes_free() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let (normal, eager) = (daemon.connect("normal"), daemon.connect("eager"));
    answer(&normal, slot(0), begin(&normal, slot(0), 700));
    let started = answer(&eager, slot(0), begin(&eager, slot(0), 800));
    assert_eq!((started.class, started.grant), (CLASS_EAGER, 324 * MIB));
    assert_eq!(started.requirement, 800 * MIB);
    assert_eq!(started.flags & (FLAG_MANAGED | FLAG_GATED), FLAG_MANAGED | FLAG_GATED);
    assert_eq!(started.flags & FLAG_HIGH_PRIORITY, 0);
    assert_eq!(daemon.device().oversubscribed_bytes, 476 * MIB);

    normal.send(RequestBody::TaskEnd, slot(0)).expect("send");
    let promoted = wait_until(&eager, slot(0), |cell| cell.class == CLASS_PROMOTED);
    assert_eq!((promoted.state, promoted.grant), (STATE_BOUND, 800 * MIB));
    assert_eq!(promoted.flags & FLAG_GATED, 0);
    assert_eq!(promoted.flags & FLAG_HIGH_PRIORITY, FLAG_HIGH_PRIORITY);
}

#[test]
fn a_held_kernel_goes_when_the_watched_task_falls_idle() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let (normal, eager) = (daemon.connect("normal"), daemon.connect("eager"));
    answer(&normal, slot(0), begin(&normal, slot(0), 700));
    // A launch that has not ended, counted before the task is watched.
    normal.add_launched(slot(0), 1);
    answer(&eager, slot(0), begin(&eager, slot(0), 800));
    let held = RequestBody::KernelHeld {
        footprint: 100 * MIB,
        static_size: 800 * MIB,
        access: AccessClass::OnePass,
        kernel: "srad".into(),
    };
    answer(&eager, slot(0), eager.send(held, slot(0)).expect("send"));
    wait_until(&normal, slot(0), |cell| cell.flags & FLAG_WATCH != 0);
    assert!(!gate::is_open(eager.gate(slot(0))), "a normal kernel runs");
    assert!(daemon.tasks()[1].reason.starts_with("holds: "), "{}", daemon.tasks()[1].reason);

    normal.add_retired(slot(0), 1);
    normal.send(RequestBody::Idle, slot(0)).expect("send");
    let open = wait_until(&eager, slot(0), |cell| gate::is_open(cell.gate));
    assert!(gate::admits(open.gate, 100 * MIB));
}

/// Runs as a child process: holds 700 MiB until it is killed.
#[test]
#[ignore = "the body of a child process of another test"]
fn role_holder() {
    let Some(socket) = std::env::var_os("EAGER_TEST_SOCKET") else {
        eprintln!("SKIPPED: only run as a child process");
        return;
    };
    let hello = eager_proto::hello::Hello::new("holder");
    let client = eager_shm::client::ClientConnection::connect(socket.as_ref(), &hello, crate::support::LONG);
    let client = client.expect("connect");
    answer(&client, slot(0), begin(&client, slot(0), 700));
    println!("\nholding");
    std::io::stdin().read_line(&mut String::new()).expect("stdin");
}

#[test]
fn kill_9_frees_the_grant_even_of_a_zombie() {
    let daemon = Daemon::start(&[]);
    let mut holder = std::process::Command::new(std::env::current_exe().expect("own executable"))
        .args(["--exact", "service::role_holder", "--ignored", "--nocapture"])
        .env("EAGER_TEST_SOCKET", daemon.socket())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("child");
    let mut lines = BufReader::new(holder.stdout.take().expect("stdout")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "holding")), "the child got no device");
    let client = daemon.connect("next");
    let asked = begin_whole(&client, slot(0), 700);
    wait_until(&client, slot(0), |cell| cell.state == STATE_WAITING);
    let killed_at = std::time::Instant::now();
    holder.kill().expect("kill -9");
    // The parent has not waited for the child yet: it is a zombie, and its process id is still taken.
    assert_eq!(answer(&client, slot(0), asked).state, STATE_BOUND);
    eprintln!("kill -9 to the next binding: {:?}", killed_at.elapsed());
    holder.wait().expect("reap");
}

#[test]
fn the_journal_replays_to_the_same_decisions() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("journal.jsonl");
    std::fs::write(&path, "an older journal\n").expect("older");
    let mut daemon =
        Daemon::start(&["--policy", "eager-opt", "--journal", path.to_str().expect("a plain path")]);
    let (normal, eager) = (daemon.connect("normal"), daemon.connect("eager"));
    answer(&normal, slot(0), begin(&normal, slot(0), 700));
    answer(&eager, slot(0), begin(&eager, slot(0), 800));
    normal.send(RequestBody::TaskEnd, slot(0)).expect("send");
    wait_until(&eager, slot(0), |cell| cell.class == CLASS_PROMOTED);
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(daemon.end().0.success());

    let text = std::fs::read_to_string(&path).expect("journal");
    let mut lines = text.lines();
    let header = serde_json::from_str(lines.next().expect("header")).expect("a header");
    let steps: Vec<_> = lines.map(|line| serde_json::from_str(line).expect("a step")).collect();
    assert!(steps.len() >= 6, "a device, two clients, two begins, an end: {text}");
    let scheduler = eager_core::journal::replay(header, steps).expect("the same decisions");
    assert_eq!(scheduler.tasks().count(), 1);
    let older = std::fs::read_to_string(folder.path().join("journal.jsonl.1")).expect("kept");
    assert_eq!(older, "an older journal\n");
}

#[test]
fn shown_settings_say_where_they_came_from_and_give_the_same_again() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("eagerd.toml");
    std::fs::write(&file, "# ours\npolicy = \"case\"\nclients-max = 7\n").expect("write");
    let show = |config: &std::path::Path| {
        let mut command = command(dir.path());
        command.args(["--show-config", "--watchdog", "3", "--config"]).arg(config);
        let output = command.env("EAGERD_OBSERVE_MS", "250").output().expect("run");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let shown = show(&file);
    let named = file.display();
    for line in [
        format!("policy = \"case\"  # file {named}\n"),
        "watchdog = 3  # flag --watchdog\n".into(),
        "observe-ms = 250  # environment EAGERD_OBSERVE_MS\n".into(),
        "eager_per_device = 1  # default\n".into(),
    ] {
        assert!(shown.contains(&line), "no {line:?} in\n{shown}");
    }
    let again = dir.path().join("again.toml");
    std::fs::write(&again, &shown).expect("write");
    let values = |text: &str| {
        text.lines().map(|line| line.split("  # ").next().unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(values(&show(&again)), values(&shown));
}
