//! Pure timing and memory model of GPUs under Unified Memory: no clock, no I/O; takes times, returns completions.
//!
//! (Only [`parse_cards`] reads files: the card files that a list names.)
//!
//! One model, two users: the simulator steps it in virtual time, the virtual GPU server in (scaled) real time. All
//! sizes are bytes of the modelled (full-size) GPU. Sources of formulas and constants: the cards (`cards/*.toml`) and
//! the comments at each formula.
#![forbid(unsafe_code)]

pub mod api;
mod calibration;
mod card;
pub mod checks;
mod device;
mod fault;
mod kernel;
mod model;
mod options;
mod pace;
mod placement;
mod residency;
mod run;
mod share;
mod transfer;

pub use api::*;
pub use calibration::{CardFileError, Comparison, Measured, OutputError};
pub use card::{
    BadNumber, Card, CardError, CardsError, Details, Link, Sourced, card, card_list, card_names, first_card,
    parse_cards, parse_nonnegative,
};
pub use device::DeviceTotals;
pub use kernel::{Work, work};
pub use model::{Advice, Model};
pub use options::{Eviction, Options, Placement};
pub use residency::BLOCK_BYTES;
