//! `make install` and `make uninstall`, and systemd's check of the units.
//!
//! Trap: a unit is only right together with the paths that it names, so it is checked where it was installed.

use eager_tests::{bin_dir, book, root, run, run_ok, text};
use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

fn make(built: &Path, words: &[&str]) -> Command {
    let mut make = Command::new("make");
    make.current_dir(root()).args(words).arg(format!("BUILT={}", built.display()));
    make
}

/// Builds what `make build` makes besides programs: once for all tests, since all use one folder.
fn build_share() {
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        let built = bin_dir();
        let target = built.join("share/doc/eager/third-party.txt");
        run_ok(make(&built, &[]).arg(target));
    });
}

/// Runs `make install` with an empty cargo home and no network, as another user or root would.
fn install(built: &Path, prefix: &Path) -> Output {
    build_share();
    let empty = tempfile::tempdir().expect("folder");
    let mut make = make(built, &["install", &format!("PREFIX={}", prefix.display())]);
    run(make.env("CARGO_HOME", empty.path()).env("CARGO_NET_OFFLINE", "true"))
}

fn installed(prefix: &Path) {
    let done = install(&bin_dir(), prefix);
    assert!(done.status.success(), "{}", text(&done));
}

/// Returns the files and links below a folder, relative to it.
fn files(folder: &Path) -> Vec<String> {
    let listed =
        run_ok(Command::new("find").arg(folder).args(["(", "!", "-type", "d", ")", "-printf", "%P\\n"]));
    let mut listed: Vec<String> = listed.lines().map(str::to_owned).collect();
    listed.sort();
    listed
}

#[test]
fn an_installation_has_all_that_its_units_and_shells_ask_for() {
    let folder = tempfile::tempdir().expect("folder");
    let prefix = folder.path();
    installed(prefix);
    for file in [
        "lib/eager/libeager.so",
        "lib/eager/libeager_preload.so",
        "lib/eager/eager-virtual/libcudart.so.13",
        "lib/cmake/Eager/EagerConfig.cmake",
        "share/doc/eager/README.md",
        "share/doc/eager/eagerd.toml",
        "share/doc/eager/third-party.txt",
        "share/man/man1/eager-run.1",
        "share/eager/python/pyproject.toml",
    ] {
        assert!(prefix.join(file).is_file(), "{file} is not installed");
    }
    let package = prefix.join("share/eager/python/src");
    let python = ["-B", "-c", "import eager, eager.__main__; assert not eager.is_scheduled()"];
    run_ok(Command::new("python3").args(python).env("PYTHONPATH", package));
    let programs = files(&prefix.join("bin"));
    assert_eq!(programs, ["eager", "eager-eval", "eager-sim", "eagercc", "eagerd"]);
    for program in programs {
        let section = if program == "eagerd" { 8 } else { 1 };
        for file in [
            format!("share/man/man{section}/{program}.{section}"),
            format!("share/bash-completion/completions/{program}"),
            format!("share/zsh/vendor-completions/_{program}"),
            format!("share/fish/vendor_completions.d/{program}.fish"),
        ] {
            assert!(prefix.join(&file).is_file(), "{file} is not installed");
        }
        run_ok(
            Command::new("bash")
                .arg("-n")
                .arg(prefix.join("share/bash-completion/completions").join(&program)),
        );
    }
    let units = ["eagerd.service", "eagerd.socket"].map(|unit| prefix.join("lib/systemd/system").join(unit));
    let service = std::fs::read_to_string(&units[0]).expect("the service");
    let starts = format!("ExecStart={}/bin/eagerd --config /etc/eager/eagerd.toml", prefix.display());
    assert!(service.contains(&starts) && !service.contains("/usr/"), "{service}");
    // Under Debian 12's systemd, the daemon was killed without these calls when it confined itself.
    for call in ["seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"] {
        let allowed = service.lines().find(|line| line.starts_with("SystemCallFilter=")).unwrap_or_default();
        assert!(allowed.split_whitespace().any(|word| word == call), "{call} is not in `{allowed}`");
    }
    // systemd must not retry after an error that a person has to repair.
    assert!(service.lines().any(|line| line == "RestartPreventExitStatus=2 78"), "{service}");
    // The daemon accepts the settings that the package brings.
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

#[test]
fn what_was_installed_can_be_taken_away() {
    let folder = tempfile::tempdir().expect("folder");
    let prefix = folder.path();
    std::fs::create_dir_all(prefix.join("share/doc")).expect("folder");
    std::fs::write(prefix.join("share/doc/of-another"), "").expect("write");
    installed(prefix);
    // A file of an older version is removed with the next version.
    let list = prefix.join("lib/eager/installed-files");
    let old = prefix.join("share/old/page");
    std::fs::create_dir_all(old.parent().expect("folder")).expect("folder");
    std::fs::write(&old, "").expect("write");
    let listed = std::fs::read_to_string(&list).expect("the list");
    std::fs::write(&list, format!("{listed}{}\n", old.display())).expect("write");
    installed(prefix);
    assert!(!prefix.join("share/old").exists());
    let words = ["uninstall", &format!("PREFIX={}", prefix.display())];
    run_ok(&mut make(&bin_dir(), &words));
    assert_eq!(files(prefix), ["share/doc/of-another"]);
    assert!(!prefix.join("lib").exists());
    let again = run(&mut make(&bin_dir(), &words));
    assert!(!again.status.success() && text(&again).contains("nothing is installed in "), "{}", text(&again));
}

#[test]
fn half_an_installation_does_not_stay() {
    let folder = tempfile::tempdir().expect("folder");
    build_share();
    // One part was not built.
    let built = folder.path().join("built");
    std::fs::create_dir(&built).expect("folder");
    for file in std::fs::read_dir(bin_dir()).expect("what is built") {
        let file = file.expect("entry");
        if file.file_name() != OsStr::new("libeager.so") {
            symlink(file.path(), built.join(file.file_name())).expect("link");
        }
    }
    let prefix = folder.path().join("one");
    let failed = install(&built, &prefix);
    assert!(text(&failed).contains("libeager.so is not built: run `make build` first"), "{}", text(&failed));
    assert!(!failed.status.success() && !prefix.exists());
    // A file is in the way of the last files.
    let prefix = folder.path().join("two");
    std::fs::create_dir(&prefix).expect("folder");
    std::fs::write(prefix.join("share"), "in the way").expect("write");
    let failed = install(&bin_dir(), &prefix);
    assert!(!failed.status.success() && text(&failed).contains("nothing is installed"), "{}", text(&failed));
    assert_eq!(files(&prefix), ["share"]);
    assert!(!prefix.join("bin").exists());
}

#[test]
fn links_of_installed_pages_lead_to_installed_files() {
    let folder = tempfile::tempdir().expect("folder");
    installed(folder.path());
    let pages = folder.path().join("share/doc/eager");
    let mut broken = Vec::new();
    let mut links = 0;
    for page in files(&pages).into_iter().filter(|file| file.ends_with(".md")) {
        let text = std::fs::read_to_string(pages.join(&page)).expect("page");
        for link in book::read(&text).links.into_iter().filter(|link| !link.target.contains("://")) {
            let file = link.target.split('#').next().unwrap_or_default();
            links += 1;
            if !file.is_empty() && !pages.join(&page).with_file_name(file).is_file() {
                broken.push(format!("{page}:{}: {}", link.line, link.target));
            }
        }
    }
    assert!(links > 50 && broken.is_empty(), "{links} links; {broken:#?}");
}
