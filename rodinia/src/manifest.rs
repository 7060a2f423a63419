//! The format of a `program.toml`, and one-line errors with their place in it.
//!
//! Formulas are only text here. `Program::parse` checks that each has a value: it evaluates everything for every run
//! of the manifest, so that a wrong name is found at once and not when the program is first simulated.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Reason why a manifest cannot be used: one line with file, place and key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {key}: {why}")]
pub struct ManifestError {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub key: String,
    pub why: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub name: String,
    pub binary: String,
    pub about: String,
    pub sources: Vec<String>,
    #[serde(default)]
    pub flags: Vec<String>,
    pub expected: String,
    pub variables: BTreeMap<String, Variable>,
    /// Evaluated in order; each formula may use the earlier ones.
    #[serde(default)]
    pub derived: Vec<BTreeMap<String, Formula>>,
    /// Peak of the device memory allocated at one time, in bytes.
    pub requirement: Formula,
    pub buffers: BTreeMap<String, Formula>,
    pub kernels: BTreeMap<String, Kernel>,
    pub run: Runs,
    pub trace: Vec<Step>,
}

/// Source of a variable's value: the arguments, or a property of the input file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variable {
    /// Position of the argument, the first being 1.
    pub arg: Option<usize>,
    /// The option whose next argument is the value.
    pub after: Option<String>,
    /// Index from 0 of a number in an argument such as `8192x4096`.
    pub part: Option<usize>,
    /// Property of the input: `nodes` or `edges`.
    pub input: Option<String>,
    /// Value where the option is absent.
    pub default: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Runs {
    pub smoke: RawRun,
    pub small: RawRun,
    pub full: Vec<FullRun>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRun {
    pub args: Vec<String>,
    pub bytes: u64,
    pub input: Option<crate::input::Input>,
}

/// Large: above 4 GiB of device memory; Small: from 1 to 4 GiB (specification S-223).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Class {
    #[serde(rename = "S")]
    Small,
    #[serde(rename = "L")]
    Large,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FullRun {
    pub id: String,
    pub class: Class,
    pub args: Vec<String>,
    pub bytes: u64,
    pub input: Option<crate::input::Input>,
    /// Seconds of each host phase that the trace names.
    pub host: BTreeMap<String, f64>,
    pub scaled: RawRun,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    /// Name in the source; several entries may describe one kernel under different conditions.
    pub name: String,
    /// Buffers among its arguments; the sum of their sizes is the static size.
    pub arguments: Vec<String>,
    pub blocks: Formula,
    pub threads_per_block: Formula,
    #[serde(default)]
    pub shared_bytes: Formula,
    pub registers_per_thread: u32,
    pub dram_bytes: Formula,
    #[serde(default)]
    pub flops32: Formula,
    #[serde(default)]
    pub flops64: Formula,
    pub class: AccessClass,
    pub accesses: Vec<Access>,
}

/// Like `eager_units::AccessClass` without `Unknown`, since a manifest states the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessClass {
    OnePass,
    Cyclic,
    Sparse,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Access {
    pub buffer: String,
    /// Bytes touched from the start of the buffer on; empty: all of it.
    #[serde(default)]
    pub bytes: Formula,
    pub pattern: eager_gpu_model::Pattern,
    #[serde(default)]
    pub density: Formula,
    #[serde(default)]
    pub write: bool,
}

/// A number, or a formula as text; empty where the manifest has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Formula(pub String);

impl<'de> Deserialize<'de> for Formula {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = Formula;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a formula in quotes")
            }
            fn visit_i64<E>(self, value: i64) -> Result<Formula, E> {
                Ok(Formula(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Formula, E> {
                Ok(Formula(value.to_string()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Formula, E> {
                Ok(Formula(value.to_owned()))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}

impl std::ops::Deref for Formula {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// One step of the trace: exactly one verb, with its modifiers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Host phase, by its name in `host` of the run.
    pub host: Option<String>,
    pub begin: Option<bool>,
    pub alloc: Option<Vec<String>>,
    pub fill: Option<Vec<String>>,
    pub upload: Option<String>,
    pub download: Option<String>,
    /// Source and destination.
    pub copy: Option<[String; 2]>,
    pub launch: Option<String>,
    pub all_launched: Option<bool>,
    pub free: Option<Vec<String>>,
    pub end: Option<bool>,
    /// Repeats `ops` this many times.
    pub repeat: Option<Formula>,
    /// Runs `ops` once for each value in `of`, which is bound to this name.
    pub each: Option<String>,

    /// Bytes of an upload, download or copy; all of the (first) buffer when absent.
    pub bytes: Option<Formula>,
    #[serde(default)]
    pub pinned: bool,
    /// Number of equal launches; 1 when absent.
    pub launches: Option<Formula>,
    /// The step is left out where this is 0.
    pub when: Option<Formula>,
    #[serde(default)]
    pub of: Vec<Item>,
    #[serde(default)]
    pub ops: Vec<Step>,
}

/// A value that a step with `each` binds: a number for formulas, or a text for `{name}` in buffer names.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Item {
    Number(f64),
    Text(String),
}

impl Manifest {
    pub(crate) fn read(file: &str, text: &str) -> Result<Self, ManifestError> {
        toml::from_str(text).map_err(|e| {
            let (line, column) = place(text, e.span().map_or(0, |span| span.start));
            let why = e.message().split_whitespace().collect::<Vec<_>>().join(" ");
            ManifestError { file: file.to_owned(), line, column, key: "manifest".to_owned(), why }
        })
    }
}

/// An error about `key`, placed at the first occurrence of `quoted` in the manifest (at its start if there is none).
pub(crate) fn error_at(file: &str, text: &str, key: &str, quoted: &str, why: String) -> ManifestError {
    let offset = if quoted.is_empty() { 0 } else { text.find(quoted).unwrap_or(0) };
    let (line, column) = place(text, offset);
    ManifestError { file: file.to_owned(), line, column, key: key.to_owned(), why }
}

fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
