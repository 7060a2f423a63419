//! Renders a journal for readers: as text, program by program, as a timeline of tasks and devices, as a Perfetto
//! trace.
//!
//! Trap: do not compute decisions here. Everything that a task got is read from the recorded actions, so that a
//! journal of another version is shown as it happened.
#![forbid(unsafe_code)]

pub mod names;
pub mod perfetto;
pub mod pieces;
pub mod programs;
pub mod text;
pub mod timeline;

pub use text::{Journal, TextError};
pub use timeline::{Drawing, Timeline};
