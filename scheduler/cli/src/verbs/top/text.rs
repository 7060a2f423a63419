//! Fits text into a number of columns. Pure.
//!
//! Trap: a character may take two columns of a terminal, or none.

use ratatui::text::Span;

/// Returns the number of columns that a text takes.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Cuts a text to at most `most` columns; `…` marks a cut.
pub fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        if width(&kept) + width(letter.encode_utf8(&mut [0; 4])) + 1 > most {
            break;
        }
        kept.push(letter);
    }
    if most > 0 {
        kept.push('…');
    }
    kept
}

/// Cuts or pads a text to exactly `columns` columns; numbers are aligned right.
pub fn pad(text: &str, columns: usize, is_right: bool) -> String {
    let text = cut(text, columns);
    let space = " ".repeat(columns - width(&text));
    if is_right { space + &text } else { text + &space }
}

/// Breaks a text into lines of at most `columns`, between words where possible.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let joined = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&joined) <= columns || line.is_empty() {
            line = cut(&joined, columns);
        } else {
            lines.push(std::mem::replace(&mut line, cut(word, columns)));
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_their_columns() {
        assert_eq!(
            (cut("größer", 4), cut("ab", 4), cut("abc", 0)),
            ("grö…".into(), "ab".into(), String::new())
        );
        assert_eq!((cut("日本語", 5), pad("日本", 5, false)), ("日本…".into(), "日本 ".into()));
        assert_eq!((pad("7", 3, true), pad("abcdef", 4, false)), ("  7".into(), "abc…".into()));
        assert_eq!(wrap("waits: no room here", 8), ["waits:", "no room", "here"]);
        assert_eq!(wrap("averylongword x", 6), ["avery…", "x"]);
        assert_eq!(wrap("", 6), [""]);
    }
}
