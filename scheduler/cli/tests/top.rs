//! Runs `eager top` on a terminal that the test emulates, and checks the screen and the effect of keys.
//!
//! Trap: wait until the screen shows the expected text, never for a fixed time. Screens are golden files in
//! `screens/`: `EAGER_BLESS=1` writes them; read the new ones.

mod picture;

use eager_proto::admin::{
    AdminReply, AdminRequest, AfterRow, DaemonRow, DeviceRow, TaskRow, from_line, to_line,
};
use eager_proto::snapshot::{Minutes, Moment, Snapshot};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZero;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(30);
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn device(device: u32, granted: u64, over: u64, tasks: (u32, u32)) -> DeviceRow {
    DeviceRow {
        device,
        name: "V100-16GB".into(),
        kind: "virtual".into(),
        capacity_bytes: 16 * GIB,
        granted_bytes: granted * GIB,
        oversubscribed_bytes: over * GIB,
        context_bytes: 300 * MIB * u64::from(tasks.0 + tasks.1),
        resident_bytes: Some(granted * GIB * 3 / 4),
        pinned_bytes: Some(granted * GIB / 2),
        paged_bytes: Some(0),
        utilization_percent: Some(37),
        normal_tasks: tasks.0,
        eager_tasks: tasks.1,
        ..DeviceRow::default()
    }
}

fn running(task: u64, label: &str, class: &str, device: u32, gib: (u64, u64)) -> TaskRow {
    TaskRow {
        task,
        client: task,
        pid: 4200 + task as i32,
        uid: 0,
        label: label.into(),
        function: "runTest".into(),
        state: "running".into(),
        class: class.into(),
        device: Some(device),
        requirement_bytes: gib.1 * GIB,
        grant_bytes: gib.0 * GIB,
        resident_bytes: Some(gib.0 * GIB * 3 / 4),
        pinned_bytes: Some(gib.0 * GIB / 2),
        waited_ms: 120 * task,
        running_ms: 65_000 - 1000 * task,
        gate: "none".into(),
        reason: format!("fits: GPU {device} has 16 GiB free, {} GiB wanted", gib.1),
        ..TaskRow::default()
    }
}

/// Mangled name of `needle_cuda_shared_1`. Screens show the readable name, scripts get the mangled one.
const NEEDLE: &str = "_Z20needle_cuda_shared_1PiS_iiii";

/// Snapshot with three devices, one of them over-subscribed, and tasks of every kind. In the second, 3 GiB more have
/// been paged.
fn moment(second: bool) -> Snapshot {
    let eager = TaskRow {
        gate: "hold".into(),
        held_kernel: NEEDLE.into(),
        held_ms: 4200,
        reason: format!(
            "holds: kernel {NEEDLE} touches 6 GiB; with 12 GiB live that is 112 % of 16 GiB, 100 % allowed"
        ),
        ..running(3, "needle", "eager", 1, (4, 9))
    };
    let waiting = TaskRow {
        state: "waiting".into(),
        class: String::new(),
        device: None,
        grant_bytes: 0,
        running_ms: 0,
        gate: String::new(),
        resident_bytes: None,
        pinned_bytes: None,
        waited_ms: 41_000,
        reason: "waits: 12 GiB fits nowhere (largest free memory is 2 GiB) and no device can take another eager task (at \
                 most 1 each)"
            .into(),
        ..running(4, "srad_v1", "", 0, (0, 12))
    };
    let tasks = vec![
        running(1, "backprop", "normal", 0, (8, 8)),
        running(2, "hotspot3D", "normal", 1, (12, 12)),
        eager,
        waiting,
        running(5, "größer-日本", "promoted", 0, (6, 6)),
    ];
    let mut busy = device(1, 16, 5, (1, 1));
    busy.paged_bytes = Some(if second { 3 * GIB } else { 0 });
    busy.utilization_percent = Some(100);
    let mut foreign = device(2, 0, 0, (0, 0));
    foreign.utilization_percent = None;
    (foreign.foreign_bytes, foreign.unaccounted_bytes) = (2 * GIB, 2 * GIB);
    (foreign.resident_bytes, foreign.pinned_bytes) = (Some(2 * GIB), Some(2 * GIB));
    let daemon = DaemonRow {
        version: "0.2.0".into(),
        policy: "eager-opt".into(),
        uptime_ms: if second { 62_500 } else { 61_500 },
        clients: 5,
        waiting: 1,
        running: 4,
        survives_restart: true,
        ..DaemonRow::default()
    };
    let after = AfterRow {
        pid: 4300,
        uid: 0,
        label: "evaluate".into(),
        after: 2,
        waited_ms: 9000,
        reason: "waits: for task 2 (hotspot3D) to end".into(),
    };
    let devices = vec![device(0, 14, 0, (2, 0)), busy, foreign];
    Snapshot { daemon, devices, tasks, after: vec![after], ..Snapshot::default() }
}

