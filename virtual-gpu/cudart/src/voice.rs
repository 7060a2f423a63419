//! What the stand-in says to people.
//!
//! Trap: standard error is the program's too, so a line must show whose it is.

/// One line on standard error, marked as ours and as virtual.
pub fn say(line: std::fmt::Arguments<'_>) {
    eprintln!("eager virtual GPU: {line}");
}
