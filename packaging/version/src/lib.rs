//! Release and commit of a program, as shown by `--version` and `eager info`.
//!
//! Trap: this crate is rebuilt at every commit, so only programs may depend on it; a library that others depend on
//! would rebuild them all.
#![forbid(unsafe_code)]

/// The release, such as `0.2.0`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit in twelve digits; empty if built outside a clone, or without git.
pub const COMMIT: &str = env!("BUILD_COMMIT");
/// Release and commit, such as `0.2.0 (2183783342f3)`; without a commit the release alone.
pub const LONG: &str = env!("BUILD_LONG_VERSION");
