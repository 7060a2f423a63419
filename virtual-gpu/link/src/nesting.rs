//! Decodes the content of a stamp at most one level deep: a stamp on a stamp has no meaning.
//!
//! Trap: the sender controls how deep a message nests, and the decoder recurses once per level. A frame of stamps on
//! stamps would overflow the receiver's stack, which no error handler survives. So the depth must be rejected while
//! decoding, not afterwards.

use std::cell::Cell;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::{Refusal, Reply, Request};

thread_local! {
    static ON_A_STAMP: Cell<bool> = const { Cell::new(false) };
}

pub fn request<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<Request>>, D::Error> {
    once(from)
}

pub fn reply<'de, D: Deserializer<'de>>(from: D) -> Result<Box<Result<Reply, Refusal>>, D::Error> {
    once(from)
}

fn once<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    if ON_A_STAMP.replace(true) {
        return Err(D::Error::custom("a stamp on a stamp"));
    }
    let read = T::deserialize(from);
    ON_A_STAMP.set(false);
    read
}