/// A daemon that only answers: with the first moment once, then with the second.
struct Daemon {
    dir: TempDir,
    asked: Arc<AtomicUsize>,
}

impl Daemon {
    fn start(moments: [Snapshot; 2]) -> Daemon {
        Daemon::telling(moments, explained)
    }

    /// `explained` returns the answer about a task.
    fn telling(moments: [Snapshot; 2], explained: impl Fn(u64) -> AdminReply + Send + 'static) -> Daemon {
        let dir = tempfile::tempdir().expect("folder");
        let listener = UnixListener::bind(dir.path().join("admin.sock")).expect("bind");
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let moment = &moments[count.fetch_add(1, Ordering::Relaxed).min(1)];
                answer(stream, moment, &explained);
            }
        });
        Daemon { dir, asked }
    }
}

fn answer(mut stream: UnixStream, moment: &Snapshot, explained: &dyn Fn(u64) -> AdminReply) {
    let mut question = String::new();
    let _ = BufReader::new(&stream).read_line(&mut question);
    let reply = match from_line(question.as_bytes()).expect("a question") {
        AdminRequest::Snapshot { .. } => AdminReply::Snapshot(Box::new(moment.clone())),
        AdminRequest::Explain { task } => explained(task),
        AdminRequest::Cancel { task, .. } => AdminReply::Done { said: format!("task {task} is refused") },
        AdminRequest::Hold { task } => AdminReply::Error { message: format!("task {task} runs already") },
        other => panic!("{other:?}"),
    };
    // An `eager top` that has ended does not read its answer.
    let _ = stream.write_all(&to_line(&reply).expect("a line"));
}

fn explained(task: u64) -> AdminReply {
    let sentences = [
        format!("task {task} (srad_v1, uid 1000) has waited for 41 s for 12 GiB of device memory."),
        "It has place 1 of 1 in the queue of eager-opt: in order of arrival, and no task starts before the first.".into(),
        "GPU 0 lacks 10 GiB: 2 GiB of 12 GiB are free, and it takes no further eager task (at most 1).".into(),
    ];
    AdminReply::Explained { sentences: sentences.into(), devices: Vec::new() }
}

/// `eager top` on a terminal of its own.
struct Terminal {
    child: Child,
    keyboard: File,
    output: std::sync::mpsc::Receiver<Vec<u8>>,
    parser: vt100::Parser,
    _daemon: Daemon,
}

impl Terminal {
    fn open(columns: u16, rows: u16, no_color: bool) -> Terminal {
        Terminal::on(Daemon::start([moment(false), moment(true)]), columns, rows, no_color)
    }

