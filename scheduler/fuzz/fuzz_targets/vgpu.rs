//! Sends untrusted messages, and streams that are no messages, to the virtual GPU server.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    eager_vgpud::fuzz::messages(bytes);
    eager_vgpud::fuzz::stream(bytes);
});
