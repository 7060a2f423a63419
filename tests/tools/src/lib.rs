//! Nothing by itself: with this crate in a build, `eagerd` builds `hostile-client` too. Trap: `make build` leaves this
//! crate out, and a crate of the product must not depend on it.
#![forbid(unsafe_code)]
