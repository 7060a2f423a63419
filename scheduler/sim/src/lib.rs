//! Discrete-event simulator around the scheduler core and the GPU model, in virtual time.
//!
//! Trap: the simulator makes no scheduling decisions. Every decision comes from the core (an action), the model (a
//! completion), or a fixed behaviour of the runtime shim that the simulator imitates.
#![forbid(unsafe_code)]

mod audit;
mod client;
mod cores;
mod engine;
mod expected;
mod host;
pub mod job;
mod lives;
mod memory;
mod options;
pub mod replay;
mod result;
mod sentences;
mod shim;
mod steps;
pub mod swarm;
mod tasks;

pub use cores::CoreOrder;
pub use eager_client::FILL_PIECE_BYTES;
pub use engine::{SimError, run};
pub use options::{Estimates, Kill, SimOptions, Submission};
pub use result::{DeviceResult, JobResult, Outcome, SimResult, Span, TaskTimes};
