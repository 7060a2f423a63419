//! A journal of anybody: refused, or replayed and shown. What was read is read again from what is written.
#![no_main]

use eager_core::journal::replay;
use eager_journal::{Drawing, Journal, perfetto};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(journal) = Journal::read(text) else { return };
    let written = journal.write().expect("plain data");
    assert_eq!(Journal::read(&written).expect("a journal").lines, journal.lines);
    let mut drawing = Drawing::from(&journal.header);
    drawing.add(&journal.lines);
    perfetto::encode(&drawing.finish());
    // It may decide differently; it may not break.
    let _ = replay(journal.header, journal.lines);
});
