//! Measures what documents leave open about the driver and a card: the cost of memory that is plain, managed, or mapped
//! to addresses that stay; where bytes are after a copy into managed memory; how a kernel fares beside another process
//! without MPS.
//!
//! Trap: nothing here is right or wrong. A row reports a measurement, and no row fails for its number.

use super::{Context, timed};
use crate::gpu::bundle::{Devices, SERVER};
use crate::gpu::process::{Running, run};
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::series;
use crate::gpu::served::environment;
use eager_proto::ENV_VGPU_SOCKET;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

pub const STEP: &str = "driver";
const MIB: u64 = 1 << 20;
/// Variable with the folder in which programs look for MPS (its user's guide, "Environment Variables").
const ENV_MPS: &str = "CUDA_MPS_PIPE_DIRECTORY";
const START_LIMIT: Duration = Duration::from_secs(60);

/// Parts of the program, by its argument.
const PARTS: [&str; 3] = ["memory", "copies", "neighbour"];

/// MiB of a buffer, and multiply-adds of a thread: about a millisecond on a card.
struct Size {
    mib: u64,
    work: u64,
}

impl Size {
    /// A driver may take memory in pieces of 128 MiB, so a card's buffers are several of these.
    fn on(devices: Devices) -> Size {
        match devices {
            Devices::Gpu => Size { mib: 512, work: 100_000 },
            Devices::Virtual => Size { mib: 8, work: 16 },
        }
    }
}

pub fn rows(context: &Context<'_>) -> Vec<Row> {
    PARTS.into_iter().flat_map(|part| one(context, part)).collect()
}

/// Returns a row for the time of a part, and a row for each of its names.
fn one(context: &Context<'_>, part: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let whole = timed(|| match measured(context, part) {
        Ok(all) => {
            let row = |(name, seen)| series::row(STEP, format!("{part}, {name}"), seen);
            rows.extend(all.into_iter().map(row));
            Row::new(STEP, part).with(Status::Ok, format!("{} measures", rows.len()))
        }
        Err(why) => Row::new(STEP, part).with(Status::Failed, why),
    });
    rows.insert(0, whole);
    rows
}

fn measured(context: &Context<'_>, part: &str) -> Result<series::Series, String> {
    let Size { mib, work } = Size::on(context.bundle.contents.devices);
    // One process at a time has one managed buffer; the other process has none.
    rule::allows(context.gpu.free()?, &[mib * MIB, 0])?;
    let server = match context.bundle.contents.devices {
        Devices::Gpu => None,
        Devices::Virtual => Some(Server::start(context, part)?),
    };
    let mut command = Command::new(context.bundle.driver());
    environment(&mut command, context.bundle, context.gpu);
    // A folder without MPS, even if this machine runs MPS elsewhere.
    command.env(ENV_MPS, context.scratch);
    if let Some(server) = &server {
        command.env(ENV_VGPU_SOCKET, &server.socket);
    }
    command.args([part, &mib.to_string(), &context.rounds.to_string(), &work.to_string()]);
    series::read(&run(&mut command, context.limit)?.succeeded()?.out)
}

/// The server through which two processes share a virtual device; without it each process has a device of its own.
struct Server {
    socket: PathBuf,
    _running: Running,
}

impl Server {
    fn start(context: &Context<'_>, part: &str) -> Result<Server, String> {
        let socket = context.scratch.join(format!("{part}.sock"));
        let mut command = Command::new(context.bundle.tool(SERVER));
        command.args(["--cards", "H200", "--socket"]).arg(&socket);
        let mut running = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        match running.first_line(START_LIMIT) {
            Some(line) if line.contains("virtual GPUs at") => Ok(Server { socket, _running: running }),
            _ => Err(format!("{SERVER} did not start")),
        }
    }
}
