//! Finds the points from which on the contents of each buffer are not used again.
//!
//! A buffer is *needed* at a point if a use of its contents can follow before the buffer is freed. It also counts as
//! needed throughout called functions that use it, because no code can be inserted there. The buffer is dead where that
//! stops, on every path, as early as can be proven. A launch returns before its kernel runs, so "dead" means dead once
//! the device has finished the work issued so far. And on paths to the end of the process nothing is declared dead.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::contents::{AliveReason, Capture};
use crate::facts::{BufferKind, Exit, Facts, SiteKind};
use crate::flow::{Flow, Spot};
use crate::names::{BlockId, BufferId, FrameId, Place, Point};
use crate::spots::{Spots, Stop};

/// Result of the analysis for one buffer that the function's own tasks allocate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferPlan {
    pub buffer: BufferId,
    /// Source positions of its allocations.
    pub allocated: Vec<Place>,
    /// The first uses after an allocation.
    pub first_uses: Vec<Place>,
    pub outcome: Outcome,
}

/// Whether a buffer is proven dead before it is freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Dead(Dead),
    /// The called function that allocates it declares it dead, after these uses.
    DeadInside {
        last_uses: Vec<Place>,
    },
    Alive {
        reason: AliveReason,
        place: Option<Place>,
    },
}

/// Where a buffer is dead. Points and spots are points and spots of the function itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dead {
    pub captures: Vec<Capture>,
    pub spots: Vec<Spot>,
    /// Last uses before these spots.
    pub last_uses: Vec<Place>,
}

/// Event in the life of one buffer, at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A use of the contents; index into [`Contents::uses`](crate::contents::Contents::uses).
    Use(usize),
    Allocate,
    /// A free. `true`: it frees the buffer's only pointer, so the buffer's life is over.
    Free(bool),
    Overwrite,
    /// An exception may leave the function here, and other code may use a buffer whose pointer outlives the function.
    Leave,
}

/// The life of one buffer, point by point.
#[derive(Debug)]
pub struct Life<'a> {
    facts: &'a Facts,
    flow: &'a Flow<'a>,
    buffer: BufferId,
    /// Sorted by point.
    events: Vec<(Point, Event)>,
    /// By frame: called functions that use the buffer, or call functions that use it, and everything that these call.
    concerned: Vec<bool>,
    /// Other code may find the buffer after the function.
    outlives: bool,
    /// Its slot may hold another pointer while the buffer is allocated, so freeing what the slot holds proves nothing.
    is_lost: bool,
    needed_at_end: Vec<bool>,
    past_at_start: Vec<Past>,
}

/// What may have happened to a buffer on some path to a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Past {
    /// The buffer is allocated.
    held: bool,
    /// The buffer has been freed since its last allocation, if there was one.
    freed: bool,
    /// The buffer has been used since its last allocation.
    touched: bool,
}

impl Past {
    fn after(self, event: Event, is_lost: bool) -> Self {
        match event {
            Event::Allocate => Self { held: true, freed: false, touched: self.touched && is_lost },
            Event::Free(is_exact) => Self { held: self.held && (is_lost || !is_exact), freed: true, ..self },
            Event::Use(_) => Self { touched: true, ..self },
            Event::Overwrite | Event::Leave => self,
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            held: self.held || other.held,
            freed: self.freed || other.freed,
            touched: self.touched || other.touched,
        }
    }
}

impl<'a> Life<'a> {
    /// Analyses one buffer. `events`: the buffer's events, in any order.
    fn new(facts: &'a Facts, flow: &'a Flow<'a>, buffer: BufferId, mut events: Vec<(Point, Event)>) -> Self {
        let outlives = facts.buffers[buffer.index()].shared.is_some() && !facts.is_main();
        if outlives {
            events.extend(facts.throws.iter().map(|&at| (at, Event::Leave)));
        }
        events.sort_unstable();
        let blocks = facts.blocks.len();
        let mut life = Self {
            facts,
            flow,
            buffer,
            events,
            concerned: Vec::new(),
            outlives,
            is_lost: facts.buffers[buffer.index()].unsteady,
            needed_at_end: vec![false; blocks],
            past_at_start: vec![Past::default(); blocks],
        };
        life.solve_past();
        let changes_place = |event| matches!(event, Event::Allocate | Event::Overwrite);
        if !life.is_lost && life.happens_while_held(changes_place) {
            life.is_lost = true;
            life.solve_past();
        }
        life.solve_needed();
        let uses = life.points(|event| matches!(event, Event::Use(_)));
        let using = flow.clustered(uses.into_iter().map(|at| facts.frame(at)));
        let entered = flow.inside(|block| life.needed(Point { block, position: 0 }));
        life.concerned = using.into_iter().zip(entered).map(|(uses, needs)| uses || needs).collect();
        life
    }

