//! Runs the checks for a GPU on the stand-ins for CUDA and NVML: they work, and nothing in their output can be taken
//! for a GPU's.

use eager_tests::gpu::bundle::{Bundle, Devices};
use eager_tests::gpu::make::{Order, make, pack};
use eager_tests::gpu::suite::STEPS;
use eager_tests::{has_toolchain, run, run_ok, text, tool};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const GIB: u64 = 1 << 30;

/// Writes a file by which NVML reports a card with so much memory.
fn card(folder: &Path, bytes: u64) -> std::path::PathBuf {
    let file = folder.join(format!("{bytes}.json"));
    let gpu = json!({
        "name": "H200", "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "compute": [9, 0], "cores": 16896, "total": bytes, "reserved": GIB,
    });
    std::fs::write(&file, json!({ "gpus": [gpu] }).to_string()).expect("write");
    file
}

/// Names two corpus programs: one that succeeds, and one that ends with another exit code.
fn corpus() -> Vec<String> {
    ["straight", "exit_between"].map(String::from).into()
}

fn small_bundle(folder: &Path) -> Bundle {
    let programs = ["bfs", "dwt2d"].map(String::from).into();
    let order =
        Order { devices: Devices::Virtual, programs, suites: vec!["main".to_owned()], corpus: corpus() };
    make(&folder.join("bundle"), &order).expect("a bundle")
}

