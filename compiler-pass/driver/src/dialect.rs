//! Decides whether a command line is clang's or nvcc's.
//!
//! Trap: build tools put `eagercc` in front of a compiler (`CMAKE_CUDA_COMPILER_LAUNCHER`), so the first word may be
//! the compiler that it stands in for.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The compiler whose switches a command line uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// clang's switches, and gcc's as far as clang accepts them.
    Clang,
    Nvcc,
}

/// Returns the dialect and the remaining words. `name` is the name that the driver was called by.
#[must_use]
pub fn of(name: &OsStr, words: &[OsString]) -> (Dialect, Vec<OsString>) {
    let stands_for = words.first().and_then(|word| of_compiler(word));
    let rest = if stands_for.is_some() { &words[1..] } else { words };
    if rest.iter().any(|word| word == "--nvcc") {
        return (Dialect::Nvcc, rest.iter().filter(|word| *word != "--nvcc").cloned().collect());
    }
    (stands_for.or_else(|| of_compiler(name)).unwrap_or(Dialect::Clang), rest.to_vec())
}

/// Dialect of a compiler by its name, such as `/usr/bin/x86_64-linux-gnu-g++-12`.
fn of_compiler(word: &OsStr) -> Option<Dialect> {
    let name = Path::new(word).file_name()?.to_str()?;
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    match name.rsplit('-').next()? {
        "nvcc" => Some(Dialect::Nvcc),
        "eagercc" | "clang" | "clang++" | "gcc" | "g++" | "cc" | "c++" => Some(Dialect::Clang),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_known_by_name() {
        let of = |name: &str, line: &str| {
            let words: Vec<_> = line.split_whitespace().map(OsString::from).collect();
            let (dialect, rest) = of(name.as_ref(), &words);
            (dialect, rest.join(OsStr::new(" ")).into_string().unwrap())
        };
        let left = |dialect, text: &str| (dialect, text.to_owned());
        assert_eq!(of("eagercc", "-c a.cu"), left(Dialect::Clang, "-c a.cu"));
        assert_eq!(of("eagercc", "--nvcc -c a.cu"), left(Dialect::Nvcc, "-c a.cu"));
        assert_eq!(of("/opt/nvcc", "-c a.cu"), left(Dialect::Nvcc, "-c a.cu"));
        assert_eq!(of("eagercc", "/cuda/bin/nvcc -c a.cu"), left(Dialect::Nvcc, "-c a.cu"));
        assert_eq!(of("eagercc", "x86_64-linux-gnu-g++-12 -c a.cpp"), left(Dialect::Clang, "-c a.cpp"));
        assert_eq!(of("eagercc", "a.o g++.o"), left(Dialect::Clang, "a.o g++.o"));
    }
}
