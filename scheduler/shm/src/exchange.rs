//! Memory orderings on which everything in the pages rests: a ring, a cell behind a sequence, and the word of a cell
//! that is read without the sequence.
//!
//! Trap: these lines are easy to get wrong, and no test on one machine shows that they are. They are apart from the
//! pages so that loom can run every interleaving of them (`make test-long`); nothing here may use an atomic of std's.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Client: adds a record through `fill`, which gets its running number. False if the ring of `slots` is full.
pub(crate) fn push(head: &AtomicU32, tail: &AtomicU32, slots: u32, fill: impl FnOnce(u32)) -> bool {
    let at = head.load(Ordering::Relaxed);
    // Acquire: pairs with the release store of `tail` in `pop`: the place was read before it is filled again.
    if at.wrapping_sub(tail.load(Ordering::Acquire)) >= slots {
        return false;
    }
    fill(at);
    // Release: pairs with the acquire load of `head` in `pop`.
    head.store(at.wrapping_add(1), Ordering::Release);
    true
}

/// Daemon: takes the next record through `copy`, which gets its running number. `taken` is the daemon's own count; the
/// client sees a copy in `tail`. `Err`: how far `head` is ahead, if that is further than any honest client can be.
pub(crate) fn pop<T>(
    head: &AtomicU32,
    taken: &mut u32,
    tail: &AtomicU32,
    slots: u32,
    copy: impl FnOnce(u32) -> T,
) -> Result<Option<T>, u32> {
    // Acquire: pairs with the release store of `head` in `push`.
    let ahead = head.load(Ordering::Acquire).wrapping_sub(*taken);
    if ahead == 0 {
        return Ok(None);
    }
    if ahead > slots {
        return Err(ahead);
    }
    let record = copy(*taken);
    *taken = taken.wrapping_add(1);
    // Release: pairs with the acquire load of `tail` in `push`.
    tail.store(*taken, Ordering::Release);
    Ok(Some(record))
}

/// Daemon, the only writer: runs `store` so that a reader sees all of its stores or none.
pub(crate) fn write(sequence: &AtomicU32, store: impl FnOnce()) {
    let before = sequence.load(Ordering::Relaxed);
    sequence.store(before | 1, Ordering::Relaxed);
    // Release fence: pairs with the acquire fence in `read`. A reader that saw one of the stores below also sees the
    // odd sequence above, and reads again.
    fence(Ordering::Release);
    store();
    // Release: pairs with the acquire load of `sequence` in `read` and `ClientConnection::wait_cell`.
    sequence.store((before | 1).wrapping_add(1), Ordering::Release);
}

/// Tries once to read: runs `load`, which gets the sequence, and discards its result if a write was under way or came
/// between.
pub(crate) fn read<T>(sequence: &AtomicU32, load: impl FnOnce(u32) -> T) -> Result<T, u32> {
    // Acquire: pairs with the release store of `sequence` at the end of `write`.
    let before = sequence.load(Ordering::Acquire);
    let value = load(before);
    // Acquire fence: pairs with the release fence in `write`.
    fence(Ordering::Acquire);
    let after = sequence.load(Ordering::Relaxed);
    if before & 1 == 1 || before != after { Err(after) } else { Ok(value) }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A ring of two places, whose records are the numbers from 1.
    #[derive(Debug, Default)]
    struct Ring {
        head: AtomicU32,
        tail: AtomicU32,
        places: [AtomicU32; 2],
    }

    #[test]
    fn every_record_comes_once_and_in_order_whatever_the_interleaving() {
        loom::model(|| {
            let ring = Arc::new(Ring::default());
            let client = Arc::clone(&ring);
            let sender = thread::spawn(move || {
                let mut sent = 0;
                for _ in 0..4 {
                    let next = sent + 1;
                    let fill = |at: u32| client.places[at as usize % 2].store(next, Ordering::Relaxed);
                    sent += u32::from(push(&client.head, &client.tail, 2, fill));
                }
                sent
            });
            let (mut taken, mut seen) = (0, 0);
            let mut take = |seen: &mut u32| {
                let copy = |at: u32| ring.places[at as usize % 2].load(Ordering::Relaxed);
                if let Some(record) = pop(&ring.head, &mut taken, &ring.tail, 2, copy).expect("honest") {
                    *seen += 1;
                    assert_eq!(record, *seen);
                }
            };
            take(&mut seen);
            take(&mut seen);
            let sent = sender.join().expect("the sender");
            while seen < sent {
                take(&mut seen);
            }
        });
    }

    #[test]
    fn a_cell_is_read_whole_or_not_at_all_whatever_the_interleaving() {
        loom::model(|| {
            let cell = Arc::new((AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)));
            let writer = Arc::clone(&cell);
            let writes = thread::spawn(move || {
                for value in 1..3 {
                    write(&writer.0, || {
                        writer.1.store(value, Ordering::Relaxed);
                        writer.2.store(value, Ordering::Relaxed);
                    });
                }
            });
            let seen = read(&cell.0, |_| (cell.1.load(Ordering::Relaxed), cell.2.load(Ordering::Relaxed)));
            if let Ok((first, second)) = seen {
                assert_eq!(first, second);
            }
            writes.join().expect("the writer");
            let last = read(&cell.0, |sequence| (sequence, cell.1.load(Ordering::Relaxed)));
            assert_eq!(last, Ok((4, 2)));
        });
    }

    /// The gate word is read on its own: it may be older or newer than the rest of the cell, but always has a value
    /// that was written, and is never older than a sequence that was seen.
    #[test]
    fn a_gate_that_is_read_alone_is_no_older_than_the_sequence_seen_before() {
        loom::model(|| {
            let cell = Arc::new((AtomicU32::new(0), AtomicU32::new(10)));
            let writer = Arc::clone(&cell);
            let writes = thread::spawn(move || {
                write(&writer.0, || writer.1.store(11, Ordering::Relaxed));
            });
            let sequence = cell.0.load(Ordering::Acquire);
            let gate = cell.1.load(Ordering::Acquire);
            assert!(gate == 10 || gate == 11);
            assert!(sequence != 2 || gate == 11);
            writes.join().expect("the writer");
        });
    }
}
