//! `eager-vgpud`: serves virtual GPUs on a Unix socket until it is stopped.
//!
//! Trap: starters wait for the line on standard output that reports the socket as ready; keep it.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use eager_gpu_model::{Card, Nanos, Options, parse_cards, parse_nonnegative};
use eager_vgpud::{Clock, Endpoint, Scale, Service, Until, serve};

/// Serve virtual GPUs, shared by processes. Everything they report is modelled, nothing is measured on a GPU.
#[derive(Debug, Parser)]
#[command(version = eager_version::LONG)]
struct Arguments {
    /// Devices, such as 4xV100-16GB,1xH200.
    #[arg(long, value_name = "LIST", value_parser = |list: &str| parse_cards(list).map(CardList))]
    cards: CardList,
    /// Unix socket to serve.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Real seconds waited per modelled second; 0: never wait.
    #[arg(long, value_name = "X", default_value = "1", allow_negative_numbers = true, value_parser = parse_nonnegative)]
    time_scale: f64,
    /// Modelled bytes per program byte: 1024 lets a program of 1/1024 size stand for the full one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    memory_scale: u64,
    /// Processes share a device's SMs at the same time, as under NVIDIA's MPS.
    #[arg(long, overrides_with = "no_mps")]
    mps: bool,
    /// Processes take turns on a device (default).
    #[arg(long)]
    no_mps: bool,
    /// How time passes: `real`, scaled by --time-scale, or `virtual`: modelled device time plus the programs' own host
    /// time, independent of how long this machine computes the results.
    #[arg(long, value_enum, default_value_t = ClockName::Real)]
    clock: ClockName,
    /// On a virtual clock: modelled seconds per second of processor time of a program's own threads.
    #[arg(long, value_name = "X", default_value = "1", allow_negative_numbers = true, value_parser = parse_nonnegative)]
    host_factor: f64,
    /// Modelled milliseconds that a process's context on a device takes to make.
    #[arg(long, value_name = "MS", default_value_t = 300)]
    context_ms: u32,
    /// End 10 seconds after the last program and the last daemon have disconnected. Default: end only on SIGTERM or
    /// SIGINT.
    #[arg(long)]
    until_unused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ClockName {
    Real,
    Virtual,
}

#[derive(Debug, Clone)]
struct CardList(Vec<Card>);

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version are not errors. Of an error, the usage and tips are left out, so that the starter can pass
        // the rest on.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            let text = error.to_string();
            let said: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            eprintln!("eager-vgpud: {}", said.join(" ").trim_start_matches("error: "));
            return ExitCode::from(2);
        }
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eager-vgpud: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let endpoint = Endpoint::bind(&arguments.socket)?;
    let scale = Scale { memory: arguments.memory_scale, time: arguments.time_scale };
    let context_create = Nanos(u64::from(arguments.context_ms) * 1_000_000);
    let options = Options { mps: arguments.mps, context_create, ..Options::default() };
    let clock = match arguments.clock {
        ClockName::Real => Clock::Real,
        ClockName::Virtual => Clock::Virtual { host_factor: arguments.host_factor },
    };
    let names: Vec<String> = arguments.cards.0.iter().map(|card| card.name.clone()).collect();
    let service = Service::new(arguments.cards.0, options, scale, clock);
    if arguments.until_unused {
        // A new session, so that signals to the daemon's terminal or process group do not end the programs' devices.
        // Fails only if the process leads a group already.
        let _ = nix::unistd::setsid();
    }
    // The starter may have closed its end of the pipe, so a failed write is ignored.
    let ready = format!("eager-vgpud: virtual GPUs at {}: {}", arguments.socket.display(), names.join(", "));
    let _ = writeln!(std::io::stdout(), "{ready}");
    let until = if arguments.until_unused { Until::Unused } else { Until::Signalled };
    serve(&endpoint, service, until).context("the server cannot continue")
}
