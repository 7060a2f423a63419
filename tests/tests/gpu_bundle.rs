//! The checks for a GPU, run on the stand-ins for CUDA and NVML: they work, and nothing they say can be taken for a GPU's.

use eager_tests::gpu::bundle::{Bundle, Devices};
use eager_tests::gpu::make::{Order, make};
use eager_tests::{has_toolchain, run, text};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const GIB: u64 = 1 << 30;

/// A card with so much memory, as NVML tells of it.
fn card(folder: &Path, bytes: u64) -> std::path::PathBuf {
    let file = folder.join(format!("{bytes}.json"));
    let gpu = json!({
        "name": "H200", "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "compute": [9, 0], "cores": 16896, "total": bytes, "reserved": GIB,
    });
    std::fs::write(&file, json!({ "gpus": [gpu] }).to_string()).expect("write");
    file
}

fn small_bundle(folder: &Path) -> Bundle {
    let programs = ["bfs", "dwt2d"].map(String::from).into();
    let order = Order { devices: Devices::Virtual, programs, suites: vec!["main".to_owned()] };
    make(&folder.join("bundle"), &order).expect("a bundle")
}

/// As `run.sh` starts it, on this card.
fn checked(bundle: &Bundle, card: &Path, words: &[&str]) -> (Output, Value) {
    let record = bundle.folder.join("record.json");
    let mut command = Command::new(bundle.tool("gpu-test"));
    command.arg(&bundle.folder).arg("--out").arg(&record).args(words);
    command.env("EAGER_NVML", bundle.libraries().join("libnvidia-ml.so.1")).env("EAGER_FAKE_NVML", card);
    let output = run(&mut command);
    let record = std::fs::read(&record).unwrap_or_default();
    (output, serde_json::from_slice(&record).unwrap_or_default())
}

#[test]
fn every_check_runs_and_says_that_it_was_virtual() {
    if !has_toolchain("the checks for a GPU") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let bundle = small_bundle(folder.path());
    let (output, record) =
        checked(&bundle, &card(folder.path(), 141 * GIB), &["--sizes", "smoke", "--rounds", "2"]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("No number below is a GPU's"), "{said}");
    assert_eq!(record["devices"], "virtual");
    let rows = record["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["status"] == "ok"), "{said}");
    for step in ["alone", "conformance", "pairs", "overhead", "calls", "footprints", "faults", "end"] {
        assert!(rows.iter().any(|row| row["step"] == step), "no row of {step}: {said}");
    }
    // Programs this small need not meet, so nobody promises an eager start; how many there were is always said.
    let pairs = rows.iter().filter(|row| row["step"] == "pairs");
    let counted = |row: &Value| row["said"].as_str().is_some_and(|said| said.contains("eager start(s)"));
    assert!(pairs.clone().count() == 2 && pairs.clone().all(counted), "{said}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let of_gpu = lines.lines().filter(|line| line.starts_with("GPU "));
    assert_eq!(of_gpu.count(), 0, "{lines}");

    // More than is free would be managed: said, and not asked for.
    let (output, record) = checked(&bundle, &card(folder.path(), 3 * GIB), &["--only", "alone,pairs"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let refused = |row: &&Value| row["said"].as_str().is_some_and(|said| said.contains("managed memory"));
    assert!(record["rows"].as_array().expect("rows").iter().filter(refused).count() > 1, "{record}");
}

#[test]
fn a_machine_without_a_gpu_is_said_loudly_and_a_folder_that_is_none_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let gpu_test = || Command::new(eager_tests::tool("gpu-test"));
    let refused = run(gpu_test().arg(folder.path()));
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("is this the bundle's folder?"), "{}", text(&refused));
    let contents = json!({
        "devices": "gpu", "commit": "none", "architectures": ["sm_90"], "compiler": "", "cuda": "",
        "programs": [], "suites": [],
    });
    std::fs::write(folder.path().join("BUNDLE.json"), contents.to_string()).expect("write");
    let skipped = run(gpu_test().arg(folder.path()).env("EAGER_NVML", "/nonexistent/libnvidia-ml.so.1"));
    assert!(skipped.status.success() && text(&skipped).starts_with("SKIPPED: "), "{}", text(&skipped));
}
