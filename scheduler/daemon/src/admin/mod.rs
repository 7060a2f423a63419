//! The admin socket, through which `eager` and the web page talk to the daemon: [`server`] reads requests and limits
//! users, [`answers`] carries each request out, [`refusal`] says why one is not, [`tables`] and [`waiting`] build the rows
//! of the answers.

pub mod answers;
pub mod refusal;
pub mod server;
pub mod tables;
pub mod waiting;
