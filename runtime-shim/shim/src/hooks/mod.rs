//! The bodies of the hooks, by what they are about. Safe code over [`crate::runtime::Runtime`] and
//! [`crate::scheduler::Scheduler`]; the table of exports in the crate root calls them.

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
mod tasks;
pub(crate) mod unusual;
