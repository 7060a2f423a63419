//! Decodes untrusted first packets and request records: rejected, or the same after encoding and decoding again.
#![no_main]

use eager_proto::hello::Opening;
use eager_proto::request::{RequestRecord, decode, encode};
use libfuzzer_sys::fuzz_target;
use zerocopy::FromBytes;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(opening) = Opening::decode(bytes) {
        assert_eq!(opening.encode(), bytes);
        assert!(!opening.hello.label().chars().any(char::is_control));
    }
    let Ok((record, _)) = RequestRecord::read_from_prefix(bytes) else { return };
    if let Ok(request) = decode(&record) {
        // Names are made safe to print, which may lengthen them, and are then cut; everything else stays the same.
        let again = decode(&encode(&request)).expect("what this build writes");
        assert_eq!((again.sequence, again.slot), (request.sequence, request.slot));
        assert_eq!(std::mem::discriminant(&again.body), std::mem::discriminant(&request.body));
    }
});
