//! `eager calibrate` on a virtual GPU, whose card is known: the resulting card must equal it.

use eager_gpu_model::{Card, parse_cards};
use eager_tests::{eagercc_with, has_toolchain, root, run, run_ok, script, text, tool};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Returns the command that measures a card; the work is small, since a processor does it.
fn calibrate(cards: &str, out: &Path) -> Command {
    let mut command = Command::new(tool("eager"));
    command.args(["calibrate", "--virtual", cards, "--mib", "32", "--rounds", "5", "--work", "64", "--json"]);
    command.arg("--out").arg(out);
    command
}

fn card(list: &str) -> Card {
    parse_cards(list).expect("cards").remove(0)
}

#[test]
fn a_virtual_gpu_is_found_to_be_what_its_card_says() {
    if !has_toolchain("calibration") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let out = folder.path().join("found.toml");
    for name in ["V100-16GB", "H200"] {
        let answer: Value = serde_json::from_str(&run_ok(&mut calibrate(name, &out))).expect("JSON");
        let (found, known) = (card(&out.display().to_string()), card(name));
        assert_eq!((found.sms, found.memory_bytes), (known.sms, known.memory_bytes));
        assert_eq!(found.compute_capability, known.compute_capability);
        let near = |what: &str, found: f64, known: f64, within: f64| {
            assert!(
                (found / known - 1.0).abs() < within,
                "{name}: {what} is {found:e}, the card has {known:e}"
            );
        };
        let (link, expected) = (&found.link, &known.link);
        near("copy up", link.copy_to_device_bytes_per_s, expected.copy_to_device_bytes_per_s, 0.05);
        near("copy down", link.copy_to_host_bytes_per_s, expected.copy_to_host_bytes_per_s, 0.05);
        near("duplex", link.duplex_factor, expected.duplex_factor, 0.05);
        near("prefetch", link.prefetch_bytes_per_s, expected.prefetch_bytes_per_s, 0.05);
        near("migrate", link.migrate_bytes_per_s, expected.migrate_bytes_per_s, 0.1);
        near("batch", link.batch_ns, expected.batch_ns, 0.1);
        assert_eq!(link.eviction_ns, expected.eviction_ns, "of the nearest link");
        // With so little work, a launch is a large part of the time.
        near("memory", found.dram_bytes_per_s, known.dram_bytes_per_s, 0.3);
        let measures = answer["measures"].as_array().expect("measures");
        assert!(measures.iter().any(|row| row["measure"] == "fault_in" && row["modelled_ms"].is_f64()));
        std::fs::remove_file(&out).expect("remove");
    }
}

#[test]
fn what_cannot_be_calibrated_is_said_in_one_line_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("folder");
    let out = folder.path().join("mine.toml");
    let refused = |command: &mut Command| {
        let output = run(command);
        assert!(!output.status.success(), "{output:?}");
        text(&output)
    };
    assert!(refused(&mut calibrate("Z80", &out)).contains("no card `Z80`"));
    let missing = refused(calibrate("H200", &out).arg("--program").arg(folder.path().join("none")));
    assert!(missing.contains("cannot run") && missing.lines().count() == 1, "{missing}");
    let other = refused(calibrate("H200", &out).args(["--program", "/bin/echo"]));
    assert!(other.contains("the calibration program's output: line 1"), "{other}");
    assert!(!out.exists());
    std::fs::write(&out, "precious").expect("write");
    assert!(refused(&mut calibrate("H200", &out)).contains("exists already"));
    assert_eq!(std::fs::read_to_string(&out).expect("read"), "precious");
}

const DEVICE: &str = r#"{"name":"NVIDIA H200","major":9,"minor":0,"memory_bytes":1,"sms":1,"threads_per_sm":1,"blocks_per_sm":1,"shared_bytes_per_sm":1,"registers_per_sm":1}"#;

/// A GPU's time must not be spent on a card that cannot be written.
#[test]
fn a_card_without_a_place_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("folder");
    let place = |name: &str| folder.path().join(name);
    let program = place("program");
    script(&program, &format!("#!/bin/sh\necho $$ >started\necho '{DEVICE}'\nexec sleep 600\n"));
    let refused = |words: &[&str]| {
        let mut command = Command::new(tool("eager"));
        command.args(["calibrate", "--virtual", "H200", "--program", "./program"]).args(words);
        let output = run(command.current_dir(folder.path()));
        let said = text(&output);
        assert!(!output.status.success() && said.lines().count() == 1, "{said}");
        said
    };
    for name in ["mine.toml", "H200.toml"] {
        std::fs::write(place(name), "precious").expect("write");
    }
    // The flags show the conflict: the program is not even started.
    assert!(refused(&["--name", "mine"]).contains("mine.toml exists already"));
    assert!(refused(&["--out", "none/card.toml"]).contains("none/card.toml: cannot be written"));
    assert!(refused(&["--out", "a,b.toml"]).contains("must not contain a comma"));
    assert!(!place("started").exists());
    // The program's first line shows the conflict: it is ended there.
    assert!(refused(&[]).contains("H200.toml exists already"));
    let started = std::fs::read_to_string(place("started")).expect("its process number");
    assert!(!Path::new("/proc").join(started.trim()).exists(), "process {started} is left");
    for name in ["mine.toml", "H200.toml"] {
        assert_eq!(std::fs::read_to_string(place(name)).expect("read"), "precious");
    }
}

/// Runs a program that works like that of `eager calibrate` on the model, but fails half-way or when it runs again.
#[test]
fn a_calibration_that_fails_half_way_says_where_and_keeps_what_it_has() {
    if !has_toolchain("calibration") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let [real, program, out, printed] =
        ["real", "program", "card.toml", "printed.toml"].map(|name| folder.path().join(name));
    let source = root().join("virtual-gpu/model/calibrate/calibrate.cu");
    eagercc_with(&["-O2".into(), "--eager-no-instrument".into()], &[&source], &real);
    let fails = |lines: &str| {
        script(&program, &format!("#!/bin/sh\ncd {}\n{lines}\n", folder.path().display()));
        let output = run(calibrate("H200", &out).arg("--program").arg(&program));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.lines().count(), 1, "{said}");
        std::fs::write(&printed, &output.stdout).expect("write");
        said
    };
    let said = fails("./real \"$@\" | head -5; echo 'calibrate: copy: device lost' >&2; exit 3");
    assert!(said.contains("failed (exit status: 3): calibrate: copy: device lost"), "{said}");
    // The rule of managed memory: stay far below what is free.
    let said = fails("shift; exec ./real 32768 \"$@\"");
    assert!(said.contains("32768 MiB are more than an eighth of the "), "{said}");
    assert!(
        fails("./real \"$@\" | head -5; kill -9 $$").contains("(signal: 9 (SIGKILL)): it printed no message")
    );
    assert!(fails("./real \"$@\" | head -5").contains("output describes no card: no time was measured for "));
    assert!(!out.exists(), "no card of half of the measures");
    // The path was taken during the measurement.
    let said = fails("./real \"$@\"; echo precious >card.toml");
    assert!(said.contains("card.toml: entity already exists: the card is printed instead"), "{said}");
    assert_eq!(std::fs::read_to_string(&out).expect("read"), "precious\n");
    assert_eq!(card(&printed.display().to_string()).sms, card("H200").sms);
    std::fs::remove_file(&out).expect("remove");
    let said = fails("[ -e again ] && { echo no >&2; exit 4; }; touch again; exec ./real \"$@\"");
    assert!(said.contains("card.toml, but the model could not be run with it"), "{said}");
    assert_eq!(card(&out.display().to_string()).sms, card("H200").sms);
}
