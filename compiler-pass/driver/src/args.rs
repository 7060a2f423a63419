//! Parses a command line into arguments, each as far as the driver must understand it.
//!
//! Trap: a value may look like anything, also like a flag or an input. So the words must be read once, in order.

use std::ffi::{OsStr, OsString};

use crate::flags::{self, FLAGS, Flag, Purpose, Value};

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    Input(OsString),
    /// A known flag; `words` are the words as the user wrote them.
    Flag {
        purpose: Purpose,
        value: OsString,
        words: Vec<OsString>,
    },
    /// A flag that is not in the table; clang judges it.
    Unknown(OsString),
}

/// Reason why a command line cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgError {
    #[error("argument to '{flag}' is missing")]
    ValueMissing { flag: &'static str },
    #[error("unknown switch '{switch}': did you mean '{closest}'?")]
    UnknownSwitch { switch: String, closest: &'static str },
}

/// Splits a command line.
///
/// # Errors
/// If a flag that takes a value is the last word, or a switch of the driver's own does not exist.
pub fn parse(words: &[OsString]) -> Result<Vec<Arg>, ArgError> {
    let mut parsed = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        if text == "-" || !text.starts_with('-') {
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
            parsed.push(Arg::Flag { purpose: found.purpose, value, words });
        } else if text.starts_with("--eager-") {
            let closest = flags::closest_switch(&text);
            return Err(ArgError::UnknownSwitch { switch: text.into_owned(), closest });
        } else {
            parsed.push(Arg::Unknown(word.clone()));
        }
    }
    Ok(parsed)
}

/// Row that matches a word, with its value; the value is `None` if it is in the next word.
fn find(text: &str) -> Option<(&'static Flag, Option<&str>)> {
    let matches = |flag: &'static Flag| {
        let value = text.strip_prefix(flag.name)?;
        match flag.value {
            Value::None => value.is_empty().then_some((flag, Some(""))),
            Value::Separate => value.is_empty().then_some((flag, None)),
            Value::Joined => Some((flag, Some(value))),
            Value::JoinedOrSeparate => Some((flag, (!value.is_empty()).then_some(value))),
        }
    };
    FLAGS.iter().filter_map(matches).max_by_key(|(flag, _)| flag.name.len())
}

/// Quotes a word for a shell, if needed.
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
    fn every_flag_is_found_by_its_own_name() {
        for flag in FLAGS {
            let line = match flag.value {
                Value::None => flag.name.to_owned(),
                Value::Joined => format!("{}value", flag.name),
                Value::Separate | Value::JoinedOrSeparate => format!("{} value", flag.name),
            };
            let parsed = parse(&words(&line)).unwrap();
            assert_eq!(parsed.len(), 1, "{line}");
            assert!(
                matches!(&parsed[0], Arg::Flag { purpose, .. } if *purpose == flag.purpose),
                "{line}: {parsed:?}"
            );
        }
    }

    #[test]
    fn longer_name_wins() {
        let parsed = parse(&words("-Wl,-z -Wall -MD -MF out.d -fstatic")).unwrap();
        let purposes: Vec<_> = parsed
            .iter()
            .map(|arg| match arg {
                Arg::Flag { purpose, .. } => Some(*purpose),
                _ => None,
            })
            .collect();
        let expected =
            [Purpose::Link, Purpose::Compile, Purpose::Dependencies, Purpose::DependencyFile].map(Some);
        assert_eq!(purposes[..4], expected);
        assert_eq!(purposes[4], None);
    }

    #[test]
    fn value_of_a_flag_is_not_an_input() {
        let parsed = parse(&words("-include config.h -I include a.cu")).unwrap();
        let inputs: Vec<_> = parsed.iter().filter(|arg| matches!(arg, Arg::Input(_))).collect();
        assert_eq!(inputs, [&Arg::Input("a.cu".into())]);
    }

    #[test]
    fn wrong_words_are_named() {
        let error = |line| parse(&words(line)).unwrap_err().to_string();
        assert_eq!(error("a.cu -o"), "argument to '-o' is missing");
        assert_eq!(
            error("--eager-no-instrumnet a.cu"),
            "unknown switch '--eager-no-instrumnet': did you mean '--eager-no-instrument'?"
        );
    }

    #[test]
    fn quoting_keeps_words_apart() {
        assert_eq!(shell_quoted(OsStr::new("-DNAME=a b")), "'-DNAME=a b'");
        assert_eq!(shell_quoted(OsStr::new("it's")), r"'it'\''s'");
        assert_eq!(shell_quoted(OsStr::new("-I/a/b")), "-I/a/b");
    }
}
