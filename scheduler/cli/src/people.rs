//! Names of users on this machine.
//!
//! The daemon may serve users of containers, whom this machine does not know; they are shown by number.

use nix::unistd::{Uid, User};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Names found so far. A directory service may be slow, and screens ask repeatedly.
static KNOWN: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());

/// Returns the user's name, or the number if there is none.
pub fn name(uid: u32) -> String {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = || User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
    known.entry(uid).or_insert_with(|| found().unwrap_or_else(|| uid.to_string())).clone()
}

/// Returns the number of a user given by name or number.
pub fn uid(text: &str) -> Option<u32> {
    let named = || User::from_name(text).ok().flatten().map(|user| user.uid.as_raw());
    text.parse().ok().or_else(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_numbers() {
        assert_eq!((name(0), name(4_000_000_001)), ("root".into(), "4000000001".into()));
        assert_eq!((uid("root"), uid("1000"), uid("nobody of this name")), (Some(0), Some(1000), None));
    }
}
