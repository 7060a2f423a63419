//! A program that starts while its daemon is being started again waits for it, and does not run free.
//!
//! Trap: shim and command line must come to the same answers, or `eager run` would wait where its program does not. A socket
//! is gone after an orderly end and is nobody's after a kill; the state file is there after both.

use crate::place::STATE_FILE_NAME;
use std::path::Path;
use std::time::Duration;

/// How long a program that starts waits for a daemon, in seconds, where there is one to be expected.
pub const ENV_CONNECT_MAX: &str = "EAGER_CONNECT_MAX";
/// Its default: what a service manager takes to start a daemon again, several times (specification S-701).
pub const CONNECT_MAX: Duration = Duration::from_secs(10);
/// `open` (run as plain CUDA) | `closed` (CUDA calls fail): what a program does that has found none when it starts. Unset: as
/// when it loses one.
pub const ENV_ON_NO_DAEMON: &str = "EAGER_ON_NO_DAEMON";
/// Longest wait that can be asked for: a day. Anything above is a slip of the keyboard.
const SECONDS_MAX: f64 = 86_400.0;

/// Seconds as a person writes them, such as `10` or `0.5`.
pub fn parse_connect_max(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..=SECONDS_MAX).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// Is or was there a daemon at this client socket? Then another may take its place at any moment.
pub fn is_inhabited(socket: &Path) -> bool {
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
