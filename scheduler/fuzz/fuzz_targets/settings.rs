//! Reads untrusted text as a settings file: one line of error, or settings that read back the same from their printed
//! form.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| eagerd::fuzz::settings(text));
