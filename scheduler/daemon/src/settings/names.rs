//! Users and groups in settings, by number or by name.
//!
//! A name is looked up on this machine when the settings are read; after that the daemon compares numbers.

use nix::unistd::{Group, User};
use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// A user by number or name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserName(pub u32);

/// A group by number or name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupName(pub u32);

/// This machine has no user or group of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    #[error("this machine has no user `{0}`")]
    User(String),
    #[error("this machine has no group `{0}`")]
    Group(String),
}

impl FromStr for UserName {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<UserName, UnknownName> {
        let named = || User::from_name(text).ok().flatten().map(|user| user.uid.as_raw());
        let uid = text.parse().ok().or_else(named);
        uid.map(UserName).ok_or_else(|| UnknownName::User(text.to_owned()))
    }
}

impl FromStr for GroupName {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<GroupName, UnknownName> {
        let named = || Group::from_name(text).ok().flatten().map(|group| group.gid.as_raw());
        let gid = text.parse().ok().or_else(named);
        gid.map(GroupName).ok_or_else(|| UnknownName::Group(text.to_owned()))
    }
}

/// A user or group as written in a file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a user's or group's number, or name in quotation marks")]
enum InFile {
    Number(u32),
    Name(String),
}

impl InFile {
    fn read<'de, T: FromStr<Err = UnknownName>, D: Deserializer<'de>>(
        deserializer: D,
        by_number: fn(u32) -> T,
    ) -> Result<T, D::Error> {
        match InFile::deserialize(deserializer)? {
            InFile::Number(number) => Ok(by_number(number)),
            InFile::Name(name) => name.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl<'de> Deserialize<'de> for UserName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UserName, D::Error> {
        InFile::read(deserializer, UserName)
    }
}

impl<'de> Deserialize<'de> for GroupName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GroupName, D::Error> {
        InFile::read(deserializer, GroupName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_numbers_or_names() {
        assert_eq!(("root".parse(), "1000".parse()), (Ok(UserName(0)), Ok(UserName(1000))));
        assert_eq!(("root".parse(), "27".parse()), (Ok(GroupName(0)), Ok(GroupName(27))));
        let unknown = "no-such-name".parse::<UserName>().expect_err("unknown");
        assert_eq!(unknown.to_string(), "this machine has no user `no-such-name`");
    }
}
