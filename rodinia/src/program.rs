//! Programs, their runs, and the sizes that follow from arguments.
//!
//! Trap: a run's byte count is stated in the manifest *and* computed from its formula, and parsing fails where they
//! differ. The stated count is the published figure, so neither may be adjusted to the other.

use crate::expression::{self, ExpressionError, Variables};
use crate::host::{HostPhases, HostTimes};
use crate::input::Input;
use crate::manifest::{Class, FullRun, Manifest, ManifestError, RawRun, Variable, error_at};
use crate::trace::{self, KernelSizes, Trace};
use eager_sim::job::JobOp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Divisor of memory in the scaled form of a full configuration: a 16 GiB device becomes 64 MiB (specification
/// S-809).
pub const MEMORY_SCALE: u64 = 256;

/// Placeholder in a run's arguments for the path of its input.
pub const INPUT_PLACEHOLDER: &str = "{input}";

/// Name of one of the 17 configurations, such as `srad_v1-20000`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigurationId(pub String);

impl std::fmt::Display for ConfigurationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Arguments of a run and the device memory it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Arguments, with [`INPUT_PLACEHOLDER`] for the input file.
    pub args: Vec<String>,
    /// Most device memory allocated at once, in bytes.
    pub bytes: u64,
    pub input: Option<Input>,
}

impl Run {
    /// The arguments with the path of the input inserted (an empty string, if the run reads none).
    pub fn arguments(&self, input: Option<&Path>) -> Vec<String> {
        let path = input.map(|p| p.display().to_string()).unwrap_or_default();
        self.args.iter().map(|a| if a == INPUT_PLACEHOLDER { path.clone() } else { a.clone() }).collect()
    }
}

/// One of the 17 configurations of the published evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    pub id: ConfigurationId,
    pub class: Class,
    pub full: Run,
    /// The run with about 1/[`MEMORY_SCALE`] of the memory, for devices scaled by as much.
    pub scaled: Run,
    pub(crate) host: BTreeMap<String, f64>,
}

/// One of the seven programs.
#[derive(Debug, Clone)]
pub struct Program {
    pub name: String,
    /// Name of the executable; differs from `name` for `needle`.
    pub binary: String,
    pub about: String,
    /// Relative to the program's folder.
    pub sources: Vec<String>,
    /// Flags that its build needs besides an optimisation level, for clang.
    pub flags: Vec<String>,
    /// Line that a correct run with `--verify` prints.
    pub expected: String,
    /// A run of well under a second on one core.
    pub smoke: Run,
    /// A run of seconds on one core.
    pub small: Run,
    pub configurations: Vec<Configuration>,
    pub(crate) manifest: Manifest,
}

impl Program {
    /// Parses a manifest and checks all of it. `file` is for messages only.
    ///
    /// # Errors
    /// The first mistake, with its place: bad TOML, a formula without a value, a byte count that differs from its
    /// formula, a trace whose buffers do not fit.
    pub fn parse(file: &str, text: &str) -> Result<Self, ManifestError> {
        let manifest = Manifest::read(file, text)?;
        let program = Self {
            name: manifest.name.clone(),
            binary: manifest.binary.clone(),
            about: manifest.about.clone(),
            sources: manifest.sources.clone(),
            flags: manifest.flags.clone(),
            expected: manifest.expected.clone(),
            smoke: run(&manifest.run.smoke),
            small: run(&manifest.run.small),
            configurations: manifest.run.full.iter().map(configuration).collect(),
            manifest,
        };
        program.check(file, text)?;
        Ok(program)
    }

    /// The configuration with that id.
    pub fn configuration(&self, id: &str) -> Option<&Configuration> {
        self.configurations.iter().find(|c| c.id.0 == id)
    }

    /// Values of the manifest's variables for a run.
    ///
    /// # Errors
    /// An argument is missing or not a number.
    pub fn variables(&self, run: &Run) -> Result<Variables, ExpressionError> {
        let mut values = Variables::new();
        for (name, variable) in &self.manifest.variables {
            let value = variable.value(run).ok_or_else(|| ExpressionError::Value {
                text: name.clone(),
                value: format!("missing in `{}`", run.args.join(" ")),
                wanted: "a number among the arguments",
            })?;
            values.insert(name.clone(), value);
        }
        for (name, formula) in self.manifest.derived.iter().flatten() {
            let value = expression::evaluate(formula, &values)?;
            values.insert(name.clone(), value);
        }
        Ok(values)
    }

