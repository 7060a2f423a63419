//! The head of an HTTP request. Pure; `httparse` reads it.
//!
//! Trap: any web page can lead a browser here under a name of that page's choice (DNS rebinding). So a name in `Host`
//! is accepted only if it was configured; addresses and `localhost` cannot belong to another site.

use httparse::{EMPTY_HEADER, Status};
use std::net::{IpAddr, Ipv6Addr};

/// Longest head in bytes, and most fields in one.
pub const HEAD_BYTES_MAX: usize = 8192;
const FIELDS_MAX: usize = 64;

/// A parsed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub is_head: bool,
    /// Without the query.
    pub path: String,
    pub host: Option<String>,
}

/// Why a request is refused: status and words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub u16, pub &'static str);

/// Parses the request in the bytes so far; `None`: more must come.
pub fn parse(bytes: &[u8]) -> Result<Option<Request>, Refusal> {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    match head.parse(bytes) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal(431, "the request's head is too long"));
        }
        Err(_) => return Err(Refusal(400, "this is not an HTTP request")),
    }
    let is_head = match head.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Refusal(405, "only GET and HEAD are answered: nothing can be changed here")),
    };
    let mut hosts = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().map(|field| String::from_utf8_lossy(field.value).into_owned());
    if hosts.next().is_some() {
        return Err(Refusal(400, "more than one Host field"));
    }
    let target = head.path.unwrap_or("/");
    let path = target.split(['?', '#']).next().unwrap_or("/").to_owned();
    Ok(Some(Request { is_head, path, host }))
}

/// True if the request is meant for this daemon. `names`: the machine's names besides its addresses.
pub fn is_for_this_daemon(host: Option<&str>, names: &[String]) -> bool {
    let Some(name) = host.and_then(without_port) else { return false };
    let is_address = name.parse::<IpAddr>().is_ok();
    is_address
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The host without its port; `None` if the text is no host.
fn without_port(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
        return (is_port && address.parse::<Ipv6Addr>().is_ok()).then_some(address);
    }
    match host.split_once(':') {
        None => Some(host),
        Some((name, port)) => is_number(port).then_some(name),
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_when_its_head_is_whole() {
        let head = "GET /metrics?x=1 HTTP/1.1\r\nHost: localhost:9690\r\nAccept: */*\r\n\r\n";
        for end in 0..head.len() {
            assert_eq!(parse(&head.as_bytes()[..end]), Ok(None), "{end} bytes");
        }
        let request = parse(head.as_bytes()).expect("good").expect("whole");
        let expected =
            Request { is_head: false, path: "/metrics".into(), host: Some("localhost:9690".into()) };
        assert_eq!(request, expected);
        assert!(parse(b"HEAD / HTTP/1.0\r\n\r\n").expect("good").expect("whole").is_head);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let status = |bytes: &[u8]| parse(bytes).expect_err("refused").0;
        assert_eq!(status(b"\x16\x03\x01\x02\x00\x01\x00"), 400, "TLS");
        assert_eq!(status(b"GET / HTTP/3\r\n\r\n"), 400);
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
        assert_eq!(status(b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"), 400);
        let long = [b"GET /".to_vec(), vec![b'a'; HEAD_BYTES_MAX]].concat();
        assert_eq!(status(&long), 431);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(status(many.as_bytes()), 431);
    }

    #[test]
    fn only_addresses_and_known_names_are_ours() {
        let names = ["gpu01.example".to_owned()];
        for ours in [
            "localhost",
            "LOCALHOST:9690",
            "127.0.0.1:9690",
            "[::1]:80",
            "[::1]",
            "192.0.2.7",
            "GPU01.example:1",
        ] {
            assert!(is_for_this_daemon(Some(ours), &names), "{ours}");
        }
        for other in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "[::1",
            "::1:80x",
            "a:b:c",
            "gpu01.example:99999",
            "[evil]:80",
            "localhost:",
        ] {
            assert!(!is_for_this_daemon(Some(other), &names), "{other:?}");
        }
        assert!(!is_for_this_daemon(None, &names));
    }
}
