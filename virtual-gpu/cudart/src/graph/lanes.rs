//! Assigns the steps of a graph to lanes, which run in parallel.
//!
//! A lane is a stream. A step goes into a lane whose latest step it follows anyway, if there is one, so that it causes
//! no unnecessary waits. The order is tracked by vector clocks (Mattern, "Virtual Time and Global States of Distributed
//! Systems", 1989): for each step, the latest step of each lane that is known to have ended when it begins. With more
//! branches than lanes, some branches wait for each other nevertheless.

/// Most steps that run at once: each lane is a thread.
const LANES_MAX: usize = 32;

/// Returns the lane of each step, counted from 0. `after`: for each step, the earlier steps that it follows.
pub fn lanes(after: &[Vec<usize>]) -> Vec<u32> {
    let mut planned = Planned { latest: vec![None], ..Planned::default() };
    after.iter().for_each(|before| planned.add(before));
    planned.lanes.into_iter().map(|lane| lane as u32).collect()
}

#[derive(Debug, Default)]
struct Planned {
    /// Lane of each step.
    lanes: Vec<usize>,
    clocks: Vec<Clock>,
    /// Latest step of each lane.
    latest: Clock,
}

/// By lane, the latest step known to have ended.
type Clock = Vec<Option<usize>>;

impl Planned {
    fn add(&mut self, before: &[usize]) {
        let step = self.lanes.len();
        let mut over = vec![None; self.latest.len()];
        before.iter().for_each(|before| merge(&mut over, &self.clocks[*before]));
        let lane = self.choose(before, &over);
        if lane == self.latest.len() {
            self.latest.push(None);
            over.push(None);
        }
        // The previous step of the lane has ended too, required or not.
        if let Some(ahead) = self.latest[lane] {
            merge(&mut over, &self.clocks[ahead]);
        }
        over[lane] = Some(step);
        self.latest[lane] = Some(step);
        self.clocks.push(over);
        self.lanes.push(lane);
    }

    /// Chooses a lane: that of a predecessor, else one whose latest step has ended anyway, else a new lane, else the
    /// lane unused for longest.
    fn choose(&self, before: &[usize], over: &Clock) -> usize {
        let ahead = before.iter().find(|before| self.latest[self.lanes[**before]] == Some(**before));
        let mut all = 0..self.latest.len();
        ahead
            .map(|ahead| self.lanes[*ahead])
            .or_else(|| all.find(|lane| self.latest[*lane] == over[*lane]))
            .or_else(|| (self.latest.len() < LANES_MAX).then_some(self.latest.len()))
            .or_else(|| (0..self.latest.len()).min_by_key(|lane| self.latest[*lane]))
            .unwrap_or(0)
    }
}

fn merge(clock: &mut Clock, other: &Clock) {
    clock.iter_mut().zip(other).for_each(|(known, seen)| *known = (*known).max(*seen));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_chain_has_one_lane_and_a_fork_has_two() {
        assert_eq!(lanes(&[vec![], vec![0], vec![1]]), [0, 0, 0]);
        // A diamond and another one after it: its branches use the same two lanes.
        let diamonds = [vec![], vec![0], vec![0], vec![1, 2], vec![3], vec![3], vec![4, 5]];
        assert_eq!(lanes(&diamonds), [0, 0, 1, 0, 0, 1, 0]);
        assert_eq!(lanes(&[vec![], vec![], vec![]]), [0, 1, 2], "roots stand beside each other");
    }

    #[test]
    fn steps_of_one_lane_follow_each_other_while_there_are_lanes() {
        // Four chains of steps, each sometimes joining the next one.
        let after: Vec<Vec<usize>> = (0_usize..200)
            .map(|step| match step {
                0..4 => vec![],
                _ if step % 7 == 0 => vec![step - 4, step - 3],
                _ => vec![step - 4],
            })
            .collect();
        let lanes = lanes(&after);
        let mut reached: Vec<BTreeSet<usize>> = Vec::new();
        for before in &after {
            let mut all: BTreeSet<usize> = before.iter().copied().collect();
            before.iter().for_each(|before| all.extend(&reached[*before]));
            reached.push(all);
        }
        for (step, lane) in lanes.iter().enumerate() {
            let ahead = (0..step).rev().find(|other| lanes[*other] == *lane);
            assert!(ahead.is_none_or(|ahead| reached[step].contains(&ahead)), "step {step} in lane {lane}");
        }
        assert_eq!(lanes.iter().max(), Some(&3));
    }

    #[test]
    fn there_are_never_more_lanes_than_allowed() {
        let wide = lanes(&vec![vec![]; 100]);
        assert_eq!(wide.iter().collect::<BTreeSet<_>>().len(), LANES_MAX);
    }
}