    /// The buffer's events in a block, in order.
    fn in_block(&self, block: BlockId) -> &[(Point, Event)] {
        let first = self.events.partition_point(|(at, _)| at.block < block);
        let here = &self.events[first..];
        &here[..here.partition_point(|(at, _)| at.block == block)]
    }

    /// Only events change the state, so the worklist starts at the blocks that have some.
    fn solve_past(&mut self) {
        self.past_at_start.fill(Past::default());
        let mut pending: BTreeSet<BlockId> = self.events.iter().map(|(at, _)| at.block).collect();
        while let Some(block) = pending.pop_first() {
            let past = self.past(Point { block, position: u32::MAX });
            for successor in &self.facts.blocks[block.index()].successors {
                let known = &mut self.past_at_start[successor.index()];
                if known.or(past) != *known {
                    *known = known.or(past);
                    pending.insert(*successor);
                }
            }
        }
    }

    /// State just before the instruction at a point.
    fn past(&self, point: Point) -> Past {
        let before = self.in_block(point.block).iter().take_while(|(at, _)| *at < point);
        before.fold(self.past_at_start[point.block.index()], |past, &(_, event)| {
            past.after(event, self.is_lost)
        })
    }

    fn happens_while_held(&self, is_such: impl Fn(Event) -> bool) -> bool {
        self.points(is_such).into_iter().any(|at| self.past(at).held)
    }

    /// Propagates "needed" backwards from the uses.
    fn solve_needed(&mut self) {
        let mut pending: BTreeSet<BlockId> = self.events.iter().map(|(at, _)| at.block).collect();
        if self.outlives {
            for (index, block) in self.facts.blocks.iter().enumerate() {
                if block.exit == Some(Exit::Return) {
                    self.needed_at_end[index] = true;
                    pending.insert(BlockId::from_index(index));
                }
            }
        }
        while let Some(block) = pending.pop_last() {
            if self.needed(Point { block, position: 0 }) {
                for way in self.flow.ways_in(block) {
                    if !std::mem::replace(&mut self.needed_at_end[way.index()], true) {
                        pending.insert(way);
                    }
                }
            }
        }
    }

    /// Whether a use may follow, from the instruction at `point` on, before the buffer is freed.
    fn needed(&self, point: Point) -> bool {
        let mut later = self.in_block(point.block).iter().filter(|(at, _)| *at >= point);
        let first = later.find_map(|(_, event)| match event {
            Event::Use(_) | Event::Leave => Some(true),
            Event::Free(true) if !self.is_lost => Some(false),
            _ => None,
        });
        first.unwrap_or(self.needed_at_end[point.block.index()])
    }

    /// Whether the buffer is needed at a point, or the point lies in a called function that uses it.
    fn holds(&self, point: Point) -> bool {
        let frame = self.facts.frame(point);
        (frame != FrameId::ROOT && self.concerned[frame.index()]) || self.needed(point)
    }

    /// Whether the buffer's memory may be in use around the instruction at a point, provided every stop that
    /// [`Self::stops`] returns is declared.
    fn occupies(&self, at: Point) -> bool {
        self.past(at.after()).touched
            && (self.holds(at) || self.holds(at.after()) || !self.flow.may_return(at.block))
    }

    fn points(&self, is_such: impl Fn(Event) -> bool) -> Vec<Point> {
        self.events.iter().filter(|&&(_, event)| is_such(event)).map(|&(at, _)| at).collect()
    }

    /// Stops at which the buffer is no longer needed while it is still allocated.
    fn stops(&self) -> Vec<Stop> {
        let spots = Spots { facts: self.facts, flow: self.flow };
        let uses = self.points(|event| matches!(event, Event::Use(_)));
        let mut stops = spots.stops(&uses, |point| self.holds(point));
        // A buffer that is never used is dead at once.
        for at in self.points(|event| event == Event::Allocate) {
            let is_last = at == self.flow.terminator(at.block);
            if self.facts.frame(at) == FrameId::ROOT
                && !is_last
                && self.flow.may_return(at.block)
                && !self.holds(at.after())
            {
                stops.push(spots.behind(at));
            }
        }
        stops.sort_unstable();
        stops.dedup();
        stops.retain(|stop| self.past(stop.seen_from).held);
        stops
    }

