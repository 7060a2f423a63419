//! Errors of the connection to the virtual GPU server.

use std::io;
use std::path::PathBuf;

use crate::Refusal;

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("no virtual GPU server at {path}: {source}; start one with `eager-vgpud --socket {path}`", path = path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error(
        "no thread can be started for the virtual GPU server's answers: {0}; the number of processes or the memory is \
         limited (ulimit -u, -v, -l)"
    )]
    NoThread(io::Error),
    #[error("the virtual GPU server went away: {0}")]
    Lost(String),
    #[error("the virtual GPU server refused: {0}")]
    Refused(#[from] Refusal),
    #[error("not a message of virtual GPU protocol version {version}: {what}", version = crate::PROTOCOL_VERSION)]
    Malformed { what: String },
}

impl LinkError {
    /// The refusal, if the connection still works.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            LinkError::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
