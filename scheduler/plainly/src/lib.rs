//! Explains what is wrong in a TOML or JSON file, and where, in the terms of the people who wrote it: settings of
//! `eagerd`, experiments of `eager-eval`, job lists of `eager-sim`.
//!
//! Trap: the messages are made from those of the libraries `toml` and `serde`. A newer version of either may word one
//! in a way that is not known here; it is then quoted as it is.
#![forbid(unsafe_code)]

mod reword;

pub use reword::{Words, did_you_mean, reword};

/// An error in a file, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// Counted from 1.
    pub line: usize,
    pub column: usize,
    /// The key whose value is wrong, if the error begins at a value directly behind its key.
    pub key: Option<String>,
    pub message: String,
}

/// Parses the text of a TOML file.
///
/// # Errors
/// The first error in it.
pub fn parse<T: serde::de::DeserializeOwned>(text: &str, words: &Words) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let (line, column) = position(text, start);
        FileError { line, column, key: key_before(text, start), message: reword(error.message(), words) }
    })
}

/// Parses the text of a JSON file.
///
/// # Errors
/// The first error in it; its key is not known.
pub fn parse_json<T: serde::de::DeserializeOwned>(text: &str, words: &Words) -> Result<T, FileError> {
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        FileError { line: error.line(), column: error.column(), key: None, message: reword(message, words) }
    })
}

/// Line and column, from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// The key directly in front of the value at this offset, if there is one.
fn key_before(text: &str, offset: usize) -> Option<String> {
    let before = text.get(..offset)?.trim_end().strip_suffix('=')?.trim_end();
    let key = before.rsplit(|c: char| c.is_whitespace() || "{,".contains(c)).next()?;
    (!key.is_empty()).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_a_line_and_a_column_too() {
        let words = Words {
            noun: "key",
            unknown: "there is no key",
            others: "the page lists them",
            elsewhere: Vec::new(),
        };
        let text = "{\"a\": 1,\n \"b\": \"x\"}";
        let wrong = parse_json::<std::collections::BTreeMap<String, u32>>(text, &words).expect_err("b");
        assert_eq!((wrong.line, wrong.key), (2, None));
        assert!(!wrong.message.contains("u32") && !wrong.message.contains("line"), "{}", wrong.message);
    }

    #[test]
    fn the_place_is_a_line_a_column_and_a_key() {
        let words = Words {
            noun: "key",
            unknown: "there is no key",
            others: "the page lists them",
            elsewhere: Vec::new(),
        };
        let wrong =
            parse::<std::collections::BTreeMap<String, u32>>("a = 1\nb = \"x\"\n", &words).expect_err("b");
        assert_eq!((wrong.line, wrong.column, wrong.key.as_deref()), (2, 5, Some("b")));
        assert_eq!(key_before("x = [{ a = 1, bc=2", 17).as_deref(), Some("bc"));
        assert_eq!(key_before("x = [1, 2", 8), None);
    }
}
