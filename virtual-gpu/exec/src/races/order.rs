//! Order between accesses of a block's threads. Pure.
//!
//! Times count all events of a launch that may order threads. A barrier of the block orders everything before it with
//! everything after it, and so does an operation of all live threads of a warp within that warp. For the rest there are
//! vectors of times (of the lanes of a warp, and of the warps of a block, because in PTX a barrier with a count is one
//! of whole warps). Accesses of a thread that has since released (a fence, an atomic) count as ordered with those of a
//! thread that has since acquired (an atomic, a volatile read), whatever memory they used, and a release or acquire
//! counts for all threads of the warp. Trap: every approximation here must err towards "ordered", which misses a race;
//! the other direction would report a false one.

use super::record::{Record, Relation};

const LANES: usize = 32;

/// State of one warp.
#[derive(Debug, Default)]
struct Warp {
    /// Accesses of the warp before this time are ordered with all later ones of the warp.
    whole: u32,
    released: u32,
    acquired: u32,
    /// For each lane: accesses of lane i before `lanes[lane][i]` are ordered with the later ones of `lane`.
    lanes: Option<Box<[[u32; LANES]; LANES]>>,
    /// For each warp of the block: its accesses before this time are ordered with the later ones of this warp.
    warps: Vec<u32>,
}

/// State of one block.
#[derive(Debug, Default)]
pub(crate) struct BlockOrder {
    /// Time at which the block began.
    pub start: u32,
    /// All accesses of the block before this time are ordered with later ones.
    barrier: u32,
    /// Number of barriers that each thread has passed, and the maximum.
    passed: Vec<u32>,
    passed_most: u32,
    /// For each thread: true if its last operation, not counting reads, was a fence.
    fenced: Vec<bool>,
    warps: Vec<Warp>,
    released: u32,
    pub acquired: u32,
    /// A barrier was met by some warps of the block only.
    some_met: bool,
}

impl BlockOrder {
    /// Resets the state for a new block of `threads` threads.
    pub fn begin(&mut self, start: u32, threads: usize) {
        let (mut passed, mut fenced) = (std::mem::take(&mut self.passed), std::mem::take(&mut self.fenced));
        passed.clear();
        passed.resize(threads, 0);
        fenced.clear();
        fenced.resize(threads, false);
        let mut warps = std::mem::take(&mut self.warps);
        warps.clear();
        warps.resize_with(threads.div_ceil(LANES), Warp::default);
        *self = BlockOrder { start, passed, fenced, warps, ..BlockOrder::default() };
    }

    /// A thread continues after a barrier of the whole block; `now` is a new time.
    pub fn passes_barrier(&mut self, thread: u32, now: u32) {
        let Some(passed) = self.passed.get_mut(thread as usize) else { return };
        *passed += 1;
        // All threads stop at the barrier before any continues, so when the first one continues, all earlier accesses
        // are over.
        if *passed > self.passed_most {
            self.passed_most = *passed;
            self.barrier = now;
        }
    }

    /// All threads of the block met at a barrier.
    pub fn all_met(&mut self, now: u32) {
        self.barrier = now;
    }

    /// The warps in this mask met at a barrier.
    pub fn warps_met(&mut self, mask: u32, now: u32) {
        self.some_met = true;
        let count = self.warps.len();
        let members: Vec<usize> = (0..count).filter(|warp| mask >> warp & 1 == 1).collect();
        let mut times = vec![0; count];
        for &member in &members {
            for (time, &seen) in times.iter_mut().zip(&self.warps[member].warps) {
                *time = seen.max(*time);
            }
        }
        members.iter().for_each(|&member| times[member] = now);
        for &member in &members {
            self.warps[member].whole = now;
            self.warps[member].warps.clone_from(&times);
        }
    }

    /// Some lanes of a warp met in an operation; `alive` are those that have not exited.
    pub fn lanes_met(&mut self, warp: u32, members: u32, alive: u32, now: u32) {
        let Some(warp) = self.warps.get_mut(warp as usize) else { return };
        if members & alive == alive {
            warp.whole = now;
            return;
        }
        let lanes = warp.lanes.get_or_insert_default();
        let is_member = |lane: &usize| members >> lane & 1 == 1;
        let mut times = [0; LANES];
        for lane in (0..LANES).filter(is_member) {
            for (time, &seen) in times.iter_mut().zip(&lanes[lane]) {
                *time = seen.max(*time);
            }
        }
        (0..LANES).filter(is_member).for_each(|lane| times[lane] = now);
        (0..LANES).filter(is_member).for_each(|lane| lanes[lane] = times);
    }

    /// Makes the thread's earlier accesses ordered with those of threads that acquire later.
    pub fn releases(&mut self, thread: u32, now: u32) {
        self.released = now;
        if let Some(warp) = self.warps.get_mut(thread as usize / LANES) {
            warp.released = now;
        }
    }

