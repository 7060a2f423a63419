//! Answers each request, from the request, the door that it came in by, and the daemon's own snapshot.
//!
//! Trap: nothing here may ever change anything: only GET and HEAD come this far, and the only request passed on to the
//! daemon is for a snapshot.

use super::request::{Refusal, Request, is_for_this_daemon};
use crate::http::metrics;
use eager_proto::admin::{AdminReply, from_line};
use eager_proto::snapshot::Snapshot;
use std::fmt::Display;

/// Most tasks that the page gets.
const PAGE_TASKS_MAX: u32 = 200;
const TEXT: &str = "text/plain; charset=utf-8";

/// The page and its files: path, media type, content.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("../../web/page.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("../../web/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("../../web/page.js")),
];

/// Headers of every answer: nothing is loaded from or sent to another site, and no other site's page may show or read
/// this one.
const PROTECTION: &str = "Cache-Control: no-store\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Referrer-Policy: no-referrer\r\n\
    X-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\n";

/// What a door serves, and under which names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Serve the page too, with all that is known of tasks.
    pub has_page: bool,
    /// Names of the machine besides its addresses.
    pub names: Vec<String>,
}

/// Why the daemon gave no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum NoSnapshot {
    #[error(transparent)]
    Question(#[from] serde_json::Error),
    #[error(transparent)]
    NotConnected(#[from] nix::Error),
    #[error(transparent)]
    NotAsked(std::io::Error),
    #[error("no answer within {seconds} s ({error})")]
    Late { seconds: i64, error: std::io::Error },
    #[error("its answer is cut off")]
    CutOff,
}

/// A source of snapshots.
pub trait SnapshotSource {
    /// The daemon's answer as JSON, with at most `tasks_max` tasks.
    fn snapshot(&mut self, tasks_max: u32) -> Result<&str, &NoSnapshot>;
}

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub media_type: &'static str,
    pub body: String,
}

impl Answer {
    fn text(status: u16, words: &str) -> Answer {
        Answer { status, media_type: TEXT, body: format!("{words}\n") }
    }

    /// The bytes to send; the connection ends after them.
    pub fn bytes(&self, is_head: bool) -> Vec<u8> {
        let Answer { status, media_type, body } = self;
        let phrase = match status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed\r\nAllow: GET, HEAD",
            408 => "Request Timeout",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} {phrase}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n{PROTECTION}\r\n"
        );
        let body = if is_head { "" } else { body.as_str() };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

impl From<Refusal> for Answer {
    fn from(Refusal(status, words): Refusal) -> Answer {
        Answer::text(status, words)
    }
}

/// The answer to a request.
pub fn answer(request: &Request, access: &Access, daemon: &mut dyn SnapshotSource) -> Answer {
    if !is_for_this_daemon(request.host.as_deref(), &access.names) {
        return Answer::text(
            403,
            "this host name is not configured: use the address, or add the name with --http-hosts",
        );
    }
    match request.path.as_str() {
        "/healthz" => health(daemon),
        "/metrics" => metrics_of(daemon),
        path if !is_page(path) => {
            Answer::text(404, "not found: there is /metrics, /healthz and, if enabled, / (the web page)")
        }
        _ if !access.has_page => Answer::text(404, "the web page is off: start the daemon with --web-page"),
        "/api/snapshot" => match daemon.snapshot(PAGE_TASKS_MAX) {
            Ok(body) => Answer { status: 200, media_type: "application/json", body: body.to_owned() },
            Err(why) => unavailable(why),
        },
        path => {
            let file = FILES.iter().find(|(name, _, _)| *name == path);
            let &(_, media_type, content) = file.unwrap_or(&FILES[0]);
            Answer { status: 200, media_type, body: content.to_owned() }
        }
    }
}

fn is_page(path: &str) -> bool {
    path == "/api/snapshot" || FILES.iter().any(|(name, _, _)| *name == path)
}

fn unavailable(why: &dyn Display) -> Answer {
    Answer::text(503, &format!("the scheduler does not answer: {why}"))
}

fn read(daemon: &mut dyn SnapshotSource) -> Result<Snapshot, Answer> {
    let json = daemon.snapshot(0).map_err(|why| unavailable(why))?;
    match from_line(json.as_bytes()) {
        Ok(AdminReply::Snapshot(snapshot)) => Ok(*snapshot),
        Ok(other) => Err(unavailable(&format!("{other:?}"))),
        Err(error) => Err(unavailable(&error)),
    }
}

/// Reports whether the scheduler decides at all; and, in words only, whether it does so as configured.
fn health(daemon: &mut dyn SnapshotSource) -> Answer {
    let problems = match read(daemon) {
        Ok(Snapshot { daemon, .. }) => daemon.problems(),
        Err(answer) => return answer,
    };
    let words: Vec<String> = problems.into_iter().map(|(_, words)| words).collect();
    Answer::text(200, &if words.is_empty() { "ok".into() } else { format!("degraded: {}", words.join("; ")) })
}

