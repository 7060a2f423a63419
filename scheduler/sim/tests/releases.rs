//! Reads, draws and replays journals of earlier releases. The files beside them describe how they were made.

use eager_journal::{Timeline, pieces};
use eager_sim::replay::replay_pieces;
use std::path::Path;

#[test]
fn the_journal_of_release_0_1_0_is_read_drawn_and_replayed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daemon/tests/releases/0.1.0/journal.jsonl");
    let journal = pieces::last_run(&path).expect("it is read");
    assert_eq!((journal.header.journal, journal.lines.len()), (1, 17));
    let timeline = Timeline::of(&journal.lines);
    let tracks: Vec<&str> = timeline.tracks.iter().map(|track| track.name.as_str()).collect();
    assert!(tracks.iter().any(|name| name.contains("GPU 1")), "{tracks:?}");
    let replayed = replay_pieces(&path).expect("today's core decides the same");
    assert_eq!((replayed.pieces, replayed.steps, replayed.gaps), (1, 17, 0));
}
