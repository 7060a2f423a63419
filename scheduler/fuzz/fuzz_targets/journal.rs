//! Reads untrusted text as a journal: rejected, or replayed and shown. What was read must survive writing and reading
//! again.
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
    // The replay may decide differently; it may not panic.
    let _ = replay(journal.header, journal.lines);
});
