//! How a program reaches the CUDA runtime, read from its file.
//!
//! Trap: only the file itself is read. A script, an interpreter, or a program that loads its CUDA part while it runs
//! shows nothing here, and may use CUDA all the same.

use nix::unistd::{AccessFlags, access};
use object::read::elf::{Dyn as _, ElfFile64};
use object::{Endianness, Object as _, ObjectSection as _};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How a program reaches the CUDA runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// `eagercc` compiled it: its calls go to `libeager.so`.
    Instrumented,
    /// Linked with `libcudart.so`.
    Shared,
    /// It has GPU code and no shared runtime.
    Static,
    /// Nothing of CUDA in the file: a script or interpreter, or a program that loads its CUDA part later.
    NotSeen,
}

/// The library that compiled programs are linked with.
const SHIM: &str = "libeager.so";
/// Start of the shared runtime's names.
const SHARED_RUNTIME: &str = "libcudart.so";
/// Sections for GPU code, which are there without symbols too.
const GPU_CODE: [&str; 2] = [".nv_fatbin", ".nvFatBinSegment"];
/// Set-user-ID and set-group-ID bits of a file's mode.
const SET_ID: u32 = 0o6000;

/// Finds the file that a command runs, as the shell would: a path, or a name in `PATH`.
pub fn find(command: &OsStr) -> Option<PathBuf> {
    let runs = |file: &PathBuf| file.is_file() && access(file, AccessFlags::X_OK).is_ok();
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command)).filter(runs);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(command)).find(runs)
}

/// True if the loader ignores `LD_PRELOAD` for this file, because it runs with another user's or group's rights.
pub fn has_set_id(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.mode() & SET_ID != 0)
}

/// Reads how a program reaches the CUDA runtime.
pub fn runtime(file: &Path) -> Runtime {
    std::fs::read(file).ok().and_then(|bytes| in_elf(&bytes)).unwrap_or(Runtime::NotSeen)
}

/// None for a file that is no 64-bit ELF file of this machine, or is damaged.
fn in_elf(bytes: &[u8]) -> Option<Runtime> {
    let elf = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let needed = needed(&elf)?;
    let needs = |start: &str| needed.iter().any(|name| name.starts_with(start));
    let has_gpu_code =
        || elf.sections().any(|section| section.name().is_ok_and(|name| GPU_CODE.contains(&name)));
    Some(if needs(SHIM) {
        Runtime::Instrumented
    } else if needs(SHARED_RUNTIME) {
        Runtime::Shared
    } else if has_gpu_code() {
        Runtime::Static
    } else {
        Runtime::NotSeen
    })
}

/// Names of the libraries that the loader loads with the file.
fn needed(elf: &ElfFile64<'_, Endianness>) -> Option<Vec<String>> {
    let (endian, data) = (elf.endian(), elf.data());
    let sections = elf.elf_section_table();
    let Some((entries, strings)) = sections.dynamic(endian, data).ok()? else { return Some(Vec::new()) };
    let strings = sections.strings(endian, data, strings).ok()?;
    let name = |entry: &object::elf::Dyn64<Endianness>| {
        let text = entry.string(endian, strings).ok()?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let is_needed = |entry: &&object::elf::Dyn64<Endianness>| entry.tag(endian) == object::elf::DT_NEEDED;
    Some(entries.iter().filter(is_needed).filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_cuda_and_one_that_is_no_elf_file_show_nothing() {
        let own = std::env::current_exe().expect("this test");
        assert_eq!(runtime(&own), Runtime::NotSeen);
        assert_eq!(in_elf(b"#!/bin/sh\n"), None);
        assert_eq!(in_elf(&std::fs::read(&own).expect("read")[..1000]), None);
        assert_eq!(runtime(Path::new("/nowhere")), Runtime::NotSeen);
    }

    #[test]
    fn commands_are_found_as_the_shell_finds_them() {
        assert!(find(OsStr::new("sh")).is_some_and(|file| file.ends_with("sh")));
        assert_eq!(find(OsStr::new("/bin/sh")), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find(OsStr::new("./no-such-file")), None);
        assert_eq!(find(OsStr::new("no-such-command-anywhere")), None);
    }
}
