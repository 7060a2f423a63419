//! Memory of the process: addresses ([`Arena`]), what is allocated there ([`Table`]).
//!
//! Trap: whether an allocation *fits* is the server's decision; this module only finds addresses for it.

mod arena;
mod ranges;
mod table;

pub use arena::Arena;
pub use table::{Allocation, Kind, Table};
