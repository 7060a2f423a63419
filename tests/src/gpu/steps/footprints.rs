//! Compares what each kernel touches: `eager profile --gpu` here, against the pages that the virtual GPU counted for
//! the bundle.
//!
//! Trap: the driver moves managed memory in blocks of 2 MiB, and the two sides count blocks from different starts, so a
//! difference of less than one block counts as none. A row that differs by more is a finding (`MISSED`), not a failure.

use super::{Context, timed};
use crate::gpu::bundle::Build;
use crate::gpu::choice::{Sizes, run_of};
use crate::gpu::process::{io_error, run};
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::environment;
use eager_journal::names;
use eager_rodinia::Program;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

pub const STEP: &str = "footprints";
/// Sizes at which the bundle's expectations were made.
pub const SIZES: Sizes = Sizes::Small;
const MIB: f64 = (1 << 20) as f64;
/// Bytes of the blocks in which the driver moves memory.
const BLOCK: u64 = 2 << 20;

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
        let (seen, counted) = (profile(&out)?, profile(&context.bundle.expected_footprints(&program.name))?);
        let method = seen["measured_by"].as_str().unwrap_or("an unknown method");
        let (status, said) = judged(
            &footprints(&seen, |kernel| &kernel["footprint_bytes"])?,
            &footprints(&counted, |kernel| &kernel["detail"]["footprint_2m_bytes"])?,
        );
        Ok::<_, String>((status, format!("by {method}: {said}")))
    })();
    match found {
        Ok((status, said)) => row.with(status, said),
        Err(why) => row.with(Status::Failed, why),
    }
}

fn profile(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(io_error(path.display()))?;
    serde_json::from_str(&text).map_err(|_| format!("{} is no profile", path.display()))
}

/// Returns bytes by kernel.
fn footprints(profile: &Value, of: impl Fn(&Value) -> &Value) -> Result<BTreeMap<String, u64>, String> {
    let kernels = profile["kernels"].as_object();
    let sizes = kernels.and_then(|kernels| {
        kernels.iter().map(|(name, kernel)| Some((name.clone(), of(kernel).as_u64()?))).collect()
    });
    sizes.ok_or_else(|| "a profile without the sizes of its kernels".to_owned())
}

fn judged(seen: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) -> (Status, String) {
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / MIB);
    // For a kernel that touches less than a block, both sides must at least agree that it touches something.
    let near = |seen: u64, counted: u64| seen.abs_diff(counted) < BLOCK && (seen == 0) == (counted == 0);
    let is_equal = |name: &str, counted: u64| seen.get(name).is_some_and(|&seen| near(seen, counted));
    let differ: Vec<String> = counted
        .iter()
        .filter(|&(name, &counted)| !is_equal(name, counted))
        .map(|(name, &counted)| {
            let seen = seen.get(name).map_or_else(|| "none".to_owned(), |&seen| mib(seen));
            format!("{} {seen} MiB, counted {}", names::readable(name), mib(counted))
        })
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
    fn a_kernel_that_differs_by_a_block_is_named_with_both() {
        let map = |of: &[(&str, u64)]| of.iter().map(|&(name, bytes)| (name.to_owned(), bytes)).collect();
        let counted: BTreeMap<String, u64> =
            map(&[("_Z3oneIiEvPT_", 42 << 20), ("two", (78 << 20) + 52_429)]);
        assert_eq!(judged(&counted, &counted), (Status::Ok, "2 of 2 kernels as counted".to_owned()));
        let near = map(&[("_Z3oneIiEvPT_", (44 << 20) - 1), ("two", 78 << 20)]);
        assert_eq!(judged(&near, &counted).0, Status::Ok);
        let small = map(&[("small", 983_040)]);
        assert_eq!(judged(&map(&[("small", 1 << 20)]), &small).0, Status::Ok);
        assert_eq!(judged(&map(&[("small", 0)]), &small).0, Status::Missed);
        let (status, said) = judged(&map(&[("_Z3oneIiEvPT_", 44 << 20)]), &counted);
        assert_eq!(status, Status::Missed);
        assert_eq!(
            said,
            "0 of 2 kernels as counted; one<int> 44.0 MiB, counted 42.0; two none MiB, counted 78.1"
        );
    }
}
