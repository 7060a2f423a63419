//! Measures the footprint of every kernel once per configuration, alone on a virtual GPU, before the compared runs
//! (specification S-219: once per application).

use crate::programs::Programs;
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use eager_rodinia::{Configuration, Program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the scaled configuration alone, verifies its output, and returns the path of its profile.
pub fn measure(
    tools: &Tools,
    programs: &Programs,
    program: &Program,
    configuration: &Configuration,
    card: &str,
    out: &Path,
) -> Result<PathBuf> {
    let folder = out.join("profiles");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let profile = folder.join(format!("{}.json", configuration.id));
    let output = Command::new(tools.path("eager"))
        .args(["run", "--plain", "--virtual", &format!("1x{card}")])
        .args(["--memory-scale", &eager_rodinia::MEMORY_SCALE.to_string(), "--time-scale", "0", "--"])
        .arg(programs.binary(program))
        .args(programs.scaled_arguments(configuration)?)
        .env("EAGER_VGPU_PROFILE", &profile)
        .output()
        .context("cannot start eager")?;
    if !output.status.success() {
        bail!(
            "{} alone ended with {}: {}",
            configuration.id,
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    if !profile.exists() {
        bail!("{} left no profile in {}", configuration.id, profile.display());
    }
    Ok(profile)
}