    fn on(daemon: Daemon, columns: u16, rows: u16, no_color: bool) -> Terminal {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a terminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("clone"));
        // The program runs in a session of its own, so that it does not ask the terminal of the test run for its
        // size. It is killed with the test, however that ends, since other children may have inherited the terminal.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "setsid", "--ctty", "--wait", env!("CARGO_BIN_EXE_eager"), "top"])
            .args(["--interval", "0.1", "--run-dir"])
            .arg(daemon.dir.path())
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(end())
            .stdout(end())
            .stderr(end());
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let child = command.spawn().expect("setpriv and setsid (util-linux)");
        drop(pty.slave);
        let keyboard = File::from(pty.master);
        let mut screen = keyboard.try_clone().expect("clone");
        let (tell, output) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // An error marks the end of the terminal.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if tell.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let parser = vt100::Parser::new(some(rows), some(columns), 0);
        Terminal { child, keyboard, output, parser, _daemon: daemon }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("keys");
    }

    fn shown(&self) -> String {
        let lines = self.parser.screen().rows(0, u16::MAX);
        lines.map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// Waits until the screen is as wanted, and returns it.
    fn until(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LONG;
        while !wanted(&self.shown()) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(error) => panic!("{error}; the screen stays\n{}", self.shown()),
            }
        }
        self.shown()
    }

    /// Waits until the screen equals the golden file of this name.
    fn shows(&mut self, name: &str, first: &str) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/screens").join(name);
        if std::env::var_os("EAGER_BLESS").is_some() {
            self.until(|screen| screen.contains(first));
            // Takes output that is still on its way.
            let end = Instant::now() + Duration::from_secs(1);
            while let Ok(bytes) = self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                self.parser.process(&bytes);
            }
            std::fs::write(&path, self.shown()).expect("write");
        }
        let golden =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(golden.contains(first), "{} has no {first:?}", path.display());
        self.until(|screen| screen == golden);
    }

    fn ends(&mut self) -> Option<i32> {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it goes on:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has already ended unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn some(length: u16) -> NonZero<u16> {
    NonZero::new(length).expect("a terminal has cells")
}

/// Text that only the second moment's screen shows.
const PAGES: &str = "up 1m02s";

#[test]
fn a_screen_of_80_by_24_shows_devices_tasks_and_why() {
    let mut top = Terminal::open(80, 24, false);
    top.shows("80x24.txt", PAGES);
    top.press("jjj");
    top.shows("80x24-selected.txt", "task 4: waits");
    top.press("e");
    top.shows("80x24-explain.txt", "place 1 of 1");
    top.press("e/need\r");
    top.shows("80x24-filter.txt", "/ filter: need");
    top.press("q");
    assert_eq!(top.ends(), Some(0));
}

/// The second moment, with five minutes of devices that rise, fall and rest; one reports its temperature.
fn with_minutes() -> Snapshot {
    let mut snapshot = moment(true);
    let row = |device: u32, moments: Vec<Moment>| Minutes { device, moment_ms: 5000, moments };
    let of = |percent: u64, gib: u64| Moment {
        utilization_percent: Some(percent as u32),
        resident_bytes: Some(gib * GIB),
    };
    let rises = (0..60).map(|at| of(at * 100 / 59, 10)).collect();
    let unseen = Moment::default();
    let falls =
        (0..60).map(|at| if (20..25).contains(&at) { unseen } else { of(100 - at, 16 - at / 4) }).collect();
    let rests = vec![Moment { utilization_percent: None, resident_bytes: Some(2 * GIB) }; 12];
    snapshot.minutes = vec![row(0, rises), row(1, falls), row(2, rests)];
    (snapshot.devices[0].temperature_celsius, snapshot.devices[0].power_watts) = (Some(61), Some(212));
    snapshot
}

#[test]
fn the_last_minutes_are_plotted_where_there_is_room() {
    let mut top = Terminal::on(Daemon::start([with_minutes(), with_minutes()]), 120, 32, false);
    top.shows("120x32-plots.txt", "busy ");
    top.press("g");
    top.until(|screen| !screen.contains("busy "));
    top.press("gq");
    assert_eq!(top.ends(), Some(0));
    let mut small = Terminal::on(Daemon::start([with_minutes(), with_minutes()]), 80, 18, false);
    let screen = small.until(|screen| screen.contains(PAGES) && screen.contains("q quit"));
    assert!(!screen.contains("busy ") && screen.contains(" needle "), "{screen}");
    small.press("q");
    small.ends();
}

#[test]
fn keys_are_explained_and_tasks_are_cancelled_and_held() {
    let mut top = Terminal::open(100, 24, false);
    top.until(|screen| screen.contains(PAGES));
    top.press("?");
    top.shows("100x24-keys.txt", "any key: back");
    top.press(" jjjc");
    top.shows("100x24-cancel.txt", "cancel task 4 (srad_v1)?");
    top.press("y");
    top.until(|screen| screen.contains("task 4 is refused"));
    top.press("kh");
    top.until(|screen| screen.contains("the daemon says: task 3 runs already"));
    top.press("jjjc");
    let screen = top.until(|screen| screen.contains("pid 4300 has no task yet"));
    assert!(!screen.contains("runs already"), "{screen}");
    top.press("q");
    assert_eq!(top.ends(), Some(0));
}

#[test]
fn a_screen_of_110_by_22_explains_in_full() {
    let mut top = Terminal::open(110, 22, false);
    top.until(|screen| screen.contains(PAGES));
    top.press("jjje");
    top.shows("110x22-explain.txt", "place 1 of 1");
    top.press("q");
    assert_eq!(top.ends(), Some(0));
}

/// Snapshots that a daemon sent at two moments half a second apart, and its explanation of the task that then stood
/// at its gate: `eager top --json`, twice, and `eager explain TASK --json`, while the programs of
/// `docs/pictures/top.sh` ran.
fn recorded() -> ([Snapshot; 2], u64, AdminReply) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens/recorded");
    let read = |name: &str| {
        let text = std::fs::read(folder.join(name)).expect(name);
        let value: serde_json::Value = serde_json::from_slice(&text).expect(name);
        serde_json::from_value::<AdminReply>(value).expect(name)
    };
    let snapshot = |name: &str| match read(name) {
        AdminReply::Snapshot(snapshot) => *snapshot,
        other => panic!("{name}: {other:?}"),
    };
    let moments = [snapshot("first.json"), snapshot("second.json")];
    let held = moments[1].tasks.iter().find(|row| row.class == "eager" && !row.held_kernel.is_empty());
    let task = held.expect("an eager task that holds").task;
    (moments, task, read("explained.json"))
}

