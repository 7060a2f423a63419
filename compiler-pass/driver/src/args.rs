//! The flags that the driver must understand, as one sorted table; every other flag goes to clang as it is.
//!
//! A flag is here for one of three reasons: it changes what the driver does, it takes a value in the next argument
//! (which must not be mistaken for an input), or it belongs to one of the steps only. Trap: clang takes `-L dir` and
//! `-Ldir` alike, but `-include file` only apart.

use std::ffi::{OsStr, OsString};

/// How a flag takes its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// The flag is the whole argument.
    None,
    /// The value is the next argument.
    Apart,
    /// The value is the rest of the argument.
    Joined,
    /// Either of the two.
    JoinedOrApart,
}

/// What a flag is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The compile of every source.
    Compile,
    /// The compile of CUDA sources only.
    Cuda,
    Link,
    /// Both steps.
    Both,
    /// `-o`.
    Output,
    /// `-x`.
    Language,
    /// `-c`, `-S`: compile without a link.
    CompileOnly,
    /// Ends before code generation, or prints something: clang does it alone.
    ClangAlone,
    CudaPath,
    GpuArch,
    Show,
    Report,
    NoInstrument,
    NoCpuKernels,
    Help,
    Version,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    pub name: &'static str,
    pub value: Value,
    pub usage: Use,
}

const fn flag(name: &'static str, value: Value, usage: Use) -> Flag {
    Flag { name, value, usage }
}

/// Sorted by name. A longer name wins over a shorter one that it begins with.
pub const FLAGS: &[Flag] = &[
    flag("-###", Value::None, Use::ClangAlone),
    flag("--cuda-device-only", Value::None, Use::ClangAlone),
    flag("--cuda-gpu-arch=", Value::Joined, Use::GpuArch),
    flag("--cuda-host-only", Value::None, Use::Cuda),
    flag("--cuda-include-ptx=", Value::Joined, Use::Cuda),
    flag("--cuda-path=", Value::Joined, Use::CudaPath),
    flag("--eager-no-cpu-kernels", Value::None, Use::NoCpuKernels),
    flag("--eager-no-instrument", Value::None, Use::NoInstrument),
    flag("--eager-report=", Value::Joined, Use::Report),
    flag("--help", Value::None, Use::Help),
    flag("--no-cuda-include-ptx=", Value::Joined, Use::Cuda),
    flag("--offload-arch=", Value::Joined, Use::GpuArch),
    flag("--param", Value::Apart, Use::Both),
    flag("--show", Value::None, Use::Show),
    flag("--version", Value::None, Use::Version),
    flag("-B", Value::JoinedOrApart, Use::Both),
    flag("-D", Value::JoinedOrApart, Use::Compile),
    flag("-E", Value::None, Use::ClangAlone),
    flag("-I", Value::JoinedOrApart, Use::Compile),
    flag("-L", Value::JoinedOrApart, Use::Link),
    flag("-M", Value::None, Use::ClangAlone),
    flag("-MD", Value::None, Use::Compile),
    flag("-MF", Value::JoinedOrApart, Use::Compile),
    flag("-MM", Value::None, Use::ClangAlone),
    flag("-MMD", Value::None, Use::Compile),
    flag("-MP", Value::None, Use::Compile),
    flag("-MQ", Value::JoinedOrApart, Use::Compile),
    flag("-MT", Value::JoinedOrApart, Use::Compile),
    flag("-S", Value::None, Use::CompileOnly),
    flag("-T", Value::JoinedOrApart, Use::Link),
    flag("-U", Value::JoinedOrApart, Use::Compile),
    flag("-W", Value::Joined, Use::Compile),
    flag("-Wl,", Value::Joined, Use::Link),
    flag("-Xarch_device", Value::Apart, Use::Cuda),
    flag("-Xarch_host", Value::Apart, Use::Compile),
    flag("-Xassembler", Value::Apart, Use::Compile),
    flag("-Xclang", Value::Apart, Use::Compile),
    flag("-Xcuda-fatbinary", Value::Apart, Use::Cuda),
    flag("-Xcuda-ptxas", Value::Apart, Use::Cuda),
    flag("-Xlinker", Value::Apart, Use::Link),
    flag("-Xpreprocessor", Value::Apart, Use::Compile),
    flag("-c", Value::None, Use::CompileOnly),
    flag("-fsyntax-only", Value::None, Use::ClangAlone),
    flag("-fuse-ld=", Value::Joined, Use::Link),
    flag("-h", Value::None, Use::Help),
    flag("-idirafter", Value::JoinedOrApart, Use::Compile),
    flag("-imacros", Value::Apart, Use::Compile),
    flag("-include", Value::Apart, Use::Compile),
    flag("-iquote", Value::JoinedOrApart, Use::Compile),
    flag("-isysroot", Value::JoinedOrApart, Use::Both),
    flag("-isystem", Value::JoinedOrApart, Use::Compile),
    flag("-l", Value::JoinedOrApart, Use::Link),
    flag("-mllvm", Value::Apart, Use::Compile),
    flag("-no-pie", Value::None, Use::Link),
    flag("-nostdlib", Value::None, Use::Link),
    flag("-o", Value::JoinedOrApart, Use::Output),
    flag("-pie", Value::None, Use::Link),
    flag("-rdynamic", Value::None, Use::Link),
    flag("-rpath", Value::Apart, Use::Link),
    flag("-s", Value::None, Use::Link),
    flag("-shared", Value::None, Use::Link),
    flag("-static", Value::None, Use::Link),
    flag("-std=", Value::Joined, Use::Compile),
    flag("-target", Value::Apart, Use::Both),
    flag("-u", Value::JoinedOrApart, Use::Link),
    flag("-x", Value::JoinedOrApart, Use::Language),
    flag("-z", Value::Apart, Use::Link),
];

