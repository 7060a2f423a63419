//! The daemon as a process of the operating system: how it starts ([`detach`], [`service_manager`], [`listeners`]), which
//! rights it gives up ([`harden`]), what it logs ([`log`]) and how it ends ([`exit`]).

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
