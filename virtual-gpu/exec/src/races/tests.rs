//! Tests: accesses as kernels report them, and the races found.

use super::*;

struct Bench {
    detector: Detector,
    blocks: Vec<BlockRaces>,
    memory: Box<[u32; 64]>,
}

const NONE: core::ops::Range<u64> = 0..0;

impl Bench {
    fn new(blocks: u64) -> Bench {
        let mut detector = Detector::default();
        detector.begin([blocks as u32, 1, 1], true);
        let mut bench = Bench { detector, blocks: Vec::new(), memory: Box::new([0; 64]) };
        for block in 0..blocks {
            let mut races = BlockRaces::new(256);
            bench.detector.enter(&mut races, block, [128, 1, 1], false);
            bench.blocks.push(races);
        }
        bench
    }

    fn go_on(&mut self, block: usize) {
        self.detector.enter(&mut self.blocks[block], block as u64, [128, 1, 1], true);
    }

    fn access(&mut self, block: usize, thread: u32, byte: u64, bytes: u64, way: &str) {
        let access = Checked {
            thread,
            address: self.memory.as_ptr() as u64 + byte,
            bytes,
            place: core::ptr::null(),
            reads: way != "write" && way != "volatile write",
            writes: way != "read" && way != "volatile read",
            is_volatile: way.starts_with("volatile"),
        };
        self.detector.look(&mut self.blocks[block], &access, &NONE, &[], &Memory::default());
        if access.writes {
            let word = (byte / 4) as usize;
            self.memory[word] = self.memory[word].wrapping_add(1);
        }
    }

    fn found(&mut self) -> Vec<Distance> {
        self.detector.take().races.iter().map(|race| race.distance).collect()
    }
}

#[test]
fn threads_race_by_word_and_byte() {
    let mut bench = Bench::new(1);
    bench.go_on(0);
    bench.access(0, 0, 0, 4, "write");
    bench.access(0, 1, 4, 4, "write");
    bench.access(0, 2, 8, 1, "write");
    bench.access(0, 3, 9, 1, "write");
    assert_eq!(bench.found(), []);
    bench.access(0, 3, 8, 2, "read");
    assert_eq!(bench.found(), [], "its own byte was written last");
    bench.access(0, 64, 9, 1, "read");
    assert_eq!(bench.found(), [Distance::OtherWarp]);
    bench.access(0, 5, 0, 8, "read");
    assert_eq!(bench.found(), [Distance::SameWarp]);
}

#[test]
fn blocks_race_unless_one_hands_over_to_the_other() {
    let mut bench = Bench::new(3);
    bench.go_on(0);
    bench.access(0, 0, 0, 4, "write");
    bench.go_on(1);
    bench.access(1, 0, 0, 4, "read");
    assert_eq!(bench.found(), [Distance::OtherBlock]);
    bench.go_on(0);
    bench.access(0, 0, 16, 4, "write");
    bench.detector.fence(&mut bench.blocks[0], 0);
    bench.access(0, 0, 32, 4, "volatile write");
    bench.go_on(2);
    bench.access(2, 7, 32, 4, "volatile read");
    bench.access(2, 9, 16, 4, "read");
    assert_eq!(bench.found(), []);
    bench.go_on(1);
    bench.access(1, 9, 16, 4, "read");
    assert_eq!(bench.found(), [Distance::OtherBlock], "which never acquired");
}

#[test]
fn blocks_that_have_met_are_ordered() {
    let mut bench = Bench::new(3);
    bench.go_on(0);
    bench.access(0, 0, 0, 4, "write");
    bench.detector.order_blocks(&[0, 1]);
    bench.go_on(1);
    bench.access(1, 0, 0, 4, "write");
    assert_eq!(bench.found(), []);
    bench.go_on(2);
    bench.access(2, 0, 0, 4, "read");
    assert_eq!(bench.found(), [Distance::OtherBlock]);
}