    /// Source positions of the nearest uses before (or behind) a point.
    fn nearest_uses(&self, from: Point, is_before: bool) -> BTreeSet<Place> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut pending = vec![(from.block, Some(from.position))];
        while let Some((block, limit)) = pending.pop() {
            let is_within = |position: u32| match limit {
                Some(limit) => (position < limit) == is_before,
                None => true,
            };
            let mut here = self.in_block(block).iter().filter(|(at, event)| {
                is_within(at.position) && matches!(event, Event::Use(_) | Event::Free(true))
            });
            let nearest = if is_before { here.next_back() } else { here.next() };
            match nearest {
                Some((_, Event::Use(index))) => found.extend(self.facts.contents.uses[*index].place.clone()),
                Some(_) => {}
                None => {
                    let next: Vec<BlockId> = if is_before {
                        self.flow.ways_in(block).collect()
                    } else {
                        self.facts.blocks[block.index()].successors.clone()
                    };
                    pending.extend(next.into_iter().filter(|&b| seen.insert(b)).map(|b| (b, None)));
                }
            }
        }
        found
    }

    fn outcome(&self) -> Outcome {
        let alive = |reason, place| Outcome::Alive { reason, place };
        if let Some((reason, place)) = self.facts.contents.kept.get(&self.buffer) {
            return alive(reason.clone(), place.clone());
        }
        if self.happens_while_held(|event| event == Event::Allocate) {
            return alive(AliveReason::Repeated, None);
        }
        let Some(captures) = self.facts.contents.captures.get(&self.buffer) else {
            return alive(AliveReason::OutOfSight, None);
        };
        let stops = self.stops();
        if stops.iter().any(|stop| self.past(stop.seen_from).freed) {
            return alive(AliveReason::FreedOnSomeWay, None);
        }
        let spots: Option<BTreeSet<Spot>> = stops.iter().map(|stop| stop.spot).collect();
        let last: BTreeSet<Place> =
            stops.iter().flat_map(|stop| self.nearest_uses(stop.seen_from, true)).collect();
        match spots {
            Some(spots) if !spots.is_empty() => Outcome::Dead(Dead {
                captures: captures.clone(),
                spots: spots.into_iter().collect(),
                last_uses: last.into_iter().collect(),
            }),
            _ => alive(AliveReason::UsedToTheEnd, last.into_iter().next_back()),
        }
    }

    fn plan(&self) -> BufferPlan {
        let made = self.points(|event| event == Event::Allocate);
        let first = made.iter().flat_map(|at| self.nearest_uses(at.after(), false));
        let place = |at: &Point| {
            let first = self.facts.sites.partition_point(|site| site.at < *at);
            let here = self.facts.sites[first..].iter().take_while(|site| site.at == *at);
            here.filter(|site| matches!(site.kind, SiteKind::Allocation { .. })).find_map(|s| s.place.clone())
        };
        let allocated: BTreeSet<Place> = made.iter().filter_map(place).collect();
        BufferPlan {
            buffer: self.buffer,
            allocated: allocated.into_iter().collect(),
            first_uses: first.collect::<BTreeSet<_>>().into_iter().collect(),
            outcome: self.outcome(),
        }
    }
}

/// Events of each buffer, by buffer.
fn events(facts: &Facts) -> Vec<Vec<(Point, Event)>> {
    let mut events = vec![Vec::new(); facts.buffers.len()];
    let mut add = |buffers: &[BufferId], at: Point, event: Event| {
        buffers.iter().for_each(|buffer| events[buffer.index()].push((at, event)));
    };
    for (index, used) in facts.contents.uses.iter().enumerate() {
        add(&used.buffers, used.at, Event::Use(index));
    }
    for site in &facts.sites {
        match &site.kind {
            SiteKind::Allocation { buffer, .. } => add(&[*buffer], site.at, Event::Allocate),
            SiteKind::Free { buffers, exact } => add(buffers, site.at, Event::Free(*exact)),
            SiteKind::Overwrite { buffers } => add(buffers, site.at, Event::Overwrite),
            _ => {}
        }
    }
    events
}

/// Lives of all device memory of a function, by buffer, each with the result of its analysis.
#[derive(Debug, Default)]
pub struct Deaths<'a> {
    lives: Vec<Option<(Life<'a>, BufferPlan)>>,
}

impl<'a> Deaths<'a> {
    #[must_use]
    pub fn new(facts: &'a Facts, flow: &'a Flow<'a>) -> Self {
        let life = |(buffer, events): (BufferId, Vec<(Point, Event)>)| {
            let is_made = events.iter().any(|&(_, event)| event == Event::Allocate);
            if facts.buffers[buffer.index()].kind != BufferKind::Memory || !is_made {
                return None;
            }
            let life = Life::new(facts, flow, buffer, events);
            let plan = life.plan();
            Some((life, plan))
        };
        Self { lives: (0_u32..).map(BufferId).zip(events(facts)).map(life).collect() }
    }

    /// Result for a buffer; `None` for handles and for buffers that are not allocated in the function.
    #[must_use]
    pub fn plan(&self, buffer: BufferId) -> Option<&BufferPlan> {
        self.lives.get(buffer.index())?.as_ref().map(|(_, plan)| plan)
    }

    /// Whether a buffer's memory may be in use around the instruction at a point: from the first use to the death if
    /// the death is proven, else always.
    #[must_use]
    pub fn occupies(&self, buffer: BufferId, at: Point) -> bool {
        match self.lives.get(buffer.index()).and_then(Option::as_ref) {
            Some((life, BufferPlan { outcome: Outcome::Dead(_), .. })) => life.occupies(at),
            _ => true,
        }
    }
}
