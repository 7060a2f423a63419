//! Compares random programs under policy `eager-live` with the same programs run alone: their output must be equal, and
//! no buffer may be used after the compiler declared it dead.
//!
//! Two generators alternate, batch by batch: [`crate::contents`], whose programs do much with a few buffers, and
//! [`crate::generate`], whose programs take every path that a compiler must follow. Trap: a batch is one executable, so
//! state that one program leaves is there for the next; the second generator's driver forks for each run, the first
//! one's does not.

use crate::daemon::Daemon;
use crate::generate::Features;
use crate::{contents, eagercc_with, generate, root, run, text, tool};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

/// Paths taken through each program of the second generator.
const WAYS: &str = "2";
/// Host memory for copies that wait (plenty, some, none), and devices with and without virtual memory management. A
/// batch of the first generator runs with all of them, a batch of the second with the first: once as it is, once with
/// random beliefs.
const SETTINGS: [[(&str, &str); 2]; 4] = [
    [("EAGER_STAGING_BYTES", "8000000000"), ("EAGER_VGPU_VIRTUAL_MEMORY", "1")],
    [("EAGER_STAGING_BYTES", "8000000000"), ("EAGER_VGPU_VIRTUAL_MEMORY", "0")],
    [("EAGER_STAGING_BYTES", "100000"), ("EAGER_VGPU_VIRTUAL_MEMORY", "1")],
    [("EAGER_STAGING_BYTES", "0"), ("EAGER_VGPU_VIRTUAL_MEMORY", "0")],
];

/// Generator of a batch's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Contents,
    Paths,
}

/// Programs of one seed, compiled together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub kind: Kind,
    pub seed: u64,
    pub programs: usize,
}

/// Counts over all batches.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    pub programs: usize,
    /// Runs of a whole batch under `eager-live`.
    pub runs: usize,
    /// Buffers declared dead before they were freed, over all runs.
    pub declared_dead: u64,
    /// Buffers moved to the host because they were believed dead, over all runs.
    pub believed: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.programs += other.programs;
        self.runs += other.runs;
        self.declared_dead += other.declared_dead;
        self.believed += other.believed;
    }
}

/// Splits `count` programs into batches whose generators alternate; each batch has a seed of its own.
#[must_use]
pub fn batches(seed: u64, count: usize, programs_max: usize) -> Vec<Batch> {
    let sizes = (0..count).step_by(programs_max).map(|done| programs_max.min(count - done));
    let kinds = [Kind::Contents, Kind::Paths].into_iter().cycle();
    sizes.zip(kinds).zip(seed..).map(|((programs, kind), seed)| Batch { kind, seed, programs }).collect()
}

impl Batch {
    /// Returns the source text, the compiler's arguments and the executable's arguments.
    fn source(self) -> (String, Vec<OsString>, Vec<&'static str>) {
        let every_feature = Features { across_functions: true, exceptions: true };
        match self.kind {
            Kind::Contents => (contents::file(self.seed, self.programs), vec!["-O2".into()], Vec::new()),
            Kind::Paths => {
                let include = format!("-I{}", root().join("tests/oracle/real").display());
                let text = generate::file(self.seed, self.programs, every_feature);
                (text, vec!["-O1".into(), include.into()], vec!["/dev/null", "1", WAYS, "show"])
            }
        }
    }

    /// Compiles the batch into `folder`, runs it alone and under the daemon, and compares.
    ///
    /// # Errors
    /// The first difference or complaint, and the path of the kept source.
    pub fn check(self, daemon: &Daemon, folder: &Path) -> Result<Tally, String> {
        let (text, words, arguments) = self.source();
        let name = format!("{:?}-{}-{}", self.kind, self.seed, self.programs).to_lowercase();
        let (source, program) = (folder.join(format!("{name}.cu")), folder.join(&name));
        std::fs::write(&source, text).map_err(|e| format!("{}: {e}", source.display()))?;
        let checked = self.compare(daemon, &source, &program, &words, &arguments);
        // The executables of thousands of batches would fill the disk.
        let _ = std::fs::remove_file(&program);
        if checked.is_ok() {
            let _ = std::fs::remove_file(&source);
        }
        checked.map_err(|what| format!("{self:?}, kept in {}: {what}", source.display()))
    }

    fn compare(
        self,
        daemon: &Daemon,
        source: &Path,
        program: &Path,
        words: &[OsString],
        arguments: &[&str],
    ) -> Result<Tally, String> {
        eagercc_with(words, &[source], program);
        // `--plain` and not EAGER_DISABLE, because `eager run` under a daemon removes that variable.
        let mut alone = Command::new(tool("eager"));
        alone.args(["run", "--plain", "--time-scale", "0", "--"]).arg(program).args(arguments);
        let alone = run(alone.env("EAGER_STATS", "1"));
        let mut tally = Tally { programs: self.programs, ..Tally::default() };
        for setting in self.settings() {
            let mut command = daemon.run(program);
            command.args(arguments).env("EAGER_STATS", "1").envs(setting.iter().cloned());
            let live = run(&mut command);
            tally.declared_dead +=
                judge(&alone, &live).map_err(|what| format!("with {setting:?}: {what}"))?;
            tally.believed += numbers(&String::from_utf8_lossy(&live.stderr), BELIEVED).sum::<u64>();
            tally.runs += 1;
        }
        Ok(tally)
    }
}

