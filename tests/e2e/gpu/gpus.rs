//! `eagerd` on the GPUs of a machine as NVML reports them; here a library reports what a file says. Programs run on the
//! stand-in runtime, whose devices have the same uuids in another order.

use eager_tests::daemon::Daemon;
use eager_tests::mps;
use eager_tests::nvml::{GIB, Machine, devices, gpu, machine, wait_for};
use eager_tests::{compiled, has_toolchain, on_stand_in, run_ok, tool, until};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

#[test]
fn a_daemon_serves_the_gpus_that_the_driver_tells_of() {
    let machine = Machine::new(&machine());
    let found = devices(&machine.daemon(&[]));
    let names: Vec<&str> = found.iter().map(|device| device["name"].as_str().expect("name")).collect();
    assert_eq!(names, ["H200", "V100"]);
    let one = devices(&machine.daemon(&["--gpus", "1", "--device-memory", "8GiB"]));
    assert_eq!((one.len(), &one[0]["name"], &one[0]["capacity_bytes"]), (1, &json!("V100"), &json!(8 * GIB)));
}

#[test]
fn a_machine_that_cannot_be_served_is_said_in_one_line() {
    let machine = Machine::new(&machine());
    assert!(machine.refusal(&["--gpus", "0,7"]).contains("no GPU `7`: there are 2"));
    machine.replace(&json!({ "init": 9, "gpus": [] }));
    assert!(machine.refusal(&[]).contains("--virtual 4xV100-16GB"));
    let mut divided = gpu("H200", 0, 141 * GIB);
    divided["mig"] = json!(true);
    machine.replace(&json!({ "gpus": [divided] }));
    assert!(machine.refusal(&[]).contains("divided by MIG"));
    let mut lost = gpu("H200", 0, 141 * GIB);
    lost["lost"] = json!(true);
    machine.replace(&json!({ "gpus": [lost, gpu("V100", 1, 17 * GIB)] }));
    let served = devices(&machine.daemon(&[]));
    assert_eq!((served.len(), &served[0]["name"]), (1, &json!("V100")));
}

#[test]
fn memory_is_reserved_on_a_gpu_that_the_program_knows_by_its_uuid() {
    let machine = Machine::new(&machine());
    let daemon = machine.daemon(&["--gpus", "1", "--policy", "case"]);
    let mut command = Command::new(tool("eager"));
    command.arg("run").arg("--run-dir").arg(daemon.run_dir()).args(["--mem", "1GiB", "--", "sh", "-c"]);
    // The device is the daemon's only one, NVML's second and CUDA's first.
    let printed = run_ok(command.arg("echo $CUDA_VISIBLE_DEVICES"));
    assert_eq!(printed, "GPU-00000000-0000-0000-0000-000000000000\n");
}

#[test]
fn what_others_use_of_a_gpu_is_seen_and_not_given_away() {
    let mut used = machine();
    let machine = Machine::new(&used);
    let daemon = machine.daemon(&["--observe-ms", "20"]);
    used["gpus"][0]["processes"] = json!([{ "pid": 1, "bytes": 5 * GIB }]);
    machine.replace(&used);
    wait_for(&daemon, |device| device["foreign_bytes"] == json!(5 * GIB));
    // Memory of a process that the user may not see in detail counts too.
    used["gpus"][0]["processes"] = json!([{ "pid": 1, "bytes": null }]);
    used["gpus"][0]["used"] = json!(7 * GIB);
    machine.replace(&used);
    wait_for(&daemon, |device| device["foreign_bytes"] == json!(7 * GIB));
}

#[test]
fn how_much_a_gpu_is_used_is_shown_as_long_as_it_tells() {
    let mut busy = machine();
    busy["gpus"][0]["utilization"] = json!(87);
    let machine = Machine::new(&busy);
    let daemon = machine.daemon(&["--observe-ms", "20"]);
    wait_for(&daemon, |device| device["utilization_percent"] == json!(87));
    assert!(devices(&daemon)[1]["utilization_percent"].is_null(), "that one never tells");
    let told = &devices(&daemon)[0];
    assert!(
        told["temperature_celsius"].is_null() && told["power_watts"].is_null(),
        "it does not tell: {told}"
    );
    busy["gpus"][0]["temperature"] = json!(61);
    busy["gpus"][0]["power"] = json!(211_600);
    busy["gpus"][0]["utilization"] = json!(0);
    machine.replace(&busy);
    wait_for(&daemon, |device| device["utilization_percent"] == json!(0));
    let told = &devices(&daemon)[0];
    assert_eq!((&told["temperature_celsius"], &told["power_watts"]), (&json!(61), &json!(212)));
    busy["gpus"][0]["fails"] = json!({ "nvmlDeviceGetUtilizationRates": 3 });
    machine.replace(&busy);
    wait_for(&daemon, |device| device["utilization_percent"].is_null());
}

