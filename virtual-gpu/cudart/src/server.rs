//! Connects to the server of the virtual GPUs, and waits for it where a daemon starts it again.
//!
//! Trap: the server ends with the last daemon and program. A program that the daemon has welcomed, and that has not
//! called CUDA yet, is not known to the server: where the daemon restarts just then, there is no server for a moment.

use std::path::Path;
use std::time::{Duration, Instant};

use eager_proto::newcomer::{CONNECT_MAX, ENV_CONNECT_MAX, daemon_expected, parse_connect_max};
use eager_proto::place::CLIENT_SOCKET_NAME;
use eager_vgpu_link::{LinkError, Socket};

/// Interval of the tries: short beside the start of a server.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// # Errors
/// There is no server, and no daemon that starts one in time; or the server refuses.
pub fn connect(path: &Path) -> Result<Socket, LinkError> {
    let is_awaited = daemon_expected(&path.with_file_name(CLIENT_SOCKET_NAME));
    let wait_max = if is_awaited { connect_max() } else { Duration::ZERO };
    let deadline = Instant::now() + wait_max;
    loop {
        match Socket::connect(path) {
            Err(LinkError::Connect { .. } | LinkError::Lost(_)) if Instant::now() < deadline => {
                std::thread::sleep(TRY_EVERY);
            }
            done => return done,
        }
    }
}

/// How long a program waits for its daemon, and so for the daemon's server. The shim reports a value that is no time.
fn connect_max() -> Duration {
    let given = std::env::var(ENV_CONNECT_MAX).ok();
    given.and_then(|text| parse_connect_max(&text)).unwrap_or(CONNECT_MAX)
}
