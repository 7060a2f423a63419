//! Runs `eager mps` with a script in place of NVIDIA's control program, so no GPU and no MPS is needed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Script that records its input in `told` and answers with the contents of `clients` for its server's programs. The
/// daemon is `sleep` under a name that begins as that of MPS's.
const CONTROL: &str = r#"#!/bin/sh
here=$(dirname "$0")
if [ "$1" = -d ]; then
    [ -e "$here/broken" ] && { echo "Cannot find MPS control daemon process" >&2; exit 1; }
    "$here/nvidia-cuda-mps-daemon" 600 >/dev/null 2>&1 &
    echo $! >"$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
    exit 0
fi
while read -r word rest; do
    if [ -e "$here/hangs" ]; then
        echo $$ >"$here/hangs"
        exec sleep 600
    fi
    echo "$word${rest:+ $rest}" >>"$here/told"
    case $word in
    get_server_list) echo 4242 ;;
    get_client_list)
        [ -e "$here/mute" ] && { echo "Failed to send command to MPS control daemon" >&2; exit 1; }
        cat "$here/clients"
        ;;
    quit)
        kill "$(cat "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid")"
        rm "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
        ;;
    esac
done
"#;

struct Mps {
    folder: tempfile::TempDir,
}

impl Mps {
    fn new() -> Mps {
        let mps = Mps { folder: tempfile::tempdir().expect("folder") };
        mps.write("nvidia-cuda-mps-control", CONTROL);
        mps.write("clients", "");
        std::os::unix::fs::symlink("/bin/sleep", mps.path("nvidia-cuda-mps-daemon")).expect("link");
        let script = mps.path("nvidia-cuda-mps-control");
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        mps
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("write");
    }

    fn eager_with(&self, path: &Path, words: &[&str]) -> Output {
        let path = std::env::join_paths([path, Path::new("/usr/bin"), Path::new("/bin")]).expect("a path");
        let mut command = Command::new(env!("CARGO_BIN_EXE_eager"));
        command.arg("mps").args(words).env("PATH", path);
        command.env("CUDA_MPS_PIPE_DIRECTORY", self.folder.path()).output().expect("run eager")
    }

    fn eager(&self, words: &[&str]) -> Output {
        self.eager_with(self.folder.path(), words)
    }

    fn says(&self, words: &[&str]) -> String {
        let output = self.eager(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn refuses(&self, words: &[&str]) -> String {
        refusal(&self.eager(words))
    }
}

impl Drop for Mps {
    fn drop(&mut self) {
        // Nothing to kill after a test that stopped it.
        if let Ok(pid) = std::fs::read_to_string(self.path("nvidia-cuda-mps-control.pid")) {
            let _ = Command::new("kill").arg(pid.trim()).output();
        }
    }
}

fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn it_is_started_shown_and_stopped() {
    let mps = Mps::new();
    assert!(mps.says(&["status"]).starts_with("MPS does not run"));
    assert!(mps.says(&["start"]).starts_with("MPS runs: process "));
    assert!(mps.says(&["start"]).starts_with("MPS runs already: process "));
    mps.write("clients", "7\n8\n");
    let shown: serde_json::Value = serde_json::from_str(&mps.says(&["status", "--json"])).expect("JSON");
    assert_eq!(shown["servers"], serde_json::json!([{ "pid": 4242, "clients": [7, 8] }]));
    assert!(shown["pid"].is_u64());
    mps.write("clients", "");
    assert!(mps.says(&["stop"]).starts_with("MPS ends: process "));
    assert!(mps.says(&["stop"]).starts_with("MPS does not run"));
    let told = std::fs::read_to_string(mps.path("told")).expect("what it was told");
    assert!(told.ends_with("quit\n"), "{told}");
}

#[test]
fn it_is_not_ended_under_programs_unless_that_is_said() {
    let mps = Mps::new();
    mps.says(&["start"]);
    mps.write("clients", "7\n8\n");
    let refusal = mps.refuses(&["stop"]);
    assert!(refusal.contains("2 programs use MPS (processes 7, 8)"), "{refusal}");
    assert!(mps.says(&["status"]).contains("programs 7, 8"));
    mps.says(&["stop", "--within", "5"]);
    let told = std::fs::read_to_string(mps.path("told")).expect("what it was told");
    assert!(told.ends_with("quit -t 5\n"), "{told}");
}

#[test]
fn one_that_died_does_not_run_and_is_started_again() {
    let mps = Mps::new();
    mps.says(&["start"]);
    let pid = mps.path("nvidia-cuda-mps-control.pid");
    let died = Command::new("sh").arg("-c").arg(format!("kill -9 $(cat {})", pid.display())).status();
    assert!(died.expect("a shell").success() && pid.exists(), "its file stays");
    let until = Instant::now() + Duration::from_secs(60);
    while !mps.says(&["status"]).starts_with("MPS does not run") {
        assert!(Instant::now() < until, "it is thought to run");
    }
    assert!(mps.says(&["stop"]).starts_with("MPS does not run"));
    assert!(mps.says(&["start"]).starts_with("MPS runs: process "));
    mps.says(&["stop"]);
}

/// The file with the process number exists, but another program has that number.
#[test]
fn another_program_under_its_number_is_not_taken_for_it() {
    let mps = Mps::new();
    let own = std::process::id().to_string();
    mps.write("nvidia-cuda-mps-control.pid", &own);
    for words in [&["status"][..], &["stop"]] {
        assert!(mps.says(words).starts_with("MPS does not run"), "{words:?}");
    }
    assert!(!mps.path("told").exists(), "nobody was told to end");
    assert!(!mps.says(&["start"]).contains(&format!("process {own},")));
}

/// MPS ends between two requests; the partial result must not be shown as complete.
#[test]
fn one_that_ends_while_it_is_asked_is_said_in_one_line() {
    let mps = Mps::new();
    mps.says(&["start"]);
    mps.write("mute", "");
    for words in [&["status"][..], &["status", "--json"], &["stop"]] {
        let refusal = mps.refuses(words);
        assert!(refusal.contains("(get_client_list 4242) failed: Failed to send command"), "{refusal}");
    }
    std::fs::remove_file(mps.path("mute")).expect("remove");
    mps.says(&["stop"]);
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let mps = Mps::new();
    mps.write("broken", "");
    assert!(mps.refuses(&["start"]).contains("Cannot find MPS control daemon process"));
    let nowhere = tempfile::tempdir().expect("folder");
    let refusal = refusal(&mps.eager_with(nowhere.path(), &["start"]));
    assert!(refusal.contains("there is no nvidia-cuda-mps-control"), "{refusal}");
    for words in [&["stop", "--within", "soon"][..], &["begin"], &[]] {
        assert!(!mps.eager(words).status.success(), "{words:?}");
    }
}

/// The control program hangs, as it does if a GPU hangs. The test waits for as long as `eager` does.
#[test]
#[ignore = "takes half a minute: make test-long"]
fn long_one_that_never_answers_is_given_up_in_one_line_and_none_of_it_is_left() {
    let mps = Mps::new();
    mps.says(&["start"]);
    mps.write("hangs", "");
    let refusal = mps.refuses(&["status"]);
    assert!(refusal.contains("(get_server_list) did not answer in 20 s and was ended"), "{refusal}");
    let asked = std::fs::read_to_string(mps.path("hangs")).expect("its process number");
    assert!(!Path::new("/proc").join(asked.trim()).exists(), "process {asked} is left");
}
