//! Sizes, times and words as they fit into a few columns. Pure.
//!
//! Trap: a letter may take two columns of a terminal, or none.

use ratatui::text::Span;

/// `12.0G`: binary units, so that the same number reads the same everywhere.
pub fn size(bytes: u64) -> String {
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let Some((unit, shift)) = units.into_iter().find(|(_, shift)| bytes >> shift != 0) else {
        return bytes.to_string();
    };
    let value = bytes as f64 / (1u64 << shift) as f64;
    if value < 99.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// `0.4s`, `12s`, `3m05s`, `2h07m`.
pub fn time(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..=9 => format!("{seconds}.{}s", ms / 100 % 10),
        10..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// At most `most` columns; what is cut off is shown by `…`.
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

/// Exactly `columns` columns; numbers stand right.
pub fn pad(text: &str, columns: usize, is_right: bool) -> String {
    let text = cut(text, columns);
    let space = " ".repeat(columns - width(&text));
    if is_right { space + &text } else { text + &space }
}

/// Lines of at most `columns`, broken between words where that goes.
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
    fn numbers_are_short_and_keep_three_digits() {
        let sizes = [0, 1023, 1024, 1 << 20, 12 << 30, 107_374_182_400, 3 << 40].map(size);
        assert_eq!(sizes, ["0", "1023", "1.0K", "1.0M", "12.0G", "100G", "3.0T"]);
        let times = [0, 430, 9_999, 10_000, 59_999, 65_000, 3_599_999, 7_620_000].map(time);
        assert_eq!(times, ["0.0s", "0.4s", "9.9s", "10s", "59s", "1m05s", "59m59s", "2h07m"]);
    }

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