    pub fn acquires(&mut self, thread: u32, now: u32) {
        self.acquired = now;
        if let Some(warp) = self.warps.get_mut(thread as usize / LANES) {
            warp.acquired = now;
        }
    }

    /// Records if the thread's next volatile store may be a flag.
    pub fn set_fenced(&mut self, thread: u32, fenced: bool) {
        if let Some(place) = self.fenced.get_mut(thread as usize) {
            *place = fenced;
        }
    }

    pub fn is_fenced(&self, thread: u32) -> bool {
        self.fenced.get(thread as usize) == Some(&true)
    }

    /// Relation of an earlier access of the same block to one that this thread makes now.
    #[inline]
    pub fn relation(&self, earlier: Record, thread: u32) -> Relation {
        let time = earlier.time();
        if time < self.barrier || time < self.start || earlier.thread() == thread {
            return Relation::Ordered;
        }
        self.relation_since_barrier(earlier, thread)
    }

    fn relation_since_barrier(&self, earlier: Record, thread: u32) -> Relation {
        let time = earlier.time();
        let [theirs, mine] = [earlier.warp() as usize, thread as usize / LANES];
        let [Some(their_warp), Some(my_warp)] = [theirs, mine].map(|warp| self.warps.get(warp)) else {
            return Relation::Ordered;
        };
        let (released, acquired) = match self.some_met {
            true => (self.released, self.acquired),
            false => (their_warp.released, my_warp.acquired),
        };
        let handed_over = released > time && acquired > time;
        if theirs == mine {
            let lanes = [thread, earlier.thread()].map(|thread| thread as usize % LANES);
            let seen = my_warp.lanes.as_ref().map_or(0, |times| times[lanes[0]][lanes[1]]);
            let ordered = handed_over || time < my_warp.whole || time < seen;
            return if ordered { Relation::Ordered } else { Relation::SameWarp };
        }
        let seen = my_warp.warps.get(theirs).copied().unwrap_or(0);
        if handed_over || time < seen { Relation::Ordered } else { Relation::OtherWarp }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Kind;
    use super::*;

    fn block() -> BlockOrder {
        let mut order = BlockOrder::default();
        order.begin(1, 128);
        order
    }

    fn at(time: u32, thread: u32) -> Record {
        Record::new(time, 0, thread, 15, Kind::Plain)
    }

    #[test]
    fn barriers_order_all_and_count_once_for_all_threads() {
        let mut order = block();
        assert_eq!(order.relation(at(1, 40), 3), Relation::OtherWarp);
        assert_eq!(order.relation(at(1, 5), 3), Relation::SameWarp);
        (0..128).for_each(|thread| order.passes_barrier(thread, 2 + thread));
        assert_eq!(order.relation(at(1, 40), 3), Relation::Ordered);
        assert_eq!(
            order.relation(at(2, 40), 3),
            Relation::OtherWarp,
            "after the barrier that 40 passed later"
        );
        assert_eq!(order.relation(at(0, 40), 3), Relation::Ordered, "of another block");
    }

    #[test]
    fn lanes_are_ordered_through_others() {
        let mut order = block();
        order.lanes_met(0, 0b0011, u32::MAX, 2);
        assert_eq!(order.relation(at(1, 0), 1), Relation::Ordered);
        assert_eq!(order.relation(at(1, 0), 2), Relation::SameWarp);
        order.lanes_met(0, 0b0110, u32::MAX, 3);
        assert_eq!(order.relation(at(1, 0), 2), Relation::Ordered, "through lane 1");
        assert_eq!(order.relation(at(2, 0), 2), Relation::SameWarp, "after it met lane 1");
        order.lanes_met(0, 0xff, 0xff, 4);
        assert_eq!(order.relation(at(3, 0), 7), Relation::Ordered, "all that are alive");
        assert_eq!(order.relation(at(3, 0), 33), Relation::OtherWarp);
    }

    #[test]
    fn warps_are_ordered_by_barriers_with_a_count() {
        let mut order = block();
        order.warps_met(0b0011, 2);
        assert_eq!(order.relation(at(1, 0), 32), Relation::Ordered);
        assert_eq!(order.relation(at(1, 0), 64), Relation::OtherWarp);
        order.warps_met(0b0110, 3);
        assert_eq!(order.relation(at(1, 0), 64), Relation::Ordered, "through warp 1");
        assert_eq!(order.relation(at(2, 0), 64), Relation::OtherWarp);
    }

    #[test]
    fn a_release_and_an_acquire_since_hand_over() {
        let mut order = block();
        order.releases(3, 2);
        assert_eq!(order.relation(at(1, 0), 32), Relation::OtherWarp);
        order.acquires(40, 3);
        assert_eq!(order.relation(at(1, 0), 32), Relation::Ordered);
        assert_eq!(order.relation(at(2, 0), 32), Relation::OtherWarp, "after the release");
        assert_eq!(order.relation(at(1, 0), 64), Relation::OtherWarp, "which acquired nothing");
    }
}