impl Batch {
    /// Returns the settings with which the batch runs under `eager-live`.
    fn settings(self) -> Vec<Vec<(&'static str, String)>> {
        let settings = SETTINGS.map(|setting| setting.map(|(name, value)| (name, value.to_owned())).to_vec());
        match self.kind {
            Kind::Contents => settings.to_vec(),
            // These programs have lazy tasks; the second setting makes the shim believe their buffers dead at random.
            Kind::Paths => {
                let [usual, ..] = settings;
                let mut believing = usual.clone();
                believing.push(("EAGER_TEST_BELIEFS", self.seed.to_string()));
                vec![usual, believing]
            }
        }
    }
}

/// Compares a run under `eager-live` with a run alone; returns how many buffers were declared dead.
///
/// # Errors
/// A different output or exit status, a use of a dead buffer, or any other complaint of the shim.
fn judge(alone: &Output, live: &Output) -> Result<u64, String> {
    if !alone.status.success() || alone.stdout.is_empty() {
        return Err(format!("on its own it prints nothing or ends with {}: {}", alone.status, text(alone)));
    }
    // Only a scheduled program may print the shim's counts.
    if !alone.stderr.is_empty() {
        return Err(format!("on its own it says: {}", String::from_utf8_lossy(&alone.stderr)));
    }
    let said = String::from_utf8_lossy(&live.stderr);
    let complaints: Vec<&str> = said.lines().filter(|line| !is_statistic(line)).collect();
    if !complaints.is_empty() {
        return Err(complaints.join("\n"));
    }
    if numbers(&said, USED).any(|used| used > 0) {
        return Err(format!("a buffer was used after it was declared dead: {said}"));
    }
    if live.status != alone.status || live.stdout != alone.stdout {
        return Err(format!("other results: {}, {}", live.status, first_difference(alone, live)));
    }
    Ok(numbers(&said, DECLARED).sum())
}

const DECLARED: &str = "buffers declared dead before they were freed: ";
const BELIEVED: &str = "buffers moved to the host, believed dead: ";
const USED: &str = ", used after that: ";

/// True for a line that `EAGER_STATS` prints.
fn is_statistic(line: &str) -> bool {
    ["calls forwarded to CUDA unchanged", DECLARED, BELIEVED].iter().any(|words| line.contains(words))
}

/// Returns the numbers that follow `words`.
fn numbers<'a>(said: &'a str, words: &'a str) -> impl Iterator<Item = u64> + 'a {
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    said.split(words).skip(1).filter_map(move |rest| digits(rest).parse().ok())
}

fn first_difference(alone: &Output, live: &Output) -> String {
    let (alone, live) = (String::from_utf8_lossy(&alone.stdout), String::from_utf8_lossy(&live.stdout));
    let different = alone.lines().zip(live.lines()).find(|(alone, live)| alone != live);
    different.map_or_else(
        || format!("{} lines and not {}", live.lines().count(), alone.lines().count()),
        |(alone, live)| format!("`{live}` and not `{alone}`"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn output(stdout: &str, stderr: &str) -> Output {
        Output { status: ExitStatus::from_raw(0), stdout: stdout.into(), stderr: stderr.into() }
    }

    fn statistics(declared: u64, used: u64) -> String {
        format!("eager: calls forwarded to CUDA unchanged: none\neager: {DECLARED}{declared}{USED}{used}\n")
    }

    #[test]
    fn the_same_output_without_a_word_is_right_and_dead_buffers_are_summed() {
        let live = output("f1 7\n", &format!("{}{}", statistics(3, 0), statistics(4, 0)));
        assert_eq!(judge(&output("f1 7\n", ""), &live), Ok(7));
    }

    #[test]
    fn other_results_and_uses_of_dead_buffers_and_any_complaint_are_wrong() {
        let alone = output("f1 7\nf2 8\n", "");
        let wrong = |stdout: &str, stderr: &str| judge(&alone, &output(stdout, stderr)).expect_err("wrong");
        assert!(wrong("f1 7\nf2 9\n", "").contains("`f2 9` and not `f2 8`"));
        assert!(wrong("f1 7\n", "").contains("1 lines and not 2"));
        assert!(wrong("f1 7\nf2 8\n", &statistics(2, 1)).contains("used after"));
        assert!(wrong("f1 7\nf2 8\n", "eager: THE RESULTS OF THIS PROGRAM ARE WRONG").contains("WRONG"));
        assert!(
            judge(&output("", ""), &output("", "")).is_err(),
            "a batch that prints nothing proves nothing"
        );
        let scheduled = output("f1 7\nf2 8\n", &statistics(2, 0));
        assert!(judge(&scheduled, &scheduled).is_err(), "two scheduled runs prove nothing");
    }

    #[test]
    fn every_program_is_in_one_batch_and_every_batch_has_its_seed() {
        let all = batches(5, 250, 100);
        assert_eq!(all.iter().map(|batch| batch.programs).collect::<Vec<_>>(), [100, 100, 50]);
        assert_eq!(all.iter().map(|batch| batch.seed).collect::<Vec<_>>(), [5, 6, 7]);
        assert_eq!(all[1].kind, Kind::Paths);
    }
}
