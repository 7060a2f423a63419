//! Files of the daemon: the run directory, what survives a restart, and what is kept for people.

pub mod ended;
pub mod ended_file;
pub mod journal;
pub mod run_dir;
pub mod state_file;
pub mod whole_file;