/// With MPS, one program's page faults stall no other program; and each program keeps the priority that its starter
/// set.
#[test]
fn mps_is_found_at_the_start_and_its_variables_reach_programs() {
    let machine = Machine::new(&machine());
    let pipes = tempfile::tempdir().expect("folder");
    let faults_stall = |stall: bool| {
        let variables = [("CUDA_MPS_PIPE_DIRECTORY", pipes.path())];
        let daemon = machine.daemon_with(&["--gpus", "0", "--policy", "case"], &variables);
        let journal = std::fs::read_to_string(daemon.journal()).expect("a journal");
        assert_eq!(journal.contains("\"faults_stall\":true"), stall, "{journal}");
        let mut command = Command::new(tool("eager"));
        command.arg("run").arg("--run-dir").arg(daemon.run_dir()).args(["--mem", "1GiB", "--", "sh", "-c"]);
        command.arg("echo $CUDA_MPS_CLIENT_PRIORITY, $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
        command.env("CUDA_MPS_CLIENT_PRIORITY", "1").env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50");
        assert_eq!(run_ok(&mut command), "1, 50\n");
    };
    faults_stall(true);
    // The file of an MPS that was killed: its process id belongs to another program now.
    std::fs::write(pipes.path().join(mps::PID_FILE), std::process::id().to_string()).expect("write");
    faults_stall(true);
    let _control = mps::Control::start(pipes.path());
    faults_stall(false);
}

/// The ledger knows a client that NVML does not list, such as one in another container.
#[test]
fn a_client_that_is_not_named_is_not_taken_for_a_stranger() {
    let mut used = machine();
    let machine = Machine::new(&used);
    let daemon = machine.daemon(&["--observe-ms", "20", "--policy", "case"]);
    let holder = daemon.reserve("100GiB", &["sleep", "1000"]);
    wait_for(&daemon, |device| device["granted_bytes"] == json!(100 * GIB));
    let context = devices(&daemon)[0]["context_bytes"].as_u64().expect("bytes");
    // First NVML lists no process, then one whose memory it may not show.
    for processes in [json!([]), json!([{ "pid": 1, "bytes": null }])] {
        used["gpus"][0]["processes"] = processes;
        for (gib, foreign) in [(107, 7 * GIB - context), (100, 0)] {
            used["gpus"][0]["used"] = json!(gib * GIB);
            machine.replace(&used);
            wait_for(&daemon, |device| device["foreign_bytes"] == json!(foreign));
        }
    }
    // After the client's end, its memory belongs to no process until the driver has taken it back.
    drop(holder);
    wait_for(&daemon, |device| device["unaccounted_bytes"] == json!(100 * GIB));
    used["gpus"][0]["used"] = json!(0);
    machine.replace(&used);
    wait_for(&daemon, |device| device["unaccounted_bytes"] == json!(0));
}

/// `device-memory` leaves the rest to other users: their use of the rest takes nothing from programs.
#[test]
fn others_may_use_what_is_kept_for_them() {
    let mut used = machine();
    let machine = Machine::new(&used);
    let daemon = machine.daemon(&["--gpus", "0", "--device-memory", "16GiB", "--observe-ms", "20"]);
    for (gib, in_the_way) in [(100, 0), (126, 2)] {
        used["gpus"][0]["processes"] = json!([{ "pid": 1, "bytes": gib * GIB }]);
        machine.replace(&used);
        let device = wait_for(&daemon, |device| {
            device["foreign_bytes"] == json!(gib * GIB)
                && device["unaccounted_bytes"] == json!(in_the_way * GIB)
        });
        assert_eq!(device["free_bytes"], json!((16 - in_the_way) * GIB), "{device}");
    }
}

#[test]
fn a_gpu_that_needs_a_reset_takes_nothing_new() {
    let mut failing = machine();
    let machine = Machine::new(&failing);
    let daemon = machine.daemon(&["--observe-ms", "20"]);
    // A program's own error comes first: it does not drain the device.
    failing["xids"] = json!([{ "gpu": 0, "number": 31 }, { "gpu": 0, "number": 79 }]);
    machine.replace(&failing);
    wait_for(&daemon, |device| device["drained_ms"].is_u64());
    assert!(devices(&daemon)[1]["drained_ms"].is_null(), "the other one goes on");
}

#[test]
fn a_gpu_that_falls_off_the_bus_takes_nothing_until_it_is_back() {
    let mut failing = machine();
    let machine = Machine::new(&failing);
    let daemon = machine.daemon(&["--observe-ms", "20"]);
    failing["gpus"][0]["lost"] = json!(true);
    machine.replace(&failing);
    wait_for(&daemon, |device| device["lost"] == json!(true));
    assert_eq!(devices(&daemon)[1]["lost"], json!(false), "the other one goes on");
    failing["gpus"][0]["lost"] = json!(false);
    machine.replace(&failing);
    wait_for(&daemon, |device| device["lost"] == json!(false));
}

/// A driver hangs when a device falls off the bus; no grant waits for it.
#[test]
fn a_driver_that_does_not_answer_any_more_costs_nobody_a_grant() {
    let mut hanging = machine();
    let machine = Machine::new(&hanging);
    let daemon = machine.daemon(&["--policy", "case", "--observe-ms", "20"]);
    hanging["gpus"][1]["hang_ms"] = json!(3_600_000);
    machine.replace(&hanging);
    let problem = until(|| {
        let problem = daemon.ask("info")["daemon"]["usage_problem"].as_str().expect("text").to_owned();
        if problem.is_empty() { Err("no problem with the devices") } else { Ok(problem) }
    });
    assert!(problem.starts_with("the devices have not reported memory use for "), "{problem:?}");
    let holder = daemon.reserve("100GiB", &["sleep", "1000"]);
    wait_for(&daemon, |device| device["granted_bytes"].as_u64() >= Some(100 * GIB));
    drop(holder);
    wait_for(&daemon, |device| device["granted_bytes"] == json!(0));
}

/// A missing GPU keeps its number while a program knows it; errors of the other GPUs are still seen.
#[test]
fn a_gpu_that_is_gone_does_not_hide_the_errors_of_others() {
    let before = machine();
    let machine = Machine::new(&before);
    let daemon = machine.daemon(&["--policy", "case"]);
    let _holder = daemon.reserve("100GiB", &["sleep", "1000"]);
    wait_for(&daemon, |device| device["granted_bytes"].as_u64() >= Some(100 * GIB));
    let mut fewer = json!({ "gpus": [before["gpus"][1]] });
    let daemon = machine.restarted(daemon, &fewer, &["--policy", "case", "--observe-ms", "20"]);
    fewer["xids"] = json!([{ "gpu": 0, "number": 79 }]);
    machine.replace(&fewer);
    until(|| {
        let devices = devices(&daemon);
        if devices[1]["drained_ms"].is_null() { Err(format!("{devices:?}")) } else { Ok(()) }
    });
}

/// Returns each device's name, granted GiB, and whether it is drained and lost.
fn standing(daemon: &Daemon) -> Vec<(String, u64, bool, bool)> {
    let row = |device: &Value| {
        let name = device["name"].as_str().expect("name").to_owned();
        let granted = device["granted_bytes"].as_u64().expect("bytes") / GIB;
        (name, granted, !device["drained_ms"].is_null(), device["lost"] == json!(true))
    };
    devices(daemon).iter().map(row).collect()
}

/// A grant names its device by number only, but the driver may count devices anew, and an administrator may choose
/// others.
#[test]
fn a_device_keeps_its_number_over_a_restart_while_programs_know_it() {
    let before = machine();
    let [large, small] = [&before["gpus"][0], &before["gpus"][1]];
    let machine = Machine::new(&before);
    let daemon = machine.daemon(&["--policy", "case"]);
    let holder = daemon.reserve("100GiB", &["sleep", "1000"]);
    wait_for(&daemon, |device| device["granted_bytes"].as_u64() >= Some(100 * GIB));
    let held = ("H200".to_owned(), 100, false, false);

    let more = json!({ "gpus": [gpu("A100", 7, 41 * GIB), small, large] });
    let daemon = machine.restarted(daemon, &more, &["--policy", "case"]);
    let [v100, a100] = ["V100", "A100"].map(|name| (name.to_owned(), 0, false, false));
    assert_eq!(standing(&daemon), [held.clone(), v100.clone(), a100.clone()]);

    let daemon = machine.restarted(daemon, &more, &["--policy", "case", "--gpus", "0,1"]);
    let drained = (held.0.clone(), held.1, true, false);
    assert_eq!(standing(&daemon), [drained.clone(), v100.clone(), a100.clone()]);

    let fewer = json!({ "gpus": [small] });
    let daemon = machine.restarted(daemon, &fewer, &["--policy", "case"]);
    let lost = |row: &(String, u64, bool, bool)| (row.0.clone(), row.1, row.2, true);
    assert_eq!(standing(&daemon), [lost(&drained), v100.clone(), lost(&a100)]);

    drop(holder);
    wait_for(&daemon, |device| device["granted_bytes"] == json!(0));
    let daemon = machine.restarted(daemon, &more, &["--policy", "case"]);
    let back = (held.0, 0, true, false);
    assert_eq!(
        standing(&daemon),
        [a100, v100, back],
        "nobody knows the old numbers; the drain is its device's"
    );
}

/// A program that waits with `eager run --mem` while the daemon is restarted is shown the GPU of its grant, also if that
/// GPU was not there when it asked.
#[test]
fn memory_that_is_granted_after_a_restart_names_a_gpu_that_was_added() {
    let before = json!({ "gpus": [gpu("V100", 0, 17 * GIB)] });
    let machine = Machine::new(&before);
    let daemon = machine.daemon(&["--policy", "case"]);
    let _holder = daemon.reserve("12GiB", &["sleep", "1000"]);
    wait_for(&daemon, |device| device["granted_bytes"].as_u64() >= Some(12 * GIB));
    let mut waits = daemon.script(&["--mem", "10GiB"], "echo $CUDA_VISIBLE_DEVICES");
    let waits = waits.stdout(Stdio::piped()).spawn().expect("start");
    daemon.waiting_task();

    let more = json!({ "gpus": [gpu("H200", 1, 141 * GIB), gpu("V100", 0, 17 * GIB)] });
    let _daemon = machine.restarted(daemon, &more, &["--policy", "case"]);
    let output = waits.wait_with_output().expect("its end");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "GPU-01000000-0000-0000-0000-000000000000\n",
        "the V100 is taken"
    );
}

