//! The folder that a machine with a GPU gets: where things lie in it, and what it was made of.
//!
//! Trap: nothing here may look for things outside the folder but the driver's own libraries.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Whose kernels the bundle's programs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Devices {
    /// A GPU's: NVIDIA's runtime is in the folder.
    Gpu,
    /// The CPU's: the stand-in runtime and the stand-in for NVML are in the folder.
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

/// What `BUNDLE.json` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Contents {
    pub devices: Devices,
    pub commit: String,
    /// GPUs whose code is in it; newer ones translate the last one's PTX.
    pub architectures: Vec<String>,
    pub compiler: String,
    pub cuda: String,
    /// In the order in which they are run; a test may have made fewer than seven.
    pub programs: Vec<String>,
    /// Of [`SUITES`].
    pub suites: Vec<String>,
    /// Programs of `tests/corpus`.
    #[serde(default)]
    pub corpus: Vec<CorpusProgram>,
}

/// A program of the corpus, and what it does wherever it runs right.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CorpusProgram {
    pub name: String,
    pub exit: i32,
    /// Standard output.
    pub prints: String,
}

/// With the pass or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Compiled by `eagercc`.
    Eager,
    /// The same compiler and options without the pass: plain CUDA.
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
/// The tool that lets processes share a virtual device.
pub const SERVER: &str = "eager-vgpud";
/// The programs of the conformance suite.
pub const SUITES: [&str; 7] = ["main", "libraries", "functions", "rules", "textures", "clusters", "tensor"];

impl Bundle {
    /// # Errors
    /// One line: the folder is none, or of another version.
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

    /// A program of the corpus, compiled by `eagercc`.
    pub fn corpus(&self, name: &str) -> PathBuf {
        self.folder.join("corpus").join(name)
    }

    /// The program of `eager calibrate`, for a GPU and for the virtual one that it is compared with.
    pub fn calibration(&self) -> PathBuf {
        self.folder.join("calibrate")
    }

    /// What the driver and the card do (`tests/gpu/driver.cu`).
    pub fn driver(&self) -> PathBuf {
        self.folder.join("driver")
    }

    /// What the virtual GPU printed for a suite when the bundle was made.
    pub fn expected_suite(&self, name: &str) -> PathBuf {
        self.folder.join("expected").join(format!("{name}.txt"))
    }

    /// What each kernel of a program touched on the virtual GPU.
    pub fn expected_footprints(&self, program: &str) -> PathBuf {
        self.folder.join("expected").join(format!("footprints-{program}.json"))
    }

    pub fn programs(&self) -> Vec<&'static eager_rodinia::Program> {
        let named = |name: &String| eager_rodinia::programs().iter().find(|program| program.name == *name);
        self.contents.programs.iter().filter_map(named).collect()
    }
}