#[test]
fn equal_values_are_noted_once_and_others_are_races() {
    let mut bench = Bench::new(1);
    let address = bench.memory.as_ptr() as u64;
    bench.go_on(0);
    for thread in [0, 64] {
        let access = Checked {
            thread,
            address,
            bytes: 4,
            place: core::ptr::null(),
            reads: false,
            writes: true,
            is_volatile: false,
        };
        bench.detector.look(&mut bench.blocks[0], &access, &NONE, &[], &Memory::default());
    }
    let races = bench.detector.take();
    assert!(races.races.is_empty() && races.equal.is_some(), "{races:?}");
    bench.access(0, 1, 4, 4, "write");
    bench.access(0, 40, 4, 4, "write");
    assert_eq!(bench.found(), [Distance::OtherWarp]);
}

#[test]
fn launches_are_ordered_and_times_may_run_out() {
    let mut bench = Bench::new(1);
    bench.go_on(0);
    bench.access(0, 0, 0, 4, "write");
    bench.detector.begin([1, 1, 1], true);
    bench.detector.enter(&mut bench.blocks[0], 0, [128, 1, 1], false);
    bench.access(0, 64, 0, 4, "read");
    assert_eq!(bench.found(), []);
    bench.detector.time = u32::MAX - 2;
    bench.access(0, 1, 8, 4, "write");
    for thread in 0..128 {
        bench.detector.passes_barrier(&mut bench.blocks[0], thread);
    }
    bench.access(0, 64, 8, 4, "read");
    assert_eq!(bench.found(), [], "no false finding behind the wrap");
    bench.detector.enter(&mut bench.blocks[0], 0, [128, 1, 1], false);
    bench.access(0, 1, 8, 4, "write");
    bench.access(0, 64, 8, 4, "read");
    assert_eq!(bench.found(), [Distance::OtherWarp], "and the next block is looked at");
}

#[test]
fn beyond_its_bound_memory_is_not_looked_at_and_that_is_said() {
    let mut bench = Bench::new(1);
    bench.detector.memory_bytes_max = Some(0);
    bench.go_on(0);
    bench.access(0, 0, 0, 4, "write");
    bench.access(0, 64, 0, 4, "read");
    let races = bench.detector.take();
    assert_eq!((races.races.len(), races.unwatched_bytes), (0, 8));
}

#[test]
fn a_block_that_begins_after_another_races_with_it_unless_that_handed_over() {
    let enter = |bench: &mut Bench, block: usize| {
        bench.detector.enter(&mut bench.blocks[block], block as u64, [128, 1, 1], false);
    };
    let mut bench = Bench::new(3);
    enter(&mut bench, 0);
    bench.access(0, 0, 0, 4, "write");
    bench.detector.fence(&mut bench.blocks[0], 0);
    bench.access(0, 0, 32, 4, "volatile write");
    bench.access(0, 0, 16, 4, "write");
    enter(&mut bench, 1);
    bench.access(1, 5, 0, 4, "read");
    assert_eq!(bench.found(), [Distance::OtherBlock], "before it acquired");
    bench.access(1, 7, 32, 4, "volatile read");
    bench.access(1, 9, 0, 4, "read");
    assert_eq!(bench.found(), []);
    bench.access(1, 9, 16, 4, "read");
    assert_eq!(bench.found(), [Distance::OtherBlock], "written after the release");
    enter(&mut bench, 2);
    bench.access(2, 5, 48, 4, "write");
    bench.access(2, 5, 48, 4, "read");
    assert_eq!(bench.found(), [], "its own");
}

#[test]
fn an_access_touches_these_bytes_of_these_words() {
    for address in 64..72 {
        for bytes in 1..13 {
            let touched: Vec<u64> = words(address, bytes)
                .flat_map(|(word, mask)| {
                    (0..4).filter(move |byte| mask >> byte & 1 == 1).map(move |byte| word * 4 + byte)
                })
                .collect();
            assert_eq!(touched, (address..address + bytes).collect::<Vec<_>>(), "{bytes} from {address}");
        }
    }
}
