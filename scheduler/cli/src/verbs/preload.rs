//! `eager run --preload`: leads the CUDA calls of a program that `eagercc` did not compile to the shim, and tells it what
//! its earlier runs took.
//!
//! Trap: the library must stand *behind* what `LD_PRELOAD` holds already. Tools that are preloaded (sanitizers, tracers)
//! expect to be first.

use crate::executable::{self, Runtime};
use crate::library;
use anyhow::{Context, bail};
use eager_proto::admin::{DeviceRow, ProgramRow};
use eager_units::{Size, shown};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::process::Command;

const ENV_PRELOAD: &str = "LD_PRELOAD";
/// Number of processes of a job, as `torchrun` and others tell each of them.
const ENV_WORLD_SIZE: &str = "WORLD_SIZE";

/// Puts the library into the command's environment.
pub fn add(command: &mut Command) -> anyhow::Result<()> {
    refuse_ranks(std::env::var(ENV_WORLD_SIZE).ok().as_deref())?;
    if let Some(file) = executable::find(command.get_program()) {
        refuse(&file)?;
    }
    let own = std::env::current_exe().context("cannot find my own executable")?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let Some(front) = library::front(folder) else {
        bail!("{} is missing: `make build` makes it, `make install` installs it", library::FRONT);
    };
    let front = front.canonicalize().with_context(|| format!("{}", front.display()))?;
    command.env(ENV_PRELOAD, behind(std::env::var_os(ENV_PRELOAD).as_deref(), front.as_os_str())?);
    Ok(())
}

/// Runs that a size is learnt from (specification S-227).
const RUNS: usize = 7;

/// What the last runs of a program took at most, and how many they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learnt {
    pub size: Size,
    pub runs: usize,
}

impl Learnt {
    /// Learns from programs of one user that have ended, oldest first. `None`: none of them tells.
    pub fn from(programs: &[ProgramRow], label: &str) -> Option<Learnt> {
        let tells = |row: &&ProgramRow| row.label == label && row.end == "ended" && row.grown_bytes > 0;
        let took: Vec<u64> =
            programs.iter().rev().filter(tells).take(RUNS).map(|row| row.grown_bytes).collect();
        Some(Learnt { size: Size(took.iter().copied().max()?), runs: took.len() })
    }

    /// True if some device has that much now.
    pub fn fits(&self, devices: &[DeviceRow]) -> bool {
        devices.iter().any(|device| device.can_hold(self.size))
    }
}

impl fmt::Display for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = shown::size(self.size.0);
        match self.runs {
            1 => write!(f, "asks for {size}, as its last run took (--mem changes that)"),
            runs => {
                write!(f, "asks for {size}, the most that its last {runs} runs took (--mem changes that)")
            }
        }
    }
}

/// Refuses a program that the library would not reach.
fn refuse(file: &Path) -> anyhow::Result<()> {
    if executable::has_set_id(file) {
        bail!(
            "{} runs with another user's rights (set-user-ID), so the loader ignores --preload: use --mem SIZE \
             without --preload",
            file.display()
        );
    }
    if executable::runtime(file) == Runtime::Static {
        bail!(
            "{} has the static CUDA runtime, which --preload does not reach: link it with -cudart shared, compile it \
             with eagercc, or use --mem SIZE without --preload",
            file.display()
        );
    }
    Ok(())
}

/// Refuses one of several processes that belong together: each would be placed by itself, and two may meet on a GPU,
/// which their communication library refuses.
fn refuse_ranks(world_size: Option<&str>) -> anyhow::Result<()> {
    match world_size.and_then(|size| size.trim().parse::<u64>().ok()) {
        Some(ranks) if ranks > 1 => bail!(
            "{ENV_WORLD_SIZE} is {ranks}: --preload places each process by itself, and two may meet on one GPU; reserve \
             the GPUs instead: `eager run --mem SIZE -n {ranks} COMMAND` around the command that starts them all"
        ),
        _ => Ok(()),
    }
}

