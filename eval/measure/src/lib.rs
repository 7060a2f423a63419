//! Statistics of samples, with the machine, commit and time of each measurement: shared by calibration, tests and
//! benchmarks.
//!
//! [`statistics`] and [`turns`] are pure; [`Stamp::now`] reads the machine's state.
#![forbid(unsafe_code)]

mod interval;
mod stamp;
pub mod statistics;
mod turns;

pub use interval::Interval;
pub use stamp::Stamp;
pub use turns::turns;
