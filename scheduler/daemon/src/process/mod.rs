//! The daemon as a process: how it starts, what it gives up, who starts it, what it logs and how it ends.

pub mod date;
pub mod detach;
pub mod exit;
pub mod fault;
pub mod harden;
pub mod listeners;
pub mod log;
pub mod processor_time;
pub mod service_manager;
pub mod users;