const PROGRAM: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
__global__ void fill(int *p) { p[threadIdx.x] = threadIdx.x; }
int main() {
  int *p;
  if (cudaMalloc(&p, 1 << 20)) return 1;
  fill<<<1, 64>>>(p);
  int last = 0;
  if (cudaMemcpy(&last, p + 63, sizeof last, cudaMemcpyDeviceToHost)) return 2;
  cudaPointerAttributes of;
  cudaDeviceProp properties;
  if (cudaPointerGetAttributes(&of, p) || cudaGetDeviceProperties(&properties, of.device)) return 3;
  printf("%d on %s\n", last, properties.name);
  return cudaFree(p);
}
"#;

#[test]
fn a_program_runs_on_the_gpu_that_the_daemon_chose_whatever_its_number_is() {
    if !has_toolchain("GPUs by uuid") {
        return;
    }
    let machine = Machine::new(&machine());
    let program = compiled(machine.folder(), "where", PROGRAM);
    for (served, name) in [("0", "H200"), ("1", "V100-16GB")] {
        let daemon = machine.daemon(&["--gpus", served, "--policy", "case"]);
        let printed = run_ok(on_stand_in(&mut daemon.run(&program), "V100-16GB,H200"));
        assert_eq!(printed, format!("63 on Eager virtual {name}\n"));
    }
}
