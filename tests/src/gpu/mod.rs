//! Checks on a real GPU: a folder that runs without compilers (the bundle), and the steps that run from it.
//!
//! [`make`] fills the folder on a machine with the toolchain; [`suite`] runs every step and ends with one table and one
//! record. Trap: the same code runs on the stand-in runtime to test itself. [`bundle::Devices`] tells the two apart,
//! and table and record repeat it, so that a virtual number cannot be taken for a GPU's.

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
