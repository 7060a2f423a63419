//! Builds the seven programs with `eagercc` and makes their inputs, for runs of real processes.

use crate::parallel;
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use eager_rodinia::{Configuration, Program, Run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seed of the generated inputs. It is fixed, so that every policy and every evaluation runs on the same bytes.
const INPUT_SEED: u64 = 1;

/// Folder that holds the built programs and their inputs.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Compiles every program, with `words` for `eagercc`; `progress` gets each name.
    ///
    /// `sources` is the folder that holds the programs' folders.
    pub fn build(
        tools: &Tools,
        sources: &Path,
        words: &[&str],
        out: &Path,
        progress: impl Fn(&str) + Sync,
    ) -> Result<Programs> {
        let programs = Programs { folder: out.to_path_buf() };
        for folder in [programs.folder.join("programs"), programs.folder.join("inputs")] {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        parallel::for_each(eager_rodinia::programs().iter().collect(), |program| {
            progress(&program.name);
            programs.compile(tools, sources, words, program)
        })?;
        Ok(programs)
    }

    fn compile(&self, tools: &Tools, sources: &Path, words: &[&str], program: &Program) -> Result<()> {
        let folder = sources.join(&program.name);
        let output = Command::new(tools.path("eagercc"))
            .arg("-O2")
            .args(words)
            .args(&program.flags)
            .args(program.sources.iter().map(|source| folder.join(source)))
            .arg("-o")
            .arg(self.binary(program))
            .output()
            .context("cannot start eagercc")?;
        if !output.status.success() {
            bail!("eagercc failed on {}: {}", program.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    pub fn binary(&self, program: &Program) -> PathBuf {
        self.folder.join("programs").join(&program.binary)
    }

    /// Makes the input of a scaled run that verifies itself, and returns the run's arguments.
    pub fn scaled_arguments(&self, configuration: &Configuration) -> Result<Vec<String>> {
        self.arguments(&configuration.scaled)
    }

    fn arguments(&self, run: &Run) -> Result<Vec<String>> {
        let folder = self.folder.join("inputs");
        let input = run.input.as_ref().map(|input| input.make(INPUT_SEED, &folder)).transpose()?;
        let mut arguments = run.arguments(input.as_deref());
        arguments.push("--verify".to_string());
        Ok(arguments)
    }
}
