//! The web page in a real browser, where there is one.
//!
//! The browser runs without its own sandbox, which root cannot have; it only ever sees this daemon's page.

use crate::support::{answer, begin, slot, wants};
use eager_proto::request::RequestBody;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Deadline that only ends a test that has failed: a browser takes its time on a busy machine.
const BROWSER: Duration = Duration::from_secs(300);

fn browser() -> Option<&'static str> {
    let starts = |name: &&str| {
        let mut command = Command::new(name);
        command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    };
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(starts)
}

/// The document after its scripts have run for a while.
fn document(browser: &str, address: &str) -> String {
    let profile = tempfile::tempdir().expect("folder");
    let output = profile.path().join("document.html");
    let file = std::fs::File::create(&output).expect("file");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(address)
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()
        .expect("browser");
    let deadline = Instant::now() + BROWSER;
    while child.try_wait().expect("wait").is_none() {
        if Instant::now() > deadline {
            // The browser has failed, and must not be left running.
            let _ = child.kill();
            panic!("the browser does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(output).expect("document")
}

#[test]
fn the_page_shows_devices_tasks_and_the_last_minutes_and_runs_no_strangers_code() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no Chromium here; the page's files and its JSON are tested without it");
        return;
    };
    let (daemon, port) = crate::http::with_address(&["--web-page"]);
    let strange = "<img src=x onerror=document.title='owned'>";
    let first = daemon.connect(strange);
    answer(&first, slot(0), begin(&first, slot(0), 700));
    let second = daemon.connect("second");
    let mut wanted = wants(600);
    if let RequestBody::TaskBegin { function, flags, .. } = &mut wanted {
        flags.whole = true;
        *function = "_ZN6solver7advanceIfEEvPT_l".into();
    }
    second.send(wanted, slot(0)).expect("send");
    // Until the daemon shows the task as waiting.
    daemon.until(|row| row.waiting == 1);
    let document = document(browser, &format!("http://127.0.0.1:{port}/"));
    for shown in [
        "data-shown=\"yes\"",
        "1 running · 1 waiting",
        "700 MiB of 1 GiB granted",
        "second (solver::advance)",
        "waits: largest free memory is",
        "<rect class=\"normal\"",
        "<rect class=\"waiting\"",
        "&lt;img src=x onerror=",
    ] {
        assert!(document.contains(shown), "no {shown:?} in\n{document}");
    }
    assert!(!document.contains("<img") && document.contains("<title>Eager</title>"), "{document}");
    assert!(document.contains("role=\"alert\" hidden"), "it complains:\n{document}");
}
