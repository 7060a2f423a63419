//! Names inside fixed-size records: UTF-8, padded with NUL.
//!
//! Trap: the bytes come from a stranger and end in terminals and log files; [`unpack`] therefore never fails and never
//! returns a control character.

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

/// Reads a field: up to the first NUL; bytes that are not UTF-8 and control characters become U+FFFD.
pub fn unpack(field: &[u8]) -> String {
    let len = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..len])
        .chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
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
}
