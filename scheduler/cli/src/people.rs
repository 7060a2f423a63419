//! Users by the names that this machine knows them by.
//!
//! Trap: the daemon may serve users of containers, whom nobody here knows; they keep their numbers.

use nix::unistd::{Uid, User};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Names that were asked for; a directory service may take long to answer, and screens ask again and again.
static KNOWN: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());

/// The user's name, or the number.
pub fn name(uid: u32) -> String {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = || User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
    known.entry(uid).or_insert_with(|| found().unwrap_or_else(|| uid.to_string())).clone()
}

/// The number of a user who is given by name or number.
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
