//! A settings file: one line of error, or settings that are shown as a file that says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| eagerd::fuzz::settings(text));
