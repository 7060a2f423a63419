//! The seven Rodinia-like programs as data: how to run them at each size, the memory they take, their work on a GPU,
//! the inputs they need, and the published job mixes.
//!
//! The programs have several sizes. *smoke* and *small* runs check results; *full* configurations are the published
//! ones, which only the simulator and real GPUs can run; *scaled* ones are full ones at 1/256 of the memory, for
//! virtual GPUs scaled by as much.
#![forbid(unsafe_code)]

mod descriptor;
pub mod expression;
pub mod host;
pub mod input;
mod manifest;
mod program;
mod trace;
pub mod workload;

pub use expression::ExpressionError;
pub use host::HostTimes;
pub use input::{Input, InputError};
pub use manifest::{Class, ManifestError};
pub use program::{Configuration, ConfigurationId, INPUT_PLACEHOLDER, MEMORY_SCALE, Program, Run};
pub use trace::KernelSizes;

use std::sync::LazyLock;

macro_rules! embedded {
    ($($folder:literal),*) => {
        [$((concat!("rodinia/", $folder, "/program.toml"), include_str!(concat!("../", $folder, "/program.toml")))),*]
    };
}

/// The manifests, with their paths in the repository.
pub const MANIFESTS: [(&str, &str); 7] =
    embedded!["backprop", "srad_v1", "srad_v2", "lavaMD", "nw", "dwt2d", "bfs"];

static PROGRAMS: LazyLock<Vec<Program>> = LazyLock::new(|| {
    let parse =
        |(file, text)| Program::parse(file, text).unwrap_or_else(|e| panic!("embedded manifest: {e}"));
    MANIFESTS.into_iter().map(parse).collect()
});

/// The seven programs.
///
/// # Panics
/// An embedded manifest is wrong, which a test rules out.
pub fn programs() -> &'static [Program] {
    &PROGRAMS
}

/// The program with that name.
pub fn program(name: &str) -> Option<&'static Program> {
    programs().iter().find(|p| p.name == name)
}

/// The configuration with that id, one of 17, with its program.
pub fn configuration(id: &str) -> Option<(&'static Program, &'static Configuration)> {
    programs().iter().find_map(|p| p.configuration(id).map(|c| (p, c)))
}

/// The run with that name, as [`Program::runs`] names them.
pub fn run(name: &str) -> Option<&'static Run> {
    programs().iter().flat_map(Program::runs).find(|(known, _)| known == name).map(|(_, run)| run)
}

/// The simulator's job for a configuration.
///
/// # Errors
/// As [`Program::descriptor`]; `Ok(None)` if there is no such configuration.
pub fn descriptor(
    id: &ConfigurationId,
    times: &HostTimes,
) -> Result<Option<eager_sim::job::Job>, ExpressionError> {
    configuration(&id.0).map(|(program, c)| program.descriptor(c, times)).transpose()
}