/// Runs on stand-ins everything that a GPU would run.
#[test]
#[ignore = "takes minutes: make test-long"]
fn long_every_program_of_every_step_is_right_on_stand_ins() {
    if !has_toolchain("the checks for a GPU") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let order = Order { devices: Devices::Virtual, ..Order::whole() };
    let bundle = make(&folder.path().join("bundle"), &order).expect("a bundle");
    let words = ["--sizes", "small", "--rounds", "2"];
    let (output, record) = checked(&bundle, &card(folder.path(), 141 * GIB), &words);
    println!("{}", text(&output));
    assert!(output.status.success());
    let rows = record["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["status"] == "ok"));
    for program in bundle.programs() {
        for step in ["alone", "mix", "overhead", "footprints"] {
            let is_of = |row: &&Value| {
                row["step"] == step
                    && row["what"].as_str().is_some_and(|what| what.starts_with(&program.name))
            };
            assert!(rows.iter().any(|row| is_of(&row)), "no row of {} in {step}", program.name);
        }
    }
    let mix: Vec<&Value> = rows.iter().filter(|row| row["step"] == "mix").collect();
    assert_eq!(eager_tasks(&mix, "case"), 0);
    assert!(eager_tasks(&mix, "eager-opt") > 0, "{mix:?}");
}

/// Counts the tasks of the mix that started eagerly under a policy, and checks the row's count against the recorded
/// tasks.
fn eager_tasks(mix: &[&Value], policy: &str) -> usize {
    let of_policy = |row: &&&Value| row["what"].as_str().is_some_and(|what| what.ends_with(policy));
    let rows = || mix.iter().filter(of_policy);
    let tasks =
        rows().filter_map(|row| row["tasks"].as_array()).flatten().filter_map(Value::as_array).flatten();
    let mut eager = 0;
    for task in tasks {
        assert!(task["wait_s"].is_f64(), "{task}");
        eager += usize::from(task["class"] == "eager");
        assert!(task["promoted_after_s"].is_null() || task["class"] == "eager", "{task}");
    }
    let counted = rows().find_map(|row| row["samples"]["eager_starts"][0].as_f64());
    assert_eq!(counted, Some(eager as f64), "{policy}");
    eager
}

/// Runs the checks on this card, as `run.sh` does; returns output and record.
fn checked(bundle: &Bundle, card: &Path, words: &[&str]) -> (Output, Value) {
    let record = bundle.folder.join("record.json");
    let mut command = Command::new(bundle.tool("gpu-test"));
    command.arg(&bundle.folder).arg("--out").arg(&record).args(words);
    command.env("EAGER_NVML", bundle.libraries().join("libnvidia-ml.so.1")).env("EAGER_FAKE_NVML", card);
    let output = run(&mut command);
    let text = std::fs::read(&record).unwrap_or_default();
    (output, serde_json::from_slice(&text).unwrap_or_default())
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
    assert!(said.contains("No number below was measured on a GPU"), "{said}");
    assert_eq!((&record["devices"], &record["whole"]), (&json!("virtual"), &json!(true)));
    let rows = record["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["status"] == "ok"), "{said}");
    for (step, _) in STEPS {
        assert!(rows.iter().any(|row| row["step"] == step), "no row of {step}: {said}");
    }
    all_at_once(&rows.iter().filter(|row| row["step"] == "mix").collect::<Vec<_>>());
    let found = rows.iter().find(|row| row["step"] == "calibrate" && row["what"] == "card").expect("a card");
    assert!(found["file"].as_str().is_some_and(|text| text.contains("dram_bytes_per_s")), "{found}");
    for name in ["memory, mapped_use", "copies, preferred_host_on_device", "neighbour, low_beside_faulting"] {
        let row = rows.iter().find(|row| row["step"] == "driver" && row["what"] == name);
        let samples = row.and_then(|row| row["samples"].as_object()?.values().next()?.as_array());
        assert_eq!(samples.map(Vec::len), Some(2), "{name}: a sample of each round: {said}");
    }
    // Programs this small need not meet, so an eager start is not required; but its row always states how many there
    // were.
    let pairs = rows.iter().filter(|row| row["step"] == "pairs");
    let counted = |row: &Value| row["said"].as_str().is_some_and(|said| said.contains("eager start(s)"));
    assert!(pairs.clone().count() == 2 && pairs.clone().all(counted), "{said}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let of_gpu = lines.lines().filter(|line| line.starts_with("GPU "));
    assert_eq!(of_gpu.count(), 0, "{lines}");

    let (output, _) = checked(&bundle, &card(folder.path(), 141 * GIB), &["--gpu", "1"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("there is no GPU 1: this machine has 1"), "{}", text(&output));

    // More memory than is free would be managed: the row says so, and the program is not run.
    let record = bundle.folder.join("record.json");
    let whole = std::fs::read(&record).expect("a record");
    let (output, _) = checked(&bundle, &card(folder.path(), 3 * GIB), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("record.json is there already"), "{}", text(&output));
    assert_eq!(std::fs::read(&record).expect("a record"), whole, "a record is not written over");
    std::fs::remove_file(&record).expect("remove");
    let (output, record) = checked(&bundle, &card(folder.path(), 3 * GIB), &["--only", "alone,pairs"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let refused = |row: &&Value| row["said"].as_str().is_some_and(|said| said.contains("managed memory"));
    assert!(record["rows"].as_array().expect("rows").iter().filter(refused).count() > 1, "{record}");
}

/// Checks the rows of two programs under two policies: each has every sample of both rounds.
fn all_at_once(rows: &[&Value]) {
    let samples = |row: &Value, name: &str| row["samples"][name].as_array().map_or(0, Vec::len);
    let is_of_program = |row: &&&Value| {
        ["shared_s", "wait_s", "slowdown"].iter().all(|name| samples(row, name) == 2)
            && row["tasks"].as_array().is_some_and(|rounds| rounds.len() == 2)
    };
    let of_programs = rows.iter().filter(is_of_program);
    let of_policies = rows.iter().filter(|row| samples(row, "makespan_s") == 2);
    assert_eq!((of_programs.count(), of_policies.count(), rows.len()), (4, 2, 7), "{rows:?}");
}

/// Libraries of glibc.
const OF_THE_MACHINE: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"];

/// Returns the files below a folder, without links.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path());
    entries
        .flat_map(|path| match path.symlink_metadata().expect("metadata") {
            of if of.is_dir() => files(&path),
            of if of.is_file() => vec![path],
            _ => vec![],
        })
        .collect()
}

/// Makes a root folder with a shell and glibc, and nothing else.
fn bare_root(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    for name in ["bin", "proc", "tmp", "dev"] {
        std::fs::create_dir_all(root.join(name)).expect("folder");
    }
    let (shell, dirname) = (PathBuf::from("/bin/sh"), PathBuf::from("/usr/bin/dirname"));
    for program in [&shell, &dirname] {
        std::fs::copy(program, root.join("bin").join(program.file_name().expect("a name"))).expect("copy");
    }
    let libraries = run_ok(Command::new("ldd").args([&shell, &dirname]));
    let more = OF_THE_MACHINE.iter().map(|name| format!("/lib/x86_64-linux-gnu/{name}"));
    let of_ldd = libraries.split_whitespace().filter(|word| word.starts_with("/lib")).map(str::to_owned);
    for library in of_ldd.chain(more).filter(|library| !library.ends_with(':')) {
        let place = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(place.parent().expect("folder")).expect("folder");
        std::fs::copy(&library, place).expect("copy");
    }
    root
}

/// Runs the bundle for GPUs in a root folder of its own, where NVML reports a GPU and NVIDIA's runtime finds no driver.
#[test]
fn a_bundle_for_gpus_needs_nothing_else_and_says_row_by_row_what_fails() {
    if !has_toolchain("the bundle for GPUs") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let root = bare_root(folder.path());
    let order = Order {
        devices: Devices::Gpu,
        programs: vec!["bfs".to_owned()],
        suites: vec!["main".to_owned()],
        corpus: corpus(),
    };
    let bundle = make(&root.join("gpu-bundle"), &order).expect("a bundle");
    for file in files(&bundle.folder) {
        let headers = run(Command::new("llvm-readelf-22").arg("-d").arg(&file));
        let needed = String::from_utf8_lossy(&headers.stdout).into_owned();
        let needed =
            needed.lines().filter_map(|line| line.split_once("Shared library: [")?.1.split_once(']'));
        for (library, _) in needed {
            let is_there = OF_THE_MACHINE.contains(&library) || bundle.libraries().join(library).is_file();
            assert!(is_there, "{} needs {library}", file.display());
        }
    }
    let mount = format!("mount -t proc proc {0}/proc && mount --rbind /dev {0}/dev", root.display());
    let inside = |words: &str| {
        let script = format!("{mount} && exec chroot {} /bin/sh -c '{words}'", root.display());
        let mut command = Command::new("unshare");
        run(command.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", &script]))
    };
    if !inside("exit 0").status.success() {
        eprintln!("SKIPPED in part: no namespaces here to try the bundle in a root folder of its own");
        return;
    }
    let skipped = inside("/gpu-bundle/run.sh");
    assert!(skipped.status.success() && text(&skipped).starts_with("SKIPPED: "), "{}", text(&skipped));
    let [machine, library] = [root.join("tmp/machine.json"), root.join("tmp/nvml.so")];
    std::fs::copy(card(folder.path(), 141 * GIB), machine).expect("copy");
    std::fs::copy(tool("libeager_fake_nvml.so"), library).expect("copy");
    std::fs::copy(bundle.libraries().join("libgcc_s.so.1"), root.join("lib/x86_64-linux-gnu/libgcc_s.so.1"))
        .expect("copy");
    let variables = "EAGER_NVML=/tmp/nvml.so EAGER_FAKE_NVML=/tmp/machine.json";
    let output =
        inside(&format!("{variables} /gpu-bundle/run.sh --sizes smoke --rounds 1 --out /tmp/record.json"));
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    let record = std::fs::read(root.join("tmp/record.json")).expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    for (step, _) in STEPS {
        let rows = record["rows"].as_array().expect("rows").iter().filter(|row| row["step"] == step);
        let (count, failed) = (rows.clone().count(), rows.filter(|row| row["status"] == "failed").count());
        assert!(count > 0 && failed == count, "{step}: {failed} of {count} failed without a driver: {said}");
    }
    for case in ["G1", "G2", "G3"] {
        let is_of = |row: &&Value| row["what"].as_str().is_some_and(|what| what.starts_with(case));
        let row = record["rows"].as_array().expect("rows").iter().find(is_of).expect("a row");
        let why = row["said"].as_str().expect("text");
        assert!(why.contains("driver"), "{case} does not say what its program said: {why}");
    }
}

/// Equal folders give equal files, so two people can verify that they have the same bundle.
#[test]
fn a_bundle_is_carried_as_one_file_that_depends_on_nothing_but_the_folder() {
    let packed = |parent: &Path| {
        let folder = parent.join("gpu-bundle");
        std::fs::create_dir_all(folder.join("bin")).expect("folder");
        std::fs::write(folder.join("run.sh"), "#!/bin/sh\n").expect("write");
        std::fs::write(folder.join("bin/gpu-test"), "a program").expect("write");
        std::fs::write(folder.join("BUNDLE.json"), contents().to_string()).expect("write");
        let bundle = Bundle::open(&folder).expect("a bundle");
        let (file, size) = pack(&bundle).expect("a file");
        let bytes = std::fs::read(&file).expect("read");
        assert_eq!((bytes.len() as u64, file.file_name()), (size, Some("gpu-bundle.tar.xz".as_ref())));
        (file, bytes)
    };
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().expect("folder"));
    let (file, bytes) = packed(first.path());
    assert_eq!(packed(second.path()).1, bytes);
    let names = run_ok(Command::new("tar").arg("-tf").arg(file));
    for name in ["gpu-bundle/run.sh", "gpu-bundle/bin/gpu-test", "gpu-bundle/BUNDLE.json"] {
        assert!(names.lines().any(|line| line == name), "{names}");
    }
}

/// `BUNDLE.json` of an empty bundle.
fn contents() -> Value {
    json!({
        "devices": "gpu", "commit": "none", "architectures": ["sm_90"], "compiler": "", "cuda": "",
        "programs": [], "suites": [],
    })
}

#[test]
fn a_machine_without_a_gpu_is_said_loudly_and_a_folder_that_is_none_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let gpu_test = || Command::new(eager_tests::tool("gpu-test"));
    let refused = run(gpu_test().arg(folder.path()));
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("is this the bundle's folder?"), "{}", text(&refused));
    std::fs::write(folder.path().join("BUNDLE.json"), contents().to_string()).expect("write");
    let skipped = run(gpu_test().arg(folder.path()).env("EAGER_NVML", "/nonexistent/libnvidia-ml.so.1"));
    assert!(skipped.status.success() && text(&skipped).starts_with("SKIPPED: "), "{}", text(&skipped));
}
