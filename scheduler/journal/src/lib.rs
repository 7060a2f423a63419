//! A journal for those who read it: as text, program by program, as a timeline of tasks and devices, as a Perfetto trace.
//!
//! Trap: nothing here decides anything. What a task got is read from the recorded actions, never computed again, so that
//! a journal of another version is shown as it was.
#![forbid(unsafe_code)]

pub mod names;
pub mod perfetto;
pub mod pieces;
pub mod programs;
pub mod text;
pub mod timeline;

pub use text::{Journal, TextError};
pub use timeline::{Drawing, Timeline};
