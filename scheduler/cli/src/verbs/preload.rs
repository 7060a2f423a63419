//! `eager run --preload`: leads the CUDA calls of a program that `eagercc` did not compile to the shim.
//!
//! Trap: the library must stand *behind* what `LD_PRELOAD` holds already. Tools that are preloaded (sanitizers, tracers)
//! expect to be first.

use crate::executable::{self, Runtime};
use crate::library;
use anyhow::{Context, bail};
use std::ffi::{OsStr, OsString};
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
