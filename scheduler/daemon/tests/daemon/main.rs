//! The daemon from outside: a real `eagerd`, real sockets and pages, clients without CUDA.
//!
//! Trap: one test executable, because one of its tests starts it again as a child process.

mod activation;
mod attacks;
mod contexts;
mod faults;
mod history;
mod hostile;
mod http;
mod journals;
mod learnt;
mod limits;
mod long;
mod memory;
mod page;
mod restart;
mod service;
mod service_manager;
mod starts;
mod support;
mod truth;
mod users;
mod verbs;
mod virtual_devices;
mod watchdog;
