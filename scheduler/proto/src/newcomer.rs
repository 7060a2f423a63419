//! Lets a program that starts while its daemon restarts wait for the daemon, instead of running unscheduled.
//!
//! Trap: shim and command line must come to the same answers, or `eager run` would wait where its program does not.
//! After an orderly end the socket is gone, after a kill it has no listener; the state file is there in both cases.

use crate::place::STATE_FILE_NAME;
use std::path::Path;
use std::time::Duration;

/// How long a starting program waits for a daemon where one is to be expected, in seconds.
pub const ENV_CONNECT_MAX: &str = "EAGER_CONNECT_MAX";
/// Its default: the time in which a service manager starts a daemon again several times (specification S-701).
pub const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Behaviour of a program that finds no daemon when it starts: `open` (run as plain CUDA) | `closed` (CUDA calls fail).
/// Not set: as when it loses its daemon.
pub const ENV_ON_NO_DAEMON: &str = "EAGER_ON_NO_DAEMON";
/// Longest wait that can be set: a day. A larger value is taken for a mistake.
const SECONDS_MAX: f64 = 86_400.0;

/// Parses seconds such as `10` or `0.5`; None if they are out of range.
pub fn parse_connect_max(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..=SECONDS_MAX).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// True if a daemon is or was at this client socket, so that another may take its place at any moment.
pub fn daemon_expected(socket: &Path) -> bool {
    socket.exists() || socket.with_file_name(STATE_FILE_NAME).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_as_people_write_them() {
        assert_eq!(parse_connect_max("10"), Some(CONNECT_MAX));
        assert_eq!(parse_connect_max("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(parse_connect_max("0"), Some(Duration::ZERO));
        for bad in ["", "-1", "NaN", "inf", "ten", "86401", "1e300"] {
            assert_eq!(parse_connect_max(bad), None, "{bad}");
        }
    }
}