#[test]
fn the_books_picture_is_of_an_eager_task_that_holds_and_says_why() {
    let (moments, task, explained) = recorded();
    let at = moments[1].tasks.iter().position(|row| row.task == task).expect("its row");
    let daemon = Daemon::telling(moments, move |_| explained.clone());
    let mut top = Terminal::on(daemon, 120, 24, false);
    top.until(|screen| screen.contains("WHY"));
    top.press(&"j".repeat(at));
    top.press("e");
    top.shows("120x24-recorded.txt", "has waited at the gate for");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/top.svg");
    let drawn = picture::svg(top.parser.screen());
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&path, &drawn).expect("write");
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == drawn,
        "{}: bless it again",
        path.display()
    );
    top.press("q");
    assert_eq!(top.ends(), Some(0));
}

#[test]
fn narrow_and_wide_terminals_show_what_fits() {
    for (columns, rows, name) in [(40, 14, "40x14.txt"), (140, 30, "140x30.txt")] {
        let mut top = Terminal::open(columns, rows, false);
        top.shows(name, "q quit");
        top.press("q");
        assert_eq!(top.ends(), Some(0));
    }
    let mut tiny = Terminal::open(8, 3, false);
    tiny.until(|screen| screen.contains("eager"));
    tiny.press("q");
    assert_eq!(tiny.ends(), Some(0));
}

#[test]
fn tasks_are_ordered_by_what_is_chosen() {
    let mut top = Terminal::open(80, 24, false);
    top.until(|screen| screen.contains("s sort: task"));
    top.press("sss");
    let at = |screen: &str, label: &str| screen.find(&format!(" {label} ")).unwrap_or(usize::MAX);
    let screen = top.until(|screen| screen.contains("s sort: need"));
    assert!(at(&screen, "srad_v1") < at(&screen, "needle"), "{screen}");
    assert!(at(&screen, "needle") < at(&screen, "backprop"), "{screen}");
    top.press("r");
    let screen = top.until(|screen| screen.contains("need, reversed"));
    assert!(at(&screen, "backprop") < at(&screen, "srad_v1"), "{screen}");
    top.press("\x03");
    assert_eq!(top.ends(), Some(0), "Ctrl-C ends it as q does");
}

