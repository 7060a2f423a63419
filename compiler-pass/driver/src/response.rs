//! Response files: `@file` on a command line stands for the words in that file.
//!
//! The driver expands them instead of clang, so that the sources named in them are instrumented. clang treats a missing
//! `@file` as an input of that name. An error is more helpful to a build that lost its response file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Limit on the nesting of files; deeper nesting is a cycle.
const DEPTH_LIMIT: usize = 16;

/// Reason why a response file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    #[error("cannot read response file {path}: {reason}")]
    Unreadable { path: String, reason: std::io::Error },
    #[error("response file {path} includes itself")]
    Circle { path: String },
}

/// Replaces every `@file` by the words in it; `read` returns a file's text.
///
/// # Errors
/// If a file cannot be read or includes itself.
pub fn expand(
    words: &[OsString],
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<Vec<OsString>, ResponseError> {
    let mut expanded = Vec::new();
    for word in words {
        expand_word(word, read, 0, &mut expanded)?;
    }
    Ok(expanded)
}

fn expand_word(
    word: &OsString,
    read: &dyn Fn(&Path) -> std::io::Result<String>,
    depth: usize,
    expanded: &mut Vec<OsString>,
) -> Result<(), ResponseError> {
    let path = match word.to_str().and_then(|text| text.strip_prefix('@')) {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        _ => {
            expanded.push(word.clone());
            return Ok(());
        }
    };
    let shown = || path.display().to_string();
    if depth == DEPTH_LIMIT {
        return Err(ResponseError::Circle { path: shown() });
    }
    let text = read(&path).map_err(|reason| ResponseError::Unreadable { path: shown(), reason })?;
    split(&text).iter().try_for_each(|word| expand_word(word, read, depth + 1, expanded))
}

/// Splits text into words as GNU tools do: white space separates, both kinds of quotes group, and a backslash keeps the
/// next character literally (inside single quotes too).
#[must_use]
pub fn split(text: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (_, Some(open)) if character == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(character),
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, None) if character.is_whitespace() => words.extend(word.take().map(OsString::from)),
            (_, None) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word.map(OsString::from));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_split_as_gnu_tools_split_them() {
        let cases = [
            ("a  b\n\tc", vec!["a", "b", "c"]),
            (r#"-DX="a b" 'c d' e\ f"#, vec!["-DX=a b", "c d", "e f"]),
            (r#""" x"#, vec!["", "x"]),
            ("", vec![]),
        ];
        for (text, expected) in cases {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn files_nest_and_circles_end() {
        let read = |path: &Path| match path.to_str() {
            Some("one") => Ok("-O2 @two b.cu".to_owned()),
            Some("two") => Ok("a.cu".to_owned()),
            Some("self") => Ok("@self".to_owned()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        };
        let expand = |word: &str| expand(&[word.into(), "-c".into()], &read);
        assert_eq!(expand("@one").unwrap(), ["-O2", "a.cu", "b.cu", "-c"]);
        assert!(expand("@self").unwrap_err().to_string().contains("self includes itself"));
        let missing = expand("@none").unwrap_err().to_string();
        assert!(missing.starts_with("cannot read response file none: "), "{missing}");
    }
}
