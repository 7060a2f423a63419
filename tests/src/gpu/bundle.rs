//! Layout of the bundle, the folder for a machine with a GPU, and the record of what it was made from.
//!
//! Trap: nothing here may look for files outside the folder, except for the driver's own libraries.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Devices that run the kernels of the bundle's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Devices {
    /// A GPU: NVIDIA's runtime is in the folder.
    Gpu,
    /// Virtual GPUs on the CPU: the stand-in runtime and the stand-in for NVML are in the folder.
    Virtual,
}

impl Devices {
    pub fn word(self) -> &'static str {
        match self {
            Devices::Gpu => "GPU",
            Devices::Virtual => "virtual",
        }
    }
}

/// Contents of `BUNDLE.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Contents {
    pub devices: Devices,
    pub commit: String,
    /// GPU architectures whose code is in the bundle; newer GPUs translate the PTX of the last one.
    pub architectures: Vec<String>,
    pub compiler: String,
    pub cuda: String,
    /// Programs in the order in which they run; a test's bundle may have fewer than seven.
    pub programs: Vec<String>,
    /// Some of [`SUITES`].
    pub suites: Vec<String>,
    /// Programs of `tests/corpus`.
    #[serde(default)]
    pub corpus: Vec<CorpusProgram>,
}

/// A program of the corpus, with its correct exit code and output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CorpusProgram {
    pub name: String,
    pub exit: i32,
    /// Standard output.
    pub prints: String,
}

/// Variant of a program: with the pass or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Compiled by `eagercc`.
    Eager,
    /// Compiled by the same compiler with the same options but without the pass: plain CUDA.
    Plain,
}

/// An opened bundle.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub folder: PathBuf,
    pub contents: Contents,
}

pub const CONTENTS: &str = "BUNDLE.json";
/// The program of launches, tasks, faults and memory (`tests/gpu/probe.cu`).
pub const PROBE: &str = "probe";
/// The server through which processes share a virtual device.
pub const SERVER: &str = "eager-vgpud";
/// The programs of the conformance suite.
pub const SUITES: [&str; 7] = ["main", "libraries", "functions", "rules", "textures", "clusters", "tensor"];

impl Bundle {
    /// Opens the bundle in a folder.
    ///
    /// # Errors
    /// One line: the folder is not a bundle, or its bundle is of another version.
    pub fn open(folder: &Path) -> Result<Bundle, String> {
        let file = folder.join(CONTENTS);
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("{}: {error}: is this the bundle's folder?", file.display()))?;
        let contents = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Bundle { folder, contents })
    }

    pub fn tool(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    pub fn libraries(&self) -> PathBuf {
        self.folder.join("lib")
    }

    pub fn program(&self, build: Build, binary: &str) -> PathBuf {
        let folder = match build {
            Build::Eager => "eager",
            Build::Plain => "plain",
        };
        self.folder.join(folder).join(binary)
    }

    pub fn suite(&self, name: &str) -> PathBuf {
        self.folder.join("conformance").join(name)
    }

    /// Path of a corpus program, compiled by `eagercc`.
    pub fn corpus(&self, name: &str) -> PathBuf {
        self.folder.join("corpus").join(name)
    }

    /// Path of the program of `eager calibrate`, with code for a GPU and for the virtual GPU that it is compared with.
    pub fn calibration(&self) -> PathBuf {
        self.folder.join("calibrate")
    }

    /// Path of the program that measures driver and card (`tests/gpu/driver.cu`).
    pub fn driver(&self) -> PathBuf {
        self.folder.join("driver")
    }

    /// Path of the output that a suite printed on the virtual GPU when the bundle was made.
    pub fn expected_suite(&self, name: &str) -> PathBuf {
        self.folder.join("expected").join(format!("{name}.txt"))
    }

    /// Path of the footprints that each kernel of a program had on the virtual GPU.
    pub fn expected_footprints(&self, program: &str) -> PathBuf {
        self.folder.join("expected").join(format!("footprints-{program}.json"))
    }

    pub fn programs(&self) -> Vec<&'static eager_rodinia::Program> {
        let named = |name: &String| eager_rodinia::programs().iter().find(|program| program.name == *name);
        self.contents.programs.iter().filter_map(named).collect()
    }
}
