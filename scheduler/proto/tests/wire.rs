//! Properties on which a peer of another build relies: the bytes of every layout, and that no bytes can break a reader.
//!
//! Trap: a failure of `layouts_are_pinned` means that the wire changed. Raise the protocol version; do not just edit
//! the numbers.

use eager_proto::hello::{
    DEVICES_MAX, FEATURE_RESUME, FEATURES, Greeting, Hello, Opening, Refusal, Resume, Welcome,
};
use eager_proto::reply::{REASON_BYTES, ReplyPage, TaskCell, gate};
use eager_proto::request::{
    BeginFlags, Malformed, Request, RequestBody, RequestPage, RequestRecord, Slot, TaskCounters, decode,
    encode,
};
use eager_proto::{RING_SLOTS, TASK_SLOTS};
use eager_units::{AccessClass, Barred};
use proptest::prelude::*;
use std::mem::offset_of;
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn layouts_are_pinned() {
    assert_eq!((size_of::<RequestPage>(), align_of::<RequestPage>()), (8512, 8));
    assert_eq!(offset_of!(RequestPage, head), 12);
    assert_eq!(offset_of!(RequestPage, counters), 64);
    assert_eq!(offset_of!(RequestPage, ring), 320);
    assert_eq!(
        (offset_of!(RequestRecord, kind), offset_of!(RequestRecord, slot), offset_of!(RequestRecord, words)),
        (4, 6, 8)
    );
    assert_eq!(offset_of!(RequestRecord, text), 56);
    assert_eq!(offset_of!(TaskCounters, retired), 8);
    assert_eq!((size_of::<ReplyPage>(), align_of::<ReplyPage>()), (4160, 8));
    assert_eq!((offset_of!(ReplyPage, tail), offset_of!(ReplyPage, cells)), (12, 64));
    assert_eq!((offset_of!(ReplyPage, texts), REASON_BYTES), (1088, 192));
    assert_eq!(
        [
            offset_of!(TaskCell, sequence),
            offset_of!(TaskCell, state),
            offset_of!(TaskCell, answered),
            offset_of!(TaskCell, device),
            offset_of!(TaskCell, class),
            offset_of!(TaskCell, flags),
            offset_of!(TaskCell, grant),
            offset_of!(TaskCell, requirement),
            offset_of!(TaskCell, gate),
            offset_of!(TaskCell, reason),
        ],
        [0, 4, 8, 12, 16, 20, 24, 32, 40, 48]
    );
    assert_eq!((offset_of!(Hello, features), offset_of!(Hello, label)), (8, 24));
    assert_eq!(
        (offset_of!(Welcome, client), offset_of!(Welcome, status), offset_of!(Welcome, reason)),
        (16, 24, 32)
    );
    assert_eq!(
        (offset_of!(Resume, client), offset_of!(Resume, sequence_floor), size_of::<Resume>()),
        (0, 8, 16)
    );
    assert_eq!((TASK_SLOTS, RING_SLOTS), (16, 64));
}

/// Uuids, 16 bytes each, follow the welcome for clients that ask.
#[test]
fn devices_are_told_to_those_who_ask() {
    let (asks, does_not) = (Hello::new("new"), Hello { features: FEATURE_RESUME, ..Hello::new("old") });
    let uuids = [[1; 16], [2; 16]];
    let told = Greeting::new(Welcome::accepted(7), &asks, &uuids);
    assert_eq!((told.encode().len(), told.devices.len()), (160 + 32, 2));
    assert_eq!(Greeting::decode(&told.encode()), Some(told.clone()));
    for plain in [
        Greeting::new(Welcome::accepted(7), &does_not, &uuids),
        Greeting::new(Welcome::accepted(7), &asks, &[]),
    ] {
        assert_eq!((plain.encode().len(), plain.welcome.features), (160, 0));
        assert_eq!(Greeting::decode(&plain.encode()), Some(plain));
    }
    let many = Greeting::new(Welcome::accepted(7), &asks, &[[3; 16]; DEVICES_MAX + 1]);
    assert_eq!((many.devices.len(), many.encode().len()), (DEVICES_MAX, Greeting::BYTES_MAX));
    let packet = told.encode();
    let odd = [&packet[..], &[0]].concat();
    let unasked = [Welcome::accepted(7).as_bytes(), &[0; 16]].concat();
    for wrong in [&packet[..160], &packet[..175], &odd, &unasked, &packet[1..], &[]] {
        assert_eq!(Greeting::decode(wrong), None, "{} bytes", wrong.len());
    }
}

