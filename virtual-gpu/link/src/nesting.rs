//! What stands on a stamp, read once deep: a stamp on a stamp means nothing.
//!
//! Trap: how deep a message nests is its sender's word, and the decoder calls itself for each level: a frame of stamps on
//! stamps would overflow the stack of whoever reads it, which no error handler survives. So the depth is refused while it
//! is read, not afterwards.

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
