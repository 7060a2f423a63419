//! The checks of a real GPU: a folder that runs without compilers (the bundle), and what is run from it.
//!
//! [`make`] fills the folder on a machine with the toolchain; [`suite`] runs everything from it and ends with one table and
//! one record. Trap: the same code runs on the stand-in runtime, as a test of itself: [`bundle::Devices`] says which it was,
//! and table and record repeat it, so that no number can be taken for a GPU's.

pub mod bundle;
pub mod choice;
pub mod journal;
pub mod kept;
pub mod machine;
pub mod make;
pub mod process;
pub mod record;
pub mod rule;
pub mod series;
pub mod served;
pub mod steps;
pub mod suite;
