//! The bodies of the hooks, grouped by subject. Safe code over [`crate::runtime::Runtime`] and
//! [`crate::scheduler::Scheduler`]; the tables in [`crate::exports`] call them.

mod believed;
mod copies;
mod dead;
mod device;
mod early;
mod fast;
mod foothold;
pub mod host_memory;
mod late;
mod launch;
pub(crate) mod libraries;
mod mapped;
mod measure;
mod memory;
mod streams;
pub(crate) mod tasks;
pub(crate) mod unusual;
mod variables;
