//! Takes over the damaged state file of an earlier daemon.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| eagerd::fuzz::state(bytes));