/// One argument of the command line, understood as far as the driver needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    Input(OsString),
    /// A known flag; `words` is how the user wrote it.
    Flag {
        usage: Use,
        value: OsString,
        words: Vec<OsString>,
    },
    /// Not in the table: clang's to judge.
    Unknown(OsString),
    /// `@file`.
    ResponseFile(OsString),
}

/// Why a command line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgError {
    #[error("argument to '{flag}' is missing")]
    ValueMissing { flag: &'static str },
}

/// Splits a command line.
///
/// # Errors
/// When a flag that takes a value is the last word.
pub fn parse(words: &[OsString]) -> Result<Vec<Arg>, ArgError> {
    let mut parsed = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        if text.len() > 1 && text.starts_with('@') {
            parsed.push(Arg::ResponseFile(word.clone()));
        } else if text == "-" || !text.starts_with('-') {
            parsed.push(Arg::Input(word.clone()));
        } else if let Some((found, value)) = find(&text) {
            let mut words = vec![word.clone()];
            let value = match value {
                Some(value) => value.into(),
                None => {
                    let next = rest.next().ok_or(ArgError::ValueMissing { flag: found.name })?;
                    words.push(next.clone());
                    next.clone()
                }
            };
            parsed.push(Arg::Flag { usage: found.usage, value, words });
        } else {
            parsed.push(Arg::Unknown(word.clone()));
        }
    }
    Ok(parsed)
}

/// The row that a word matches, with its value; the value is `None` when it is the next word.
fn find(text: &str) -> Option<(&'static Flag, Option<&str>)> {
    let matches = |flag: &'static Flag| {
        let value = text.strip_prefix(flag.name)?;
        match flag.value {
            Value::None => value.is_empty().then_some((flag, Some(""))),
            Value::Apart => value.is_empty().then_some((flag, None)),
            Value::Joined => Some((flag, Some(value))),
            Value::JoinedOrApart => Some((flag, (!value.is_empty()).then_some(value))),
        }
    };
    FLAGS.iter().filter_map(matches).max_by_key(|(flag, _)| flag.name.len())
}

/// A word as a shell would need it.
#[must_use]
pub fn shell_quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:@%#".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('#') {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn table_is_sorted_and_has_no_name_twice() {
        for pair in FLAGS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
    }

    #[test]
    fn every_flag_is_found_by_its_own_name() {
        for flag in FLAGS {
            let line = match flag.value {
                Value::None => flag.name.to_owned(),
                Value::Joined => format!("{}value", flag.name),
                Value::Apart | Value::JoinedOrApart => format!("{} value", flag.name),
            };
            let parsed = parse(&words(&line)).unwrap();
            assert_eq!(parsed.len(), 1, "{line}");
            assert!(
                matches!(&parsed[0], Arg::Flag { usage, .. } if *usage == flag.usage),
                "{line}: {parsed:?}"
            );
        }
    }

    #[test]
    fn longer_name_wins() {
        let parsed = parse(&words("-Wl,-z -Wall -MD -MF out.d -static-libstdc++")).unwrap();
        let usages: Vec<_> = parsed
            .iter()
            .map(|arg| match arg {
                Arg::Flag { usage, .. } => Some(*usage),
                _ => None,
            })
            .collect();
        let expected = [Some(Use::Link), Some(Use::Compile), Some(Use::Compile), Some(Use::Compile), None];
        assert_eq!(usages, expected);
    }

    #[test]
    fn value_of_a_flag_is_not_an_input() {
        let parsed = parse(&words("-include config.h -I include a.cu")).unwrap();
        let inputs: Vec<_> = parsed.iter().filter(|arg| matches!(arg, Arg::Input(_))).collect();
        assert_eq!(inputs, [&Arg::Input("a.cu".into())]);
    }

    #[test]
    fn missing_value_is_named() {
        assert_eq!(parse(&words("a.cu -o")).unwrap_err().to_string(), "argument to '-o' is missing");
    }

    #[test]
    fn quoting_keeps_words_apart() {
        assert_eq!(shell_quoted(OsStr::new("-DNAME=a b")), "'-DNAME=a b'");
        assert_eq!(shell_quoted(OsStr::new("it's")), r"'it'\''s'");
        assert_eq!(shell_quoted(OsStr::new("-I/a/b")), "-I/a/b");
    }
}
