//! Runs `eager calibrate` with the bundle's program: a card file that describes the GPU, and the model's time beside
//! each measured time.
//!
//! Trap: on a virtual device the measured times are the model's own, so their agreement shows nothing.

use super::{Context, timed};
use crate::gpu::bundle::Devices;
use crate::gpu::process::{io_error, run};
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::environment;
use serde_json::Value;
use std::process::Command;

pub const STEP: &str = "calibrate";
const MIB: u64 = 1 << 20;
/// MiB of each of the program's buffers; one of the buffers is managed.
const BUFFER_MIB: u64 = 256;
/// Sizes so small that a processor finishes in seconds.
const SMALL: [&str; 6] = ["--mib", "32", "--rounds", "3", "--work", "64"];
const KIB: f64 = 1024.0;

pub fn rows(context: &Context<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let card = timed(|| match calibrated(context) {
        Ok((card, measures)) => {
            rows.extend(measures.iter().map(measure));
            let ratios = || rows.iter().filter_map(|row| row.samples["ratio"].first().copied());
            let [least, most] = [ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max)];
            let said = format!("{} measures; modelled / measured from {least:.2} to {most:.2}", rows.len());
            Row::new(STEP, "card").with(Status::Ok, said).file(card)
        }
        Err(why) => Row::new(STEP, "card").with(Status::Failed, why),
    });
    rows.insert(0, card);
    rows
}

/// Returns the card file's text, and the measures.
fn calibrated(context: &Context<'_>) -> Result<(String, Vec<Value>), String> {
    rule::allows(context.gpu.free()?, &[BUFFER_MIB * MIB])?;
    let card = context.scratch.join("card.toml");
    let mut command = Command::new(context.bundle.tool("eager"));
    environment(&mut command, context.bundle, context.gpu);
    command.args(["calibrate", "--json", "--out"]).arg(&card);
    command.arg("--program").arg(context.bundle.calibration());
    match context.bundle.contents.devices {
        Devices::Gpu => command.args(["--mib", &BUFFER_MIB.to_string()]),
        Devices::Virtual => command.args(["--virtual", "H200"]).args(SMALL),
    };
    let printed = run(&mut command, context.limit)?.succeeded()?.out;
    let answer: Value =
        serde_json::from_str(&printed).map_err(|error| format!("eager calibrate --json: {error}"))?;
    let measures = answer["measures"].as_array().filter(|measures| !measures.is_empty());
    let measures = measures.ok_or("`eager calibrate` reported no measures")?.clone();
    Ok((std::fs::read_to_string(&card).map_err(io_error(card.display()))?, measures))
}

/// Makes the row of a measure; a missing number becomes NaN.
fn measure(measure: &Value) -> Row {
    let number = |name: &str| measure[name].as_f64().unwrap_or(f64::NAN);
    let (amount, measured, modelled) = (number("amount"), number("measured_ms"), number("modelled_ms"));
    let name = measure["measure"].as_str().unwrap_or("unknown");
    let what =
        if amount >= KIB { format!("{name}, {:.0} Ki", amount / KIB) } else { format!("{name}, {amount}") };
    let said = format!(
        "measured {measured:.4} ms (spread {:.1} %), modelled {modelled:.4} ms: {:.2} times",
        number("spread") * 100.0,
        modelled / measured
    );
    Row::new(STEP, what)
        .with(Status::Ok, said)
        .samples("measured_ms", vec![measured])
        .samples("modelled_ms", vec![modelled])
        .samples("ratio", vec![modelled / measured])
}
