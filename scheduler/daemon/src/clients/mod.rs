//! Programs that use the daemon: new connections ([`newcomers`]), the processes behind them ([`identity`]), their task
//! slots ([`slots`]), and the limits of one user ([`quota`], [`places`]).

pub mod identity;
pub mod newcomers;
pub mod places;
pub mod quota;
pub mod slots;
