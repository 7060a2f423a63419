//! Users that a user namespace maps.
//!
//! Trap: a user that it does not map has the kernel's overflow uid there, like every other user that is not mapped.
//! Such a number identifies no user.

/// True if this process's user namespace maps the user.
pub fn is_mapped_here(uid: u32) -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_mapped(&map, uid))
}

/// Parses lines of `/proc/PID/uid_map` (user_namespaces(7)): the first number inside, the first outside, how many.
fn is_mapped(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        (first..first.saturating_add(count)).contains(&u64::from(uid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_mapped_by_the_lines_of_the_namespace() {
        let host = "         0          0 4294967295\n";
        assert!(is_mapped(host, 0) && is_mapped(host, 65_534));
        let container = "         0       1000          1\n      5000     100000       1000\n";
        let inside = [0, 1, 5000, 5999, 6000, 65_534].map(|uid| is_mapped(container, uid));
        assert_eq!(inside, [true, false, true, true, false, false]);
        assert!(!is_mapped("", 0) && !is_mapped("nonsense", 0));
    }
}