/// A client of minor 0 sends the same hello and knows no features; one that resumes sends 16 bytes more.
#[test]
fn the_last_minor_is_served_and_what_it_did_not_know_is_not_read_into_it() {
    let old = Hello { minor: 0, features: 0, ..Hello::new("old") };
    assert_eq!(Opening::decode(old.as_bytes()), Ok(Opening { hello: old, resume: None }));
    assert_eq!(Welcome::accepted(1).granting(old.features).features, 0);
    let hello = Hello::new("new");
    let resume = Some(Resume { client: 7, sequence_floor: 40, reserved: 0 });
    let again = Opening { hello, resume };
    assert_eq!(again.encode().len(), 104);
    assert_eq!(Opening::decode(&again.encode()), Ok(again));
    assert_eq!(Welcome::accepted(7).granting(hello.features | 1 << 40).features, FEATURES & FEATURE_RESUME);
    let refused = |packet: &[u8]| Opening::decode(packet).expect_err("must be refused");
    assert_eq!(refused(&Opening { hello: old, resume }.encode()), Refusal::Length { bytes: 104 });
    assert_eq!(refused(&again.encode()[..103]), Refusal::Length { bytes: 103 });
    assert_eq!(refused(&[&again.encode()[..], &[0]].concat()), Refusal::Length { bytes: 105 });
    assert_eq!(refused(&hello.as_bytes()[1..]), Refusal::Length { bytes: 87 });
    let next = Hello { minor: 9, features: u64::MAX, ..hello };
    assert_eq!(Opening::decode(next.as_bytes()), Ok(Opening { hello: next, resume: None }));
}

#[test]
fn a_begin_is_these_bytes() {
    let request = Request {
        sequence: 7,
        slot: Slot::new(3).expect("slot 3"),
        body: RequestBody::TaskBegin {
            requirement: 0x0102,
            site: 0,
            blocks: 5,
            threads_per_block: 256,
            flags: BeginFlags::LAZY,
            function: "main".into(),
        },
    };
    let mut expected = vec![7, 0, 0, 0, 1, 0, 3, 0, 2, 1, 0, 0, 0, 0, 0, 0];
    for word in [0u64, 5, 256, 1, 0] {
        expected.extend(word.to_le_bytes());
    }
    expected.extend(b"main");
    expected.resize(128, 0);
    assert_eq!(encode(&request).as_bytes(), expected);
}

#[test]
fn what_no_honest_client_writes_is_named() {
    let good = encode(&Request { sequence: 1, slot: Slot::FIRST, body: RequestBody::Busy });
    let broken = |change: fn(&mut RequestRecord)| {
        let mut record = good;
        change(&mut record);
        decode(&record).expect_err("must be malformed")
    };
    assert_eq!(broken(|r| r.slot = 16), Malformed::Slot { slot: 16 });
    assert_eq!(broken(|r| r.kind = 0), Malformed::Kind { kind: 0 });
    assert_eq!(broken(|r| r.kind = 10), Malformed::Kind { kind: 10 });
    assert_eq!(broken(|r| r.words[5] = 1), Malformed::NotZero { kind: 7 });
    assert_eq!(broken(|r| r.text[71] = 1), Malformed::NotZero { kind: 7 });
    assert_eq!(
        broken(|r| {
            r.kind = 1;
            r.words[4] = 8;
        }),
        Malformed::Flags { kind: 1, flags: 8 }
    );
    assert_eq!(
        broken(|r| {
            r.kind = 6;
            r.words[2] = 256;
        }),
        Malformed::Access { access: 256 }
    );
}

