//! The answers of the admin socket as scripts get them (`--json`): golden files.
//!
//! Trap: `EAGER_BLESS=1 cargo test -p eager-proto --test admin` rewrites the files; a field that is removed or renamed
//! breaks scripts, and needs another admin version.

use eager_proto::admin::{
    AdminReply, AfterRow, DaemonRow, DeviceRow, OutlookRow, PolicyRow, ProgramRow, QueueRow, ShareRow,
    TaskRow,
};
use std::path::{Path, PathBuf};

fn task() -> TaskRow {
    TaskRow {
        task: 12,
        client: 3,
        pid: 4242,
        uid: 1000,
        label: "needle".into(),
        function: "main".into(),
        state: "running".into(),
        class: "eager".into(),
        device: Some(1),
        requirement_bytes: 9 << 30,
        grant_bytes: 4 << 30,
        resident_bytes: Some(6 << 30),
        pinned_bytes: Some(5 << 30),
        used_bytes: Some(5 << 30),
        waited_ms: 1500,
        running_ms: 60_000,
        gate: "hold".into(),
        gate_max_bytes: None,
        held_kernel: "needle_cuda_shared_1".into(),
        held_ms: 200,
        reason: "holds: task 7 has kernels on GPU 1".into(),
        priority: 3,
        share: Some(ShareRow { nice: -3, due_percent: 57.5, had_ms: 1200, lag_ms: Some(-2.5) }),
        overstays: false,
    }
}

fn waiting() -> QueueRow {
    QueueRow {
        place: Some(1),
        task: 13,
        pid: 4243,
        uid: 1000,
        label: "srad".into(),
        function: "main".into(),
        requirement_bytes: 12 << 30,
        class: "normal".into(),
        waited_ms: 2500,
        expected_ms: Some(41_000),
        held_by: None,
        priority: 3,
        reason: "waits: largest free memory is 8 GiB on GPU 0; 12 GiB wanted".into(),
    }
}

fn after() -> AfterRow {
    AfterRow {
        pid: 4250,
        uid: 1000,
        label: "evaluate".into(),
        after: 12,
        waited_ms: 3000,
        reason: "waits: for task 12 (needle) to end".into(),
    }
}

fn program() -> ProgramRow {
    ProgramRow {
        client: 2,
        pid: 4200,
        uid: 1000,
        label: "lavaMD".into(),
        function: "main".into(),
        tasks: 1,
        started_ms: 1_764_000_000_000,
        ended_ms: 1_764_000_065_000,
        ran_ms: 61_000,
        waited_ms: 3200,
        held_ms: 400,
        classes: vec!["eager".into(), "promoted".into()],
        devices: vec![1],
        requirement_bytes: 9 << 30,
        grant_bytes: 9 << 30,
        grown_bytes: 7 << 30,
        resident_bytes: Some(6 << 30),
        end: "cancelled".into(),
        reason: "SIGTERM was sent by uid 1000".into(),
    }
}

fn device() -> DeviceRow {
    DeviceRow {
        device: 1,
        name: "V100-16GB".into(),
        kind: "virtual".into(),
        capacity_bytes: 16 << 30,
        granted_bytes: 15 << 30,
        context_bytes: 900 << 20,
        free_bytes: 124 << 20,
        oversubscribed_bytes: 5 << 30,
        resident_bytes: Some(15 << 30),
        pinned_bytes: Some(14 << 30),
        used_bytes: Some(14 << 30),
        foreign_bytes: 0,
        unaccounted_bytes: 0,
        paged_bytes: Some(1 << 30),
        utilization_percent: Some(87),
        temperature_celsius: Some(61),
        power_watts: Some(212),
        normal_tasks: 1,
        eager_tasks: 1,
        drained_ms: Some(125_000),
        lost: false,
    }
}

fn daemon() -> DaemonRow {
    DaemonRow {
        version: "0.2.0".into(),
        commit: "2183783342f3".into(),
        pid: 99,
        policy: "eager-opt".into(),
        uptime_ms: 3_600_000,
        clients: 3,
        waiting: 1,
        running: 2,
        policy_state: "as asked for".into(),
        unattached: 0,
        confinement: "no new privileges, landlock, seccomp".into(),
        survives_restart: true,
        overruns: 0,
        overstays: 0,
        usage_problem: String::new(),
        state_problem: String::new(),
        journal_problem: "No space left on device (os error 28)".into(),
        history_problem: String::new(),
        ended_problem: String::new(),
    }
}

fn outlooks() -> Vec<OutlookRow> {
    let starts = OutlookRow {
        device: 0,
        offer: "starts".into(),
        class: "eager".into(),
        grant_bytes: 4 << 30,
        missing_bytes: 0,
        os_ratio: 1.32,
        reason: String::new(),
    };
    let lacks = OutlookRow {
        device: 1,
        offer: "lacks".into(),
        class: String::new(),
        grant_bytes: 0,
        missing_bytes: 8 << 30,
        os_ratio: 1.5,
        reason: "waits: largest free memory is 4 GiB on GPU 1; 12 GiB wanted".into(),
    };
    vec![starts, lacks]
}

fn policy() -> PolicyRow {
    PolicyRow {
        policy: "case".into(),
        about: "where it fits".into(),
        configured: "eager-opt".into(),
        reverted: String::new(),
        queue: "largest-first".into(),
        eager: false,
        by_program: false,
        gate: "none".into(),
        known: vec!["case".into(), "eager-opt".into()],
    }
}

/// One answer of each kind, by the verb that prints it.
fn answers() -> Vec<(&'static str, AdminReply)> {
    let sentences = vec!["task 13 (srad, uid 1000) has waited for 2.5 s for 12 GiB of device memory.".into()];
    vec![
        ("ps", AdminReply::Ps { tasks: vec![task()], next_task: 14, after: vec![after()] }),
        ("queue", AdminReply::Queue { tasks: vec![waiting()], after: vec![after()] }),
        ("history", AdminReply::History { programs: vec![program()] }),
        ("info", AdminReply::Info { daemon: daemon(), devices: vec![device()] }),
        ("explain", AdminReply::Explained { sentences, devices: outlooks() }),
        ("policy", AdminReply::Policy { policy: policy() }),
        ("drain", AdminReply::Done { said: "GPU 1 is drained: nothing new starts there".into() }),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn answers_are_what_scripts_know() {
    for (verb, reply) in answers() {
        let text = serde_json::to_string_pretty(&reply).expect("plain data") + "\n";
        let path = folder().join(format!("{verb}.json"));
        if std::env::var_os("EAGER_BLESS").is_some() {
            std::fs::write(&path, &text).expect("write");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "{}", path.display());
        assert_eq!(serde_json::from_str::<AdminReply>(&text).expect("its own text"), reply);
    }
}
