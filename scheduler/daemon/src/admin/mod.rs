//! The admin socket: questions, and answers as rows for people.

pub mod answers;
pub mod server;
pub mod tables;
pub mod waiting;
