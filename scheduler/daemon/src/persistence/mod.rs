//! Files of the daemon: the run directory with its lock and sockets ([`run_dir`]), the state that the next daemon takes
//! over ([`state_file`]), and records for people: the [`journal`] and the programs that have ended ([`ended`]).

pub mod ended;
pub mod ended_file;
pub mod journal;
pub mod pipe;
pub mod run_dir;
pub mod safe_path;
pub mod state_file;
pub mod whole_file;
