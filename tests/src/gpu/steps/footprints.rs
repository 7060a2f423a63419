//! What each kernel touches: `eager profile --gpu` here, against the pages that the virtual GPU counted for the bundle.
//!
//! Trap: the driver takes managed memory from the card in batches, so a small kernel may read as more than it touches. A row
//! that differs is a finding (`MISSED`), no failure.

use super::{Context, timed};
use crate::gpu::bundle::Build;
use crate::gpu::choice::{Sizes, run_of};
use crate::gpu::process::{run, said};
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::environment;
use eager_rodinia::Program;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

pub const STEP: &str = "footprints";
/// The sizes that the bundle's expectations were made at.
pub const SIZES: Sizes = Sizes::Small;
const MIB: f64 = (1 << 20) as f64;

pub fn rows(context: &Context<'_>) -> Vec<Row> {
    let programs = context.bundle.programs();
    programs.into_iter().map(|program| timed(|| row(context, program))).collect()
}

fn row(context: &Context<'_>, program: &Program) -> Row {
    let row = Row::new(STEP, &program.name);
    let found = (|| {
        let bytes = run_of(program, SIZES).bytes;
        rule::allows(context.gpu.free()?, &[bytes])?;
        let out = context.scratch.join(format!("{}.profile", program.name));
        let mut command = Command::new(context.bundle.tool("eager"));
        environment(&mut command, context.bundle, context.gpu);
        command.args(["profile", "--gpu", "--out"]).arg(&out);
        command.arg(context.bundle.program(Build::Eager, &program.binary));
        run(command.args(context.arguments(program, SIZES)?), context.limit)?.succeeded()?;
        let seen = footprints(&out, |kernel| &kernel["footprint_bytes"])?;
        let counted = context.bundle.expected_footprints(&program.name);
        Ok::<_, String>(judged(
            &seen,
            &footprints(&counted, |kernel| &kernel["detail"]["footprint_2m_bytes"])?,
        ))
    })();
    match found {
        Ok((status, said)) => row.with(status, said),
        Err(why) => row.with(Status::Failed, why),
    }
}

/// Kernel → bytes.
fn footprints(path: &Path, of: impl Fn(&Value) -> &Value) -> Result<BTreeMap<String, u64>, String> {
    let text = std::fs::read_to_string(path).map_err(said(path.display()))?;
    let bad = || format!("{} is no profile", path.display());
    let profile: Value = serde_json::from_str(&text).map_err(|_| bad())?;
    let kernels = profile["kernels"].as_object().ok_or_else(bad)?;
    kernels
        .iter()
        .map(|(name, kernel)| Some((name.clone(), of(kernel).as_u64()?)))
        .collect::<Option<_>>()
        .ok_or_else(bad)
}

fn judged(seen: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) -> (Status, String) {
    let mib = |bytes: Option<&u64>| {
        bytes.map_or_else(|| "none".to_owned(), |bytes| format!("{}", *bytes as f64 / MIB))
    };
    let differ: Vec<String> = counted
        .iter()
        .filter(|(name, bytes)| seen.get(*name) != Some(bytes))
        .map(|(name, bytes)| format!("{name} {} MiB, counted {}", mib(seen.get(name)), mib(Some(bytes))))
        .collect();
    let equal = counted.len() - differ.len();
    let said = format!("{equal} of {} kernels as counted", counted.len());
    match differ.is_empty() {
        true => (Status::Ok, said),
        false => (Status::Missed, format!("{said}; {}", differ.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_differs_is_named_with_both() {
        let map = |of: &[(&str, u64)]| of.iter().map(|(name, mib)| ((*name).to_owned(), mib << 20)).collect();
        let counted: BTreeMap<String, u64> = map(&[("one", 42), ("two", 78)]);
        assert_eq!(judged(&counted, &counted), (Status::Ok, "2 of 2 kernels as counted".to_owned()));
        let (status, said) = judged(&map(&[("one", 128)]), &counted);
        assert_eq!(status, Status::Missed);
        assert_eq!(said, "0 of 2 kernels as counted; one 128 MiB, counted 42; two none MiB, counted 78");
    }
}
