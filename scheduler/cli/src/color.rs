//! Colours for standard output, only on a terminal and only without `NO_COLOR` (no-color.org).
//!
//! Trap: align a column before colouring it. Otherwise the colour codes count as letters.

use std::io::IsTerminal;

/// True if standard output may be coloured.
pub fn is_wanted() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && std::io::stdout().is_terminal()
}

/// SGR colours of ECMA-48.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

pub fn paint(text: &str, color: Color, wanted: bool) -> String {
    if wanted { format!("\x1b[{}m{text}\x1b[0m", color as u8) } else { text.to_owned() }
}
