//! Runs `eager` against a daemon that only listens, and checks output and exit codes.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

fn eager(run_dir: &Path, verb: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eager"))
        .arg(verb)
        .arg("--run-dir")
        .arg(run_dir)
        .args(arguments)
        .env_remove("EAGER_VGPU_SOCKET")
        .output()
        .expect("run eager")
}

fn printed(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn without_a_daemon_one_line_says_what_to_do() {
    let dir = tempfile::tempdir().expect("folder");
    let nobody = format!("eager: no daemon at {}: start one with `eagerd --virtual", dir.path().display());
    for (verb, arguments) in [("ps", &[][..]), ("info", &["--json"]), ("shutdown", &[]), ("run", &["true"])] {
        let (code, out, said) = printed(&eager(dir.path(), verb, arguments));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{verb}: {said}");
        assert!(said.starts_with(&nobody) && said.lines().count() == 1, "{verb}: {said}");
    }
    // A socket file that no process listens at is no daemon either.
    drop(UnixListener::bind(dir.path().join("admin.sock")).expect("bind"));
    let (code, _, said) = printed(&eager(dir.path(), "ps", &[]));
    assert!(code == Some(1) && said.starts_with(&nobody), "{said}");
}

#[test]
fn unknown_flags_end_with_2() {
    let dir = tempfile::tempdir().expect("folder");
    for (verb, flag) in [("ps", "--jsno"), ("run", "--lable"), ("start", "")] {
        let (code, _, said) = printed(&eager(dir.path(), verb, &[flag]));
        assert_eq!(code, Some(2), "{verb} {flag}: {said}");
    }
    let (code, _, said) = printed(&eager(dir.path(), "run", &["--plain", "true"]));
    assert!(code == Some(2) && said.contains("cannot be used with"), "{said}");
}

#[test]
fn a_program_that_runs_is_the_program() {
    let dir = tempfile::tempdir().expect("folder");
    let _listener = eager_shm::bind_seqpacket(&dir.path().join("client.sock")).expect("bind");
    let script = "echo $EAGER_SOCKET; echo $EAGER_LABEL; echo ${EAGER_VGPU_SOCKET-none}; echo \"$@\"; exit 7";
    let output = eager(dir.path(), "run", &["--label", "job 1", "sh", "-c", script, "sh", "-a", "--json"]);
    let socket = dir.path().join("client.sock");
    let expected = format!("{}\njob 1\nnone\n-a --json\n", socket.display());
    assert_eq!(printed(&output), (Some(7), expected, String::new()));

    let (code, _, said) = printed(&eager(dir.path(), "run", &["no-such-program"]));
    assert!(code == Some(127) && said.starts_with("eager: cannot run no-such-program: "), "{said}");
    let (code, _, said) = printed(&eager(dir.path(), "run", &["/"]));
    assert!(code == Some(126) && said.starts_with("eager: cannot run /: "), "{said}");
    let (code, _, said) = printed(&eager(dir.path(), "run", &["--profile", "/no/such.json", "true"]));
    assert!(code == Some(1) && said.starts_with("eager: profile /no/such.json: "), "{said}");
}

/// Answers one request with `reply`, and returns the request.
fn answer_once(run_dir: &Path, reply: &'static str) -> std::thread::JoinHandle<String> {
    let listener = UnixListener::bind(run_dir.join("admin.sock")).expect("bind");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut question = String::new();
        BufReader::new(stream.try_clone().expect("clone")).read_line(&mut question).expect("question");
        stream.write_all(reply.as_bytes()).expect("answer");
        question
    })
}

#[test]
fn tables_and_json_come_from_the_daemons_answer() {
    const TASKS: &str = concat!(
        r#"{"version":2,"reply":"ps","tasks":[{"task":1,"client":1,"pid":10,"uid":0,"label":"nw","function":"runTest","#,
        r#""state":"running","class":"normal","device":3,"requirement_bytes":1073741824,"#,
        r#""grant_bytes":1073741824,"waited_ms":0,"reason":"fits"}]}"#,
        "\n"
    );
    let dir = tempfile::tempdir().expect("folder");
    let daemon = answer_once(dir.path(), TASKS);
    let table = "\
TASK  PID  USER  LABEL  FUNCTION  CLASS   GPU  NEEDS  GRANT  RESIDENT  PINNED  WAIT  RUN  WHY
   1   10  root  nw     runTest   normal    3  1 GiB  1 GiB         -       -   0 s  0 s  fits
";
    assert_eq!(printed(&eager(dir.path(), "ps", &[])), (Some(0), table.into(), String::new()));
    assert_eq!(daemon.join().expect("daemon"), "{\"version\":2,\"cmd\":\"ps\"}\n");

    let dir = tempfile::tempdir().expect("folder");
    let daemon = answer_once(dir.path(), TASKS);
    let (code, out, _) = printed(&eager(dir.path(), "ps", &["--json"]));
    let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &value["tasks"][0]["grant_bytes"]), (Some(0), &(1u64 << 30).into()));
    daemon.join().expect("daemon");
}

