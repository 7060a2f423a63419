//! The daemon's settings: [`config`] merges flags, environment variables and the TOML file, and checks the result;
//! [`origins`] reports where each value came from; the other files parse single values.

pub mod config;
pub mod file;
pub mod http_address;
pub mod names;
pub mod origins;
