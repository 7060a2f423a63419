//! `eagercc` as nvcc's host compiler: nvcc passes C++ made from a CUDA source, and compiles the device half itself.
//!
//! So that the program also runs on the virtual GPU, clang additionally compiles the device half of the same source,
//! only for its CPU kernels. Trap: clang may reject code that nvcc accepts. There are then no CPU kernels, and the
//! build must go on.

use std::ffi::OsString;
use std::path::Path;

use super::compile::{CASTS_AS_CALLS, Unit, header, managed};
use super::{CommandLine, GPU_ARCH, Plan, joined};

/// Macro through which nvcc passes the GPU architecture, times ten, to its host compiler.
const ARCHITECTURE: &str = "-D__CUDA_ARCH__=";
/// Prefixes of words that belong to nvcc's compile and would disturb clang's.
const NVCC_ONLY: [&str; 2] = ["-D__CUDA_ARCH", "-DCUDA_DOUBLE_MATH_FUNCTIONS"];

impl Unit<'_> {
    /// Adds the compile of the device half of `cuda_source`, whose results go to the files that `host` reads.
    pub fn add_nvcc_device_half(&self, plan: &mut Plan, host: &CommandLine, cuda_source: &Path) {
        let words = &self.job.compile_words;
        let is_nvcc_only =
            |word: &&OsString| NVCC_ONLY.iter().any(|start| word.to_string_lossy().starts_with(start));
        let mut args: Vec<OsString> = words.iter().filter(|word| !is_nvcc_only(word)).cloned().collect();
        let gpu = words.iter().find_map(|word| {
            let number: u32 = word.to_str()?.strip_prefix(ARCHITECTURE)?.parse().ok()?;
            Some(format!("sm_{}", number / 10))
        });
        let gpu = gpu.unwrap_or_else(|| GPU_ARCH.to_owned());
        args.extend(header(self.toolchain));
        args.extend(managed());
        args.extend([
            joined("--cuda-path=", &self.toolchain.cuda),
            format!("--cuda-gpu-arch={gpu}").into(),
            "-Wno-unknown-cuda-version".into(),
            joined("-fpass-plugin=", &self.toolchain.plugin),
            "-Rpass-analysis=eager-places".into(),
            CASTS_AS_CALLS.into(),
            "--cuda-device-only".into(),
            "-x".into(),
            "cuda".into(),
            cuda_source.into(),
            "-S".into(),
            "-o".into(),
            self.scratch.join(format!("{}-device.s", self.index)).into(),
        ]);
        plan.run(CommandLine {
            program: self.toolchain.clang.clone(),
            args,
            variables: host.variables.clone(),
            may_fail: true,
            ..CommandLine::default()
        });
    }
}
