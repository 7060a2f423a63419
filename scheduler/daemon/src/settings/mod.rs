//! What the daemon is told, and where each setting came from.

pub mod config;
pub mod http_address;
pub mod names;
pub mod origins;
