//! Inputs that programs read from a file, and their generation from a seed.
//!
//! Trap: the sizes in an [`Input`] determine device memory to the byte, so a generator must produce them exactly, not
//! on average.

pub mod graph;
pub mod image;

use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The input file of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// Random graph for `bfs`; `edges` counts both directions.
    Graph { nodes: u32, edges: u32 },
    /// Raw 8-bit RGB for `dwt2d`.
    Rgb { width: u32, height: u32 },
}

/// Reason why an input cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("a graph of {nodes} nodes cannot have {edges} edges: {why}")]
    Graph { nodes: u32, edges: u32, why: &'static str },
    #[error("cannot write the input{}", .path.as_ref().map(|p| format!(" {}", p.display())).unwrap_or_default())]
    Io {
        path: Option<PathBuf>,
        #[source]
        source: io::Error,
    },
}

impl From<io::Error> for InputError {
    fn from(source: io::Error) -> Self {
        Self::Io { path: None, source }
    }
}

impl Input {
    /// A name that is equal for equal inputs, so that several runs can share one file.
    pub fn file_name(&self, seed: u64) -> String {
        match self {
            Self::Graph { nodes, edges } => format!("graph-{nodes}-{edges}-{seed}.txt"),
            Self::Rgb { width, height } => format!("rgb-{width}x{height}-{seed}.raw"),
        }
    }

    /// Writes the input; equal seeds give equal bytes.
    ///
    /// # Errors
    /// The sizes are impossible, or writing fails.
    pub fn write(&self, seed: u64, out: &mut dyn Write) -> Result<(), InputError> {
        match *self {
            Self::Graph { nodes, edges } => graph::write(nodes, edges, seed, out),
            Self::Rgb { width, height } => Ok(image::write_rgb(width, height, seed, out)?),
        }
    }

    /// Makes the file in `folder` unless it exists, and returns its path. A partly written file is never left under
    /// the final name.
    ///
    /// # Errors
    /// As [`Input::write`].
    pub fn make(&self, seed: u64, folder: &Path) -> Result<PathBuf, InputError> {
        let path = folder.join(self.file_name(seed));
        if path.exists() {
            return Ok(path);
        }
        let part = folder.join(format!("{}.{}.part", self.file_name(seed), std::process::id()));
        let placed = |source| InputError::Io { path: Some(path.clone()), source };
        let mut out = io::BufWriter::new(std::fs::File::create(&part).map_err(placed)?);
        self.write(seed, &mut out)?;
        out.into_inner().map_err(|e| placed(e.into_error()))?;
        std::fs::rename(&part, &path).map_err(placed)?;
        Ok(path)
    }

    pub(crate) fn property(&self, name: &str) -> Option<f64> {
        match (self, name) {
            (Self::Graph { nodes, .. }, "nodes") => Some(f64::from(*nodes)),
            (Self::Graph { edges, .. }, "edges") => Some(f64::from(*edges)),
            (Self::Rgb { width, .. }, "width") => Some(f64::from(*width)),
            (Self::Rgb { height, .. }, "height") => Some(f64::from(*height)),
            _ => None,
        }
    }
}
