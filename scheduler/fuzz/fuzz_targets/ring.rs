//! Serves the request page of a hostile client, through ring, slots and core.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| eagerd::fuzz::pages(bytes));
