//! Shared parts of the benches: command-line flags, and the file that keeps every sample.
//!
//! Trap: cargo passes `--bench` to every bench, so the parser must skip it.

use std::path::PathBuf;

use eager_rodinia::Program;
use serde::Serialize;

use crate::bin_dir;

/// Name of a bench, and the flags that it accepts.
#[derive(Debug)]
pub struct Bench {
    pub name: &'static str,
    /// Flags that take a number, with their defaults.
    pub counts: &'static [(&'static str, usize)],
    /// True if the bench runs programs of `rodinia/`; `--programs` then selects among them.
    pub has_programs: bool,
}

/// Parsed flags of a bench.
#[derive(Debug)]
pub struct Flags {
    /// Values in the order of [`Bench::counts`].
    pub counts: Vec<usize>,
    programs: Option<Vec<String>>,
    out: PathBuf,
}

impl Bench {
    /// Returns the flags of this process. Prints the reason and exits with code 2 if they are wrong.
    pub fn flags(&self) -> Flags {
        self.read(std::env::args().skip(1)).unwrap_or_else(|wrong| {
            eprintln!("bench {}: {wrong}", self.name);
            std::process::exit(2);
        })
    }

    /// Parses the flags in `words`.
    ///
    /// # Errors
    /// One line that says what is wrong with `words`.
    pub fn read(&self, words: impl IntoIterator<Item = String>) -> Result<Flags, String> {
        let mut flags = Flags {
            counts: self.counts.iter().map(|&(_, count)| count).collect(),
            programs: None,
            out: bin_dir().join(format!("../bench-{}.json", self.name)),
        };
        let mut words = words.into_iter().filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let count = self.counts.iter().position(|(name, _)| *name == word);
            let is_programs = self.has_programs && word == "--programs";
            if count.is_none() && !is_programs && word != "--out" {
                return Err(format!("{word} is none of {}", self.known()));
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            match count {
                Some(index) => {
                    let number = value.parse().ok().filter(|&number| number > 0);
                    flags.counts[index] =
                        number.ok_or_else(|| format!("{word} takes a number above 0, not `{value}`"))?;
                }
                None if is_programs => flags.programs = Some(programs(&value)?),
                None => flags.out = value.into(),
            }
        }
        Ok(flags)
    }

    fn known(&self) -> String {
        let counts = self.counts.iter().map(|(name, _)| *name);
        let programs = self.has_programs.then_some("--programs");
        counts.chain(programs).chain(["--out"]).collect::<Vec<_>>().join(", ")
    }
}

/// Parses names of programs, separated by commas.
fn programs(value: &str) -> Result<Vec<String>, String> {
    let known: Vec<&str> = eager_rodinia::programs().iter().map(|program| program.name.as_str()).collect();
    let names: Vec<String> = value.split(',').map(str::to_owned).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => {
            Err(format!("--programs: there is no program `{unknown}`, but {}", known.join(", ")))
        }
        None => Ok(names),
    }
}

impl Flags {
    /// Returns the programs of `rodinia/` that the bench is to run.
    pub fn programs(&self) -> impl Iterator<Item = &'static Program> {
        let chosen =
            |program: &&Program| self.programs.as_ref().is_none_or(|names| names.contains(&program.name));
        eager_rodinia::programs().iter().filter(chosen)
    }

    /// Writes every sample to the file, and prints its path.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn keep(&self, record: &impl Serialize) {
        let json = serde_json::to_string_pretty(record).expect("plain data");
        std::fs::write(&self.out, json).unwrap_or_else(|e| panic!("{}: {e}", self.out.display()));
        println!("every sample: {}", self.out.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCH: Bench = Bench { name: "any", counts: &[("--rounds", 5), ("--runs", 2)], has_programs: true };

    fn read(words: &[&str]) -> Result<Flags, String> {
        BENCH.read(words.iter().map(|&word| word.to_owned()))
    }

    #[test]
    fn flags_are_taken_and_have_defaults() {
        let flags = read(&["--bench", "--runs", "7", "--programs", "bfs,nw", "--out", "there"]).unwrap();
        assert_eq!((flags.counts.as_slice(), flags.out.to_str()), ([5, 7].as_slice(), Some("there")));
        assert_eq!(flags.programs().map(|program| program.name.as_str()).collect::<Vec<_>>(), ["nw", "bfs"]);
        assert_eq!(read(&[]).unwrap().programs().count(), eager_rodinia::programs().len());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, wrong) in [
            (&["--round", "2"][..], "--round is none of --rounds, --runs, --programs, --out"),
            (&["--rounds"], "--rounds needs a value"),
            (&["--rounds", "0"], "--rounds takes a number above 0, not `0`"),
            (&["--programs", "nv"], "--programs: there is no program `nv`, but"),
        ] {
            assert!(read(words).unwrap_err().starts_with(wrong), "{words:?}");
        }
    }
}
