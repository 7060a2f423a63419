//! Log lines of the stand-in.
//!
//! Trap: the program shares standard error, so every line must be marked.

/// Logs a line on standard error, marked as Eager's and as virtual.
pub fn log_line(line: std::fmt::Arguments<'_>) {
    eprintln!("eager virtual GPU: {line}");
}
