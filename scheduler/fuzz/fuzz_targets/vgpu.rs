//! Messages of strangers to the virtual GPU server, and streams that are none.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    eager_vgpud::fuzz::messages(bytes);
    eager_vgpud::fuzz::stream(bytes);
});
