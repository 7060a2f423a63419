//! Which release and which commit a program is of: what `--version` and `eager info` say.
//!
//! Trap: this is built again with every commit, so only programs depend on it, and no library that others are built on.
#![forbid(unsafe_code)]

/// The release, such as `0.2.0`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit in twelve digits; empty where it was not built in a clone, or without git.
pub const COMMIT: &str = env!("BUILD_COMMIT");
/// Both, such as `0.2.0 (2183783342f3)`; without a commit the release alone.
pub const LONG: &str = env!("BUILD_LONG_VERSION");