#[test]
fn a_hello_of_another_build_is_refused_with_the_reason() {
    let good = Hello::new("vecadd");
    assert_eq!(Hello::decode(good.as_bytes()), Ok(good));
    assert_eq!(good.label(), "vecadd");
    let refusal = |hello: Hello| Hello::decode(hello.as_bytes()).expect_err("must be refused");
    assert_eq!(refusal(Hello { magic: 0, ..good }), Refusal::Magic);
    assert_eq!(refusal(Hello { major: 9, ..good }), Refusal::Version { major: 9, minor: 1 });
    assert_eq!(refusal(Hello { reply_page_bytes: 1, ..good }), Refusal::Pages { request: 8512, reply: 1 });
    assert_eq!(Hello::decode(&good.as_bytes()[1..]), Err(Refusal::Length { bytes: 87 }));
    let welcome = Welcome::refused(&Refusal::Version { major: 9, minor: 0 });
    assert_eq!(welcome.reason(), "the program speaks protocol 9.0, this daemon 1.1");
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_:<>é ]{0,30}"
}

fn body() -> impl Strategy<Value = RequestBody> {
    let begin = (any::<[u64; 5]>(), name()).prop_map(|(words, function)| {
        let [requirement, site, blocks, threads_per_block, bits] = words;
        let [lazy, managed, whole] = [1, 2, 4].map(|bit| bits & bit != 0);
        let flags = BeginFlags { lazy, managed, whole, barred: Barred(bits >> 16) };
        RequestBody::TaskBegin { requirement, site, blocks, threads_per_block, flags, function }
    });
    let held =
        (any::<[u64; 2]>(), 0..4usize, name()).prop_map(|([footprint, static_size], access, kernel)| {
            let access =
                [AccessClass::Unknown, AccessClass::OnePass, AccessClass::Cyclic, AccessClass::Sparse]
                    [access];
            RequestBody::KernelHeld { footprint, static_size, access, kernel }
        });
    prop_oneof![
        begin,
        held,
        any::<u64>().prop_map(|bytes| RequestBody::TaskExtend { bytes }),
        any::<u64>().prop_map(|bytes| RequestBody::TaskShrink { bytes }),
        Just(RequestBody::AllLaunched),
        Just(RequestBody::TaskEnd),
        Just(RequestBody::Busy),
        Just(RequestBody::Idle),
        Just(RequestBody::Promoted),
    ]
}

proptest! {
    #[test]
    fn a_request_comes_back_as_it_went(sequence: u32, slot in 0usize..TASK_SLOTS, body in body()) {
        let request = Request { sequence, slot: Slot::new(slot).expect("in range"), body };
        prop_assert_eq!(decode(&encode(&request)), Ok(request));
    }

    /// Kinds and slots are kept small so that the interesting arms are reached; the rest is any bytes.
    #[test]
    fn any_bytes_decode_or_are_malformed(bytes: [[u8; 32]; 4], kind in 0u16..12, slot in 0u16..20, plain: bool) {
        let mut record = RequestRecord::read_from_bytes(bytes.as_flattened()).expect("128 bytes");
        if plain {
            (record.kind, record.slot) = (kind, slot);
        }
        if let Ok(request) = decode(&record) {
            prop_assert_eq!(decode(&encode(&request)).map(|again| again.slot), Ok(request.slot));
        }
    }

    #[test]
    fn any_first_packet_is_a_hello_or_refused(packet in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Hello::decode(&packet).is_err(), "random bytes do not begin with the magic word");
    }

    #[test]
    fn a_gate_admits_what_it_was_packed_for(epoch: u16, allowed in 0u64..1 << 57, footprint in 0u64..1 << 57) {
        let word = gate::pack(true, epoch, allowed);
        prop_assert!(!gate::admits(gate::pack(false, epoch, allowed), footprint));
        prop_assert_eq!(gate::admits(word, footprint), footprint.div_ceil(1024) <= allowed / 1024);
        prop_assert!(gate::admits(gate::pack(true, epoch, u64::MAX), footprint));
    }
}
