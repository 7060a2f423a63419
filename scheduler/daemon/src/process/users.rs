//! Which users are the daemon's own, and which it cannot tell apart.
//!
//! Trap: all users who are not mapped into the namespace have the same uid there, that of "nobody"
//! (user_namespaces(7)). If that uid counted as a user, strangers could end each other's programs; and a daemon that is
//! not mapped itself has it too, so that every stranger would be its owner.

use crate::process::exit::Unservable;
use eager_shm::users::is_mapped_here;
use nix::unistd::Uid;
use std::sync::LazyLock;

/// The uid of all unmapped users, if there are any. Where every user is mapped, it is a real user's.
static UNMAPPED_UID: LazyLock<Option<u32>> = LazyLock::new(|| {
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    let number = text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_534);
    Some(number).filter(|uid| !is_mapped_here(*uid))
});

/// True if the uid stands for unmapped users, who cannot be told apart.
pub fn is_unmapped(uid: u32) -> bool {
    *UNMAPPED_UID == Some(uid)
}

/// Root and the daemon's own user: no limit of rates holds for them, and what belongs to them is trusted.
pub fn is_own(uid: u32) -> bool {
    uid == 0 || uid == Uid::effective().as_raw()
}

/// True if what belongs to the uid is another user's, who may change it. Unmapped users cannot be told from the owner of
/// the namespace.
pub fn is_another(uid: u32) -> bool {
    !is_own(uid) && !is_unmapped(uid)
}

/// # Errors
/// The daemon's own user is unmapped.
pub fn check() -> Result<(), Unservable> {
    let uid = Uid::effective().as_raw();
    if !is_unmapped(uid) {
        return Ok(());
    }
    Err(Unservable(format!(
        "this user namespace does not map the daemon's user: every unmapped user (uid {uid}) would count as its owner; map it, as with \
         `unshare --map-current-user`"
    )))
}