/// As for programs; a place named by a flag takes precedence.
#[test]
fn the_socket_of_the_environment_says_which_daemon_is_asked() {
    const NO: &str = "{\"version\":2,\"reply\":\"error\",\"message\":\"this one\"}\n";
    let (dir, other) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
    let with_socket = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_eager"));
        command.args(words).env_remove("EAGER_VGPU_SOCKET").env("EAGER_CONNECT_MAX", "0.2");
        printed(&command.env("EAGER_SOCKET", dir.path().join("client.sock")).output().expect("run eager"))
    };
    for words in [&["ps"][..], &["info"], &["policy"], &["explain", "1"]] {
        let daemon = answer_once(dir.path(), NO);
        assert_eq!(with_socket(words).2, "eager: the daemon says: this one\n", "{words:?}");
        daemon.join().expect("daemon");
        std::fs::remove_file(dir.path().join("admin.sock")).expect("removed");
    }
    let named = other.path().to_str().expect("text");
    let (_, _, said) = with_socket(&["ps", "--run-dir", named]);
    assert!(said.starts_with(&format!("eager: no daemon at {named}: ")), "{said}");
    let (_, _, said) = with_socket(&["run", "true"]);
    assert!(said.starts_with(&format!("eager: no daemon at {}: ", dir.path().display())), "{said}");
}

/// A busy daemon is asked again, and so is one that closed the connection before it read the request.
#[test]
fn a_daemon_that_is_busy_is_asked_again() {
    let dir = tempfile::tempdir().expect("folder");
    let listener = UnixListener::bind(dir.path().join("admin.sock")).expect("bind");
    let daemon = std::thread::spawn(move || {
        let answers: [&[u8]; 3] = [
            b"",
            b"{\"version\":2,\"reply\":\"busy\",\"message\":\"too many\"}\n",
            b"{\"version\":2,\"reply\":\"done\",\"said\":\"it is done\"}\n",
        ];
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("accept");
            let mut question = String::new();
            if !answer.is_empty() {
                BufReader::new(stream.try_clone().expect("clone")).read_line(&mut question).expect("a line");
            }
            // The first connection ends with the request unread, or before the request came.
            stream.write_all(answer).expect("answer");
        }
    });
    let (code, out, said) = printed(&eager(dir.path(), "drain", &["0"]));
    assert_eq!((code, out.as_str(), said.as_str()), (Some(0), "it is done\n", ""));
    daemon.join().expect("daemon");
}

#[test]
fn an_answer_that_is_none_is_said() {
    for (reply, expected) in [
        ("{\"version\":2,\"reply\":\"error\",\"message\":\"no\"}\n", "eager: the daemon says: no\n"),
        (
            "{\"reply\":\"error\",\"message\":\"no\"}\n",
            "eager: the daemon's answer is not understood; use programs of one build: version 1 of the admin messages",
        ),
        ("nonsense\n", "eager: the daemon's answer is not understood; use programs of one build: "),
    ] {
        let dir = tempfile::tempdir().expect("folder");
        let daemon = answer_once(dir.path(), reply);
        let (code, out, said) = printed(&eager(dir.path(), "info", &[]));
        assert!(code == Some(1) && out.is_empty() && said.starts_with(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        daemon.join().expect("daemon");
    }
}

#[test]
fn a_profile_that_cannot_be_made_is_said_in_one_line() {
    let profile = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_eager")).arg("profile").args(arguments).output();
        printed(&output.expect("run eager"))
    };
    for (arguments, words) in [
        (&["--out", "/no/such/folder/p.json", "true"][..], "no such folder"),
        (&["/no/such/program"], "cannot run /no/such/program"),
        (&["true"], "no profile: the program used no virtual GPU"),
    ] {
        let (code, out, said) = profile(arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{arguments:?}: {said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}