fn metrics_of(daemon: &mut dyn SnapshotSource) -> Answer {
    match read(daemon).map(metrics::exposition) {
        Ok(Ok(body)) => Answer { status: 200, media_type: metrics::MEDIA_TYPE, body },
        Ok(Err(error)) => unavailable(&error),
        Err(answer) => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_proto::admin::DaemonRow;

    struct Daemon(Result<String, NoSnapshot>);

    impl SnapshotSource for Daemon {
        fn snapshot(&mut self, _: u32) -> Result<&str, &NoSnapshot> {
            self.0.as_deref()
        }
    }

    fn line_of(daemon: DaemonRow) -> String {
        let snapshot = Snapshot { daemon, ..Snapshot::default() };
        let line = eager_proto::admin::to_line(&AdminReply::Snapshot(Box::new(snapshot)));
        String::from_utf8(line.expect("a line")).expect("text")
    }

    fn ask(path: &str, has_page: bool, daemon: Result<DaemonRow, NoSnapshot>) -> Answer {
        let request = Request { is_head: false, path: path.into(), host: Some("localhost".into()) };
        answer(&request, &Access { has_page, names: Vec::new() }, &mut Daemon(daemon.map(line_of)))
    }

    #[test]
    fn each_path_has_its_answer() {
        let fine = || Ok(DaemonRow { version: "7".into(), ..DaemonRow::default() });
        let kind = |path: &str, has_page| {
            let answer = ask(path, has_page, fine());
            (answer.status, answer.media_type.split(';').next().expect("type"))
        };
        assert_eq!(kind("/metrics", false), (200, "application/openmetrics-text"));
        assert_eq!(kind("/healthz", false), (200, "text/plain"));
        for (path, media_type) in [
            ("/", "text/html"),
            ("/page.css", "text/css"),
            ("/page.js", "text/javascript"),
            ("/api/snapshot", "application/json"),
        ] {
            assert_eq!((kind(path, true), kind(path, false)), ((200, media_type), (404, "text/plain")));
        }
        assert_eq!((kind("/../etc/passwd", true).0, kind("/favicon.ico", true).0), (404, 404));
        let body = ask("/api/snapshot", true, fine()).body;
        let value: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((&value["reply"], &value["daemon"]["version"]), (&"snapshot".into(), &"7".into()));
    }

    #[test]
    fn health_is_that_the_scheduler_answers() {
        assert_eq!(ask("/healthz", false, Ok(DaemonRow::default())).body, "ok\n");
        let reverted = DaemonRow { policy_state: "reverted: x panicked".into(), ..DaemonRow::default() };
        let answer = ask("/healthz", false, Ok(reverted));
        assert_eq!((answer.status, answer.body.as_str()), (200, "degraded: policy reverted: x panicked\n"));
        let full = DaemonRow {
            journal_problem: "no room".into(),
            usage_problem: "blind".into(),
            ..DaemonRow::default()
        };
        let said =
            "degraded: the journal cannot be written (no room): what is decided is not recorded; blind\n";
        assert_eq!(ask("/healthz", false, Ok(full)).body, said);
        for path in ["/healthz", "/metrics", "/api/snapshot"] {
            let answer = ask(path, true, Err(NoSnapshot::CutOff));
            let said = "the scheduler does not answer: its answer is cut off\n";
            assert_eq!((answer.status, answer.body.as_str()), (503, said), "{path}");
        }
    }

    #[test]
    fn a_name_of_somebody_else_gets_nothing() {
        let request = Request { is_head: false, path: "/".into(), host: Some("evil.example".into()) };
        let access = Access { has_page: true, names: Vec::new() };
        assert_eq!(answer(&request, &access, &mut Daemon(Err(NoSnapshot::CutOff))).status, 403);
    }

    #[test]
    fn an_answer_says_its_length_and_protects_itself() {
        let answer = Answer::text(405, "no");
        let bytes = String::from_utf8(answer.bytes(false)).expect("text");
        assert!(bytes.starts_with("HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n"), "{bytes}");
        assert!(bytes.contains("Content-Length: 3\r\n") && bytes.ends_with("\r\n\r\nno\n"), "{bytes}");
        assert!(bytes.contains("default-src 'none'; script-src 'self'"), "{bytes}");
        assert!(String::from_utf8(answer.bytes(true)).expect("text").ends_with("\r\n\r\n"));
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_nothing_inline() {
        for (name, _, content) in FILES {
            let namespace = "http://www.w3.org/2000/svg";
            let others = content.replace(namespace, "");
            assert!(!others.contains("http://") && !others.contains("https://"), "{name}");
        }
        let page = FILES[0].2;
        assert!(page.contains("lang=\"en\"") && page.contains("name=\"viewport\""));
        assert!(!page.contains("style=") && !page.contains("onclick") && !page.contains("<style"));
    }
}