/// The value of `LD_PRELOAD` with a library behind those that it has.
fn behind(value: Option<&OsStr>, library: &OsStr) -> anyhow::Result<OsString> {
    let text = library.to_string_lossy();
    if text.contains([':', ' ']) {
        bail!("{text} cannot be preloaded: its path contains a colon or a space, which separate libraries");
    }
    let mut value = value.unwrap_or_default().to_owned();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    Ok(value)
}

/// The script that a command of Python's interpreter runs, by which its users know the program.
pub fn script(command: &[OsString]) -> Option<String> {
    let name = |path: &OsStr| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    if !name(command.first()?)?.starts_with("python") {
        return None;
    }
    let mut words = command.iter().skip(1);
    loop {
        let word = words.next()?;
        match word.to_string_lossy().as_ref() {
            "-m" => return words.next().map(|module| module.to_string_lossy().into_owned()),
            "-c" => return None,
            "-W" | "-X" => drop(words.next()),
            option if option.starts_with('-') => {}
            _ => return name(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_stands_behind_what_is_preloaded_already() {
        let value = |old: Option<&str>, library: &str| {
            behind(old.map(OsStr::new), OsStr::new(library)).map(|value| value.into_string().expect("text"))
        };
        assert_eq!(value(None, "/l/f.so").expect("good"), "/l/f.so");
        assert_eq!(value(Some(""), "/l/f.so").expect("good"), "/l/f.so");
        assert_eq!(value(Some("/t.so"), "/l/f.so").expect("good"), "/t.so:/l/f.so");
        assert!(value(None, "/my lib/f.so").is_err());
    }

    #[test]
    fn one_of_several_ranks_is_refused() {
        for alone in [None, Some("1"), Some("many")] {
            refuse_ranks(alone).expect("one process");
        }
        let error = refuse_ranks(Some("4")).expect_err("four").to_string();
        assert!(error.contains("`eager run --mem SIZE -n 4 COMMAND`"), "{error}");
    }

    #[test]
    fn the_most_of_the_last_runs_is_learnt_of_those_that_tell() {
        let row = |label: &str, grown: u64, end: &str| ProgramRow {
            label: label.into(),
            grown_bytes: grown,
            end: end.into(),
            ..ProgramRow::default()
        };
        let devices = [DeviceRow { capacity_bytes: 16 << 30, ..DeviceRow::default() }];
        let on = |devices: &[DeviceRow], programs: &[ProgramRow]| {
            Learnt::from(programs, "a").filter(|learnt| learnt.fits(devices))
        };
        let learnt = |programs: &[ProgramRow]| on(&devices, programs);
        let told = |programs: &[ProgramRow]| learnt(programs).map(|learnt| learnt.to_string());
        assert_eq!(learnt(&[row("b", 9, "ended"), row("a", 0, "ended"), row("a", 9, "limit")]), None);
        let two = [row("a", 6 << 30, "ended"), row("a", 5 << 30, "ended"), row("a", 0, "ended")];
        let most = "asks for 6 GiB, the most that its last 2 runs took (--mem changes that)";
        assert_eq!(told(&two).as_deref(), Some(most));
        let last = "asks for 5 GiB, as its last run took (--mem changes that)";
        assert_eq!(told(&two[1..]).as_deref(), Some(last));
        let many = [vec![row("a", 9 << 30, "ended")], vec![row("a", 1 << 30, "ended"); RUNS]].concat();
        assert_eq!(learnt(&many), Some(Learnt { size: Size(1 << 30), runs: RUNS }));
        assert_eq!(learnt(&[row("a", 17 << 30, "ended")]), None, "no device has that");
        assert_eq!(on(&[], &two), None);
    }

    #[test]
    fn a_script_gives_its_name_to_its_interpreter() {
        let script = |words: &[&str]| script(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(
            script(&["/usr/bin/python3.11", "-u", "-X", "dev", "jobs/train.py", "--x"]).as_deref(),
            Some("train.py")
        );
        assert_eq!(
            script(&["python", "-m", "torch.distributed.run"]).as_deref(),
            Some("torch.distributed.run")
        );
        assert_eq!(script(&["python", "-c", "print()"]), None);
        assert_eq!(script(&["./a/b", "c.py"]), None);
        assert_eq!(script(&["python"]), None);
    }
}
