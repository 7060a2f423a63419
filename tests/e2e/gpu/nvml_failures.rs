//! Answers every query of `eagerd` to NVML with every kind of error. If it concerns one of two GPUs, the other keeps
//! working; if it concerns the library itself, one line says why nothing is served.
//!
//! Trap: a query that fails at the start (the GPU is left out) has another effect than later (the last values stay in
//! use), so each has a table.
//! counting), so each has a table.

use eager_tests::daemon::Daemon;
use eager_tests::nvml::{GIB, Machine, devices, machine, wait_for};
use eager_tests::until;
use serde_json::{Value, json};

const NOT_SUPPORTED: u32 = 3;
const NO_PERMISSION: u32 = 4;
const GPU_IS_LOST: u32 = 15;
const UNKNOWN: u32 = 999;
const CODES: [u32; 4] = [NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, UNKNOWN];

/// Queries without whose answer a GPU cannot be served.
const NEEDED: [&str; 6] = [
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetName",
    "nvmlDeviceGetNumGpuCores",
];
/// Queries of each look at a device.
const LOOKED: [&str; 3] =
    ["nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3"];
/// Queries whose failure leaves the daemon working.
const SPARED: [&str; 7] = [
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceRegisterEvents",
    "nvmlEventSetCreate",
    "nvmlEventSetWait_v2",
    "nvmlSystemGetDriverVersion",
];

/// A machine whose first GPU answers this query with this error; for a query about no GPU, the library answers so.
fn failing(function: &str, code: u32) -> Value {
    let mut failing = machine();
    failing["gpus"][0]["fails"] = json!({ function: code });
    if function.starts_with("nvmlEvent") || function.starts_with("nvmlSystem") {
        failing["fails"] = json!({ function: code });
    }
    failing
}

#[test]
fn a_gpu_that_does_not_tell_what_it_is_is_left_out_and_the_other_is_served() {
    for function in NEEDED {
        for code in CODES {
            let machine = Machine::new(&failing(function, code));
            let served = devices(&machine.daemon(&[]));
            let names: Vec<&str> =
                served.iter().map(|device| device["name"].as_str().expect("name")).collect();
            assert_eq!(names, ["V100"], "{function} = {code}");
        }
        let mut alone = failing(function, UNKNOWN);
        alone["gpus"].as_array_mut().expect("GPUs").truncate(1);
        let said = Machine::new(&alone).refusal(&[]);
        assert!(said.contains("GPU 0 of this machine is not served: "), "{function}: {said}");
    }
}

#[test]
fn a_library_that_does_not_work_is_one_line() {
    for function in ["nvmlInit_v2", "nvmlDeviceGetCount_v2"] {
        for code in CODES {
            let mut broken = machine();
            broken["fails"] = json!({ function: code });
            let said = Machine::new(&broken).refusal(&[]);
            assert!(
                said.contains("no GPU to serve") || said.contains("the number of GPUs"),
                "{function}: {said}"
            );
        }
    }
}

#[test]
fn a_gpu_divided_by_mig_is_left_out_beside_another_and_refused_by_name() {
    let mut divided = machine();
    divided["gpus"][0]["mig"] = json!(true);
    let machine = Machine::new(&divided);
    assert_eq!(devices(&machine.daemon(&[])).len(), 1);
    assert!(machine.refusal(&["--gpus", "0"]).contains("divided by MIG"));
}

/// Waits until the daemon's problem with the devices satisfies `what`; no problem is the empty text.
fn wait_for_problem(daemon: &Daemon, what: impl Fn(&str) -> bool, when: &str) {
    until(|| {
        let info = daemon.ask("info");
        let problem = info["daemon"]["usage_problem"].as_str().unwrap_or_default();
        if what(problem) { Ok(()) } else { Err(format!("{when}: {problem:?}")) }
    });
}

/// Sets the second GPU's foreign use, in GiB.
fn others_on_second(machine: &mut Value, gib: u64) {
    machine["gpus"][1]["processes"] = json!([{ "pid": 1, "bytes": gib * GIB }]);
}

#[test]
fn a_gpu_that_stops_telling_hides_nothing_of_the_other_and_may_come_back() {
    let machine = Machine::new(&machine());
    let daemon = machine.daemon(&["--observe-ms", "10"]);
    let second = |daemon: &Daemon| devices(daemon)[1].clone();
    let mut gib = 0;
    for function in LOOKED {
        for code in CODES {
            let when = format!("{function} = {code}");
            gib = gib % 7 + 1;
            let mut now = failing(function, code);
            others_on_second(&mut now, gib);
            machine.replace(&now);
            until(|| {
                let second = second(&daemon);
                let is_told = second["foreign_bytes"] == json!(gib * GIB);
                if is_told { Ok(()) } else { Err(format!("{when}: {second}")) }
            });
            assert_eq!(second(&daemon)["lost"], json!(false), "{when}");
            if code == GPU_IS_LOST {
                wait_for(&daemon, |device| device["lost"] == json!(true));
            } else {
                wait_for_problem(&daemon, |problem| problem.contains("GPU 0: "), &when);
                assert_eq!(devices(&daemon)[0]["lost"], json!(false), "{when}");
            }
            now["gpus"][0]["fails"] = json!({});
            machine.replace(&now);
            wait_for_problem(&daemon, str::is_empty, &when);
            wait_for(&daemon, |device| device["lost"] == json!(false));
        }
    }
}

#[test]
fn what_was_seen_last_goes_on_counting_while_a_gpu_does_not_tell() {
    let mut used = machine();
    used["gpus"][0]["processes"] = json!([{ "pid": 1, "bytes": 5 * GIB }]);
    let machine = Machine::new(&used);
    let daemon = machine.daemon(&["--observe-ms", "10"]);
    wait_for(&daemon, |device| device["foreign_bytes"] == json!(5 * GIB));
    used["gpus"][0]["fails"] = json!({ "nvmlDeviceGetMemoryInfo_v2": UNKNOWN });
    machine.replace(&used);
    wait_for_problem(&daemon, |problem| problem.contains("GPU 0: "), "unknown error");
    assert_eq!(devices(&daemon)[0]["foreign_bytes"], json!(5 * GIB));
}

#[test]
fn questions_that_only_add_to_what_is_known_may_fail() {
    for function in SPARED {
        for code in CODES {
            let when = format!("{function} = {code}");
            let mut now = failing(function, code);
            now["gpus"][0]["processes"] = json!([{ "pid": 1, "bytes": 5 * GIB }]);
            others_on_second(&mut now, 3);
            let machine = Machine::new(&now);
            let daemon = machine.daemon(&["--observe-ms", "10"]);
            wait_for(&daemon, |device| device["foreign_bytes"] == json!(5 * GIB));
            assert_eq!(devices(&daemon).len(), 2, "{when}");
            wait_for_problem(&daemon, str::is_empty, &when);
        }
    }
}

#[test]
fn a_gpu_that_tells_of_no_errors_does_not_hide_the_errors_of_the_other() {
    for code in CODES {
        let mut now = failing("nvmlDeviceRegisterEvents", code);
        let machine = Machine::new(&now);
        let daemon = machine.daemon(&["--observe-ms", "10"]);
        now["xids"] = json!([{ "gpu": 1, "number": 79 }]);
        machine.replace(&now);
        until(|| {
            let devices = devices(&daemon);
            if devices[1]["drained_ms"].is_null() { Err(format!("{code}: {devices:?}")) } else { Ok(()) }
        });
    }
}
