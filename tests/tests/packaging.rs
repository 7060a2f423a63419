//! What `make install` puts where, and what systemd says of the units.
//!
//! Trap: a unit is only right together with the paths that it names, so it is looked at where it was installed.

use eager_tests::{bin_dir, root, run, run_ok, text};
use std::path::Path;
use std::process::Command;

fn install(prefix: &Path) {
    let mut make = Command::new("make");
    make.current_dir(root()).arg("install").arg(format!("BUILT={}", bin_dir().display()));
    run_ok(make.arg(format!("PREFIX={}", prefix.display())));
}

#[test]
fn an_installation_has_all_that_its_units_and_shells_ask_for() {
    let folder = tempfile::tempdir().expect("folder");
    let prefix = folder.path();
    install(prefix);
    for file in [
        "bin/eager",
        "bin/eagerd",
        "bin/eagercc",
        "lib/eager/libeager.so",
        "lib/eager/eager-virtual/libcudart.so.13",
        "lib/cmake/Eager/EagerConfig.cmake",
        "share/doc/eager/README.md",
        "share/doc/eager/eagerd.toml",
        "share/man/man1/eager-run.1",
        "share/bash-completion/completions/eager",
        "share/zsh/vendor-completions/_eager",
        "share/fish/vendor_completions.d/eager.fish",
    ] {
        assert!(prefix.join(file).is_file(), "{file} is not installed");
    }
    let units = ["eagerd.service", "eagerd.socket"].map(|unit| prefix.join("lib/systemd/system").join(unit));
    let service = std::fs::read_to_string(&units[0]).expect("the service");
    let starts = format!("ExecStart={}/bin/eagerd --config /etc/eager/eagerd.toml", prefix.display());
    assert!(service.contains(&starts) && !service.contains("/usr/"), "{service}");
    // Without these the daemon was killed as it confined itself, under Debian 12's systemd.
    for call in ["seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"] {
        let allowed = service.lines().find(|line| line.starts_with("SystemCallFilter=")).unwrap_or_default();
        assert!(allowed.split_whitespace().any(|word| word == call), "{call} is not in `{allowed}`");
    }
    // What a person has to mend is tried once.
    assert!(service.lines().any(|line| line == "RestartPreventExitStatus=2 78"), "{service}");
    // It knows the settings that the package brings.
    let shown = Command::new(prefix.join("bin/eagerd"))
        .args(["--run-dir", "/nowhere", "--show-config", "--config"])
        .arg(prefix.join("share/doc/eager/eagerd.toml"))
        .output()
        .expect("run eagerd");
    assert!(shown.status.success(), "{}", text(&shown));

    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no systemd-analyze looks at the units");
        return;
    }
    let mut verify = Command::new("systemd-analyze");
    let said = run(verify.args(["verify", "--man=no"]).args(&units));
    let of_ours = text(&said).lines().filter(|line| line.contains("eagerd")).collect::<Vec<_>>().join("\n");
    assert!(said.status.success() && of_ours.is_empty(), "{}", text(&said));
}
