//! Statistics of samples, and where and how they were taken: one place for calibration, tests and benchmarks.
//!
//! [`statistics`] and [`turns`] are pure; [`Stamp::now`] looks at the machine.
#![forbid(unsafe_code)]

mod stamp;
pub mod statistics;
mod turns;

pub use stamp::Stamp;
pub use turns::turns;
