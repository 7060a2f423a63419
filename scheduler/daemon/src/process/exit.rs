//! The statuses with which the daemon ends.
//!
//! Trap: other programs act on the numbers. The unit's `RestartPreventExitStatus=` keeps systemd from retrying a start
//! that only a person can repair.

/// Exit status where a setting, a permission or the like must be changed before another start can help: `EX_CONFIG` of
/// sysexits.h, which systemd names too. For a wrong command line clap exits with 2.
pub const CONFIGURATION: u8 = 78;

/// For `--help`, from which the manual is made.
pub const HELP: &str = "Exit status:
  0   it was stopped on request
  1   something failed; starting it again may help
  2   the command line is wrong
  78  it cannot start until a setting, a permission or whatever its message names is changed";

/// The settings ask for something that cannot be done here; the text says what to change.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unservable(pub String);