/// Returns the colours of the cells that show an eager task's row.
fn colours(top: &Terminal) -> Vec<vt100::Color> {
    let screen = top.parser.screen();
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let lines: Vec<String> = screen.rows(0, columns).collect();
    let row = (0..rows).find(|row| lines[usize::from(*row)].contains(" needle ")).expect("the row");
    (0..columns).filter_map(|column| screen.cell(row, column)).map(vt100::Cell::fgcolor).collect()
}

#[test]
fn colours_are_there_unless_they_are_not_wanted() {
    let mut top = Terminal::open(80, 24, false);
    top.until(|screen| screen.contains("q quit"));
    assert!(colours(&top).contains(&vt100::Color::Idx(3)), "{:?}", colours(&top));
    top.press("q");
    top.ends();
    let mut plain = Terminal::open(80, 24, true);
    plain.until(|screen| screen.contains("q quit"));
    assert!(colours(&plain).iter().all(|colour| *colour == vt100::Color::Default));
    plain.press("q");
    plain.ends();
}

#[test]
fn the_terminal_is_given_back_as_it_was() {
    let mut top = Terminal::open(80, 24, false);
    top.until(|screen| screen.contains("q quit"));
    // The cursor is hidden after drawing, possibly in a separate piece of output.
    while !top.parser.screen().hide_cursor() {
        let bytes = top.output.recv_timeout(LONG).expect("a hidden cursor");
        top.parser.process(&bytes);
    }
    assert!(top.parser.screen().alternate_screen());
    top.press("q");
    assert_eq!(top.ends(), Some(0));
    while let Ok(bytes) = top.output.recv_timeout(LONG) {
        top.parser.process(&bytes);
    }
    assert!(!top.parser.screen().alternate_screen() && !top.parser.screen().hide_cursor());
}

#[test]
fn a_daemon_that_goes_is_said_and_the_last_moment_stays() {
    let mut top = Terminal::open(80, 24, false);
    top.until(|screen| screen.contains(PAGES));
    std::fs::remove_file(top._daemon.dir.path().join("admin.sock")).expect("remove");
    let screen = top.until(|screen| screen.contains("old: no daemon at "));
    assert!(screen.contains("needle"), "{screen}");
    top.press("p");
    top.until(|screen| screen.contains("PAUSED"));
    let asked = top._daemon.asked.load(Ordering::Relaxed);
    assert!(asked >= 2, "asked {asked} times");
    top.press("q");
    assert_eq!(top.ends(), Some(0));
}

fn run(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_eager"))
        .args(["top", "--run-dir"])
        .arg(dir)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("run eager");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn without_a_terminal_one_frame_is_printed() {
    let daemon = Daemon::start([moment(true), moment(true)]);
    let (code, out, said) = run(daemon.dir.path(), &[]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens/once.txt");
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&golden, &out).expect("write");
    }
    assert_eq!(out, std::fs::read_to_string(&golden).expect("golden file"));
    let (code, again, _) = run(daemon.dir.path(), &["--once", "--sort", "need", "--filter", "needle"]);
    assert!(code == Some(0) && again.contains("needle") && !again.contains("backprop"), "{again}");
    let (code, json, _) = run(daemon.dir.path(), &["--json"]);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &value["tasks"][2]["held_kernel"]), (Some(0), &NEEDLE.into()));
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let dir = tempfile::tempdir().expect("folder");
    let (code, out, said) = run(dir.path(), &[]);
    assert!(code == Some(1) && out.is_empty() && said.starts_with("eager: no daemon at "), "{said}");
    for wrong in ["0", "x", "inf", "9999"] {
        let (code, _, said) = run(dir.path(), &["--interval", wrong]);
        assert!(code == Some(2) && said.contains("is not a number from 0.1 to 3600"), "{said}");
    }
}
