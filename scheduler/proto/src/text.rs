//! Names inside fixed-size records: UTF-8, padded with NUL.
//!
//! Trap: the bytes come from an untrusted program and end in terminals and log files; [`unpack`] therefore never fails
//! and never returns a control character, nor one that changes the order in which a terminal shows what comes after it.

/// Puts `text` into a field, cut at the last whole character that fits (a NUL inside ends it).
pub fn pack<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let whole = text.split('\0').next().unwrap_or_default();
    let mut len = whole.len().min(N);
    while !whole.is_char_boundary(len) {
        len -= 1;
    }
    field[..len].copy_from_slice(&whole.as_bytes()[..len]);
    field
}

/// Marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm (UAX #9, table of explicit formatting
/// characters), and its line and paragraph separators.
fn reorders(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text as it may stand on a terminal: control characters, and those that reorder others, become U+FFFD.
pub fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || reorders(c) { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// Reads a field: up to the first NUL; bytes that are not UTF-8 and control characters become U+FFFD.
pub fn unpack(field: &[u8]) -> String {
    let len = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    shown(&String::from_utf8_lossy(&field[..len]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_a_whole_character() {
        assert_eq!(unpack(&pack::<4>("abcé")), "abc");
        assert_eq!(unpack(&pack::<5>("abcé")), "abcé");
        assert_eq!(unpack(&pack::<8>("a\0b")), "a");
    }

    #[test]
    fn strange_bytes_cannot_reach_a_terminal() {
        assert_eq!(unpack(b"\x1b[31mred\n\xff\0x"), "\u{fffd}[31mred\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_name_does_not_turn_round_what_stands_after_it() {
        let tricks = "a\u{202e}b\u{2066}c\u{2069}d\u{200f}e\u{2028}f";
        assert_eq!(unpack(tricks.as_bytes()), "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}f");
        assert_eq!(unpack("שלום café".as_bytes()), "שלום café", "letters stay");
    }
}
