//! Stamp of the records and samples of this program.

use eager_measure::Stamp;
use std::path::Path;

/// Reads this machine's state once.
pub fn stamp() -> Stamp {
    Stamp::now(Path::new(env!("CARGO_MANIFEST_DIR")))
}