    /// Most device memory that a run takes at once, by the formula, in bytes.
    ///
    /// # Errors
    /// As [`Program::variables`], or the formula has no whole value.
    pub fn requirement(&self, run: &Run) -> Result<u64, ExpressionError> {
        expression::count(&self.manifest.requirement, &self.variables(run)?)
    }

    /// Launches, static data size and footprint of each kernel of a run, in the order of first launch.
    ///
    /// # Errors
    /// As [`Program::requirement`].
    pub fn kernels(&self, run: &Run) -> Result<Vec<KernelSizes>, ExpressionError> {
        Ok(self.trace(run, &HostPhases::Ignored)?.kernels)
    }

    /// Operations of a run on the device, in order, without its host phases, by the same formulas as in the
    /// simulator's jobs.
    ///
    /// # Errors
    /// A formula has no value; cannot happen for a run of a parsed manifest.
    pub fn operations(&self, run: &Run) -> Result<Vec<JobOp>, ExpressionError> {
        Ok(self.trace(run, &HostPhases::Ignored)?.ops)
    }

    pub(crate) fn trace(&self, run: &Run, host: &HostPhases<'_>) -> Result<Trace, ExpressionError> {
        trace::build(&self.manifest, self.variables(run)?, host)
    }

    /// All runs with their names: `NAME.smoke`, `NAME.small`, each configuration's id, and the id with `.scaled`.
    pub fn runs(&self) -> Vec<(String, &Run)> {
        let named = |size: &str| format!("{}.{size}", self.name);
        let mut all = vec![(named("smoke"), &self.smoke), (named("small"), &self.small)];
        for configuration in &self.configurations {
            all.push((configuration.id.0.clone(), &configuration.full));
            all.push((format!("{}.scaled", configuration.id), &configuration.scaled));
        }
        all
    }

    /// Text by which the description of a run is found in the manifest.
    fn heading(&self, run: &str) -> String {
        match run.strip_prefix(&format!("{}.", self.name)) {
            Some(size) => format!("[run.{size}]"),
            None => run.trim_end_matches(".scaled").to_owned(),
        }
    }

    fn check(&self, file: &str, text: &str) -> Result<(), ManifestError> {
        for (key, run) in self.runs() {
            let formula = |e: ExpressionError| error_at(file, text, &key, e.quoted(), e.to_string());
            let bytes = self.requirement(run).map_err(formula)?;
            let peak = self.trace(run, &HostPhases::Ignored).map_err(formula)?.bytes_max;
            if bytes != run.bytes || peak != run.bytes {
                let why = format!(
                    "{} bytes stated, the formula gives {bytes}, the trace allocates {peak}",
                    run.bytes
                );
                return Err(error_at(file, text, &key, &self.heading(&key), why));
            }
        }
        for configuration in &self.configurations {
            let wrong = |quoted: &str, why| error_at(file, text, &configuration.id.0, quoted, why);
            let job = self.descriptor(configuration, &HostTimes::default());
            let job = job.map_err(|e| wrong(e.quoted(), e.to_string()))?;
            job.validate().map_err(|e| wrong(&configuration.id.0, e.to_string()))?;
        }
        Ok(())
    }
}

impl Variable {
    fn value(&self, run: &Run) -> Option<f64> {
        if let Some(name) = &self.input {
            return run.input?.property(name);
        }
        let text = match (self.arg, &self.after) {
            (Some(position), _) => run.args.get(position.checked_sub(1)?),
            (None, Some(option)) => run.args.iter().skip_while(|a| *a != option).nth(1),
            (None, None) => None,
        };
        let number = text.and_then(|text| match self.part {
            Some(part) => text.split('x').nth(part)?.parse().ok(),
            None => text.parse().ok(),
        });
        number.or(if text.is_none() { self.default } else { None })
    }
}

fn run(raw: &RawRun) -> Run {
    Run { args: raw.args.clone(), bytes: raw.bytes, input: raw.input }
}

fn configuration(raw: &FullRun) -> Configuration {
    Configuration {
        id: ConfigurationId(raw.id.clone()),
        class: raw.class,
        full: Run { args: raw.args.clone(), bytes: raw.bytes, input: raw.input },
        scaled: run(&raw.scaled),
        host: raw.host.clone(),
    }
}
