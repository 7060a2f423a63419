//! From which points on the contents of each buffer are not used again.
//!
//! A buffer is *needed* at a point if a use of its contents can follow before the buffer is freed, and in called functions
//! that use it throughout, because no code can be put there. It is dead where that stops, on every way, as early as it
//! can be said. Traps: a kernel runs after the call that launches it has returned, so "dead" means dead once the device
//! has done what was asked for before; and on the way into the process's end nothing is declared.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::activity::frames_around;
use crate::contents::{AliveReason, Capture};
use crate::facts::{BlockId, BufferId, BufferKind, Exit, Facts, FrameId, Place, Point, SiteKind};
use crate::flow::{Flow, Spot};
use crate::spots::{Spots, Stop};

/// What becomes of one buffer that the function's own tasks allocate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferPlan {
    pub buffer: BufferId,
    /// Where it is allocated.
    pub allocated: Vec<Place>,
    /// The first uses after an allocation.
    pub first_uses: Vec<Place>,
    pub outcome: Outcome,
}

/// Whether a buffer is shown to be dead before it is freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Dead(Dead),
    Alive { reason: AliveReason, place: Option<Place> },
}

/// Where a buffer is dead. Points and spots are in the function itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dead {
    pub captures: Vec<Capture>,
    pub spots: Vec<Spot>,
    /// The last uses before these spots.
    pub last_uses: Vec<Place>,
}

/// Something that happens to one buffer at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Index into the uses.
    Use(usize),
    Allocate,
    /// `true`: of the one pointer that the buffer has, so that its life is over.
    Free(bool),
    Overwrite,
}

/// The life of one buffer, point by point.
#[derive(Debug)]
pub struct Life<'a> {
    facts: &'a Facts,
    flow: &'a Flow<'a>,
    buffer: BufferId,
    /// By block, in the order of their positions.
    events: Vec<Vec<(u32, Event)>>,
    /// Called functions that use it, or call functions that do, and all that these call.
    concerned: Vec<bool>,
    /// Its place may hold something else while it is there, so that a free of what the place holds says nothing.
    is_lost: bool,
    needed_at_end: Vec<bool>,
    past_at_start: Vec<Past>,
}

/// What may have happened to a buffer on the way to a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Past {
    /// It is allocated.
    held: bool,
    /// It has been freed since it was allocated, if it was.
    freed: bool,
    /// It has been used since it was allocated.
    touched: bool,
}

impl Past {
    fn after(self, event: Event, is_lost: bool) -> Self {
        match event {
            Event::Allocate => Self { held: true, freed: false, touched: self.touched && is_lost },
            Event::Free(is_exact) => Self { held: self.held && (is_lost || !is_exact), freed: true, ..self },
            Event::Use(_) => Self { touched: true, ..self },
            Event::Overwrite => self,
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
    #[must_use]
    pub fn new(facts: &'a Facts, flow: &'a Flow<'a>, buffer: BufferId) -> Self {
        let mut events = vec![Vec::new(); facts.blocks.len()];
        for (at, event) in events_of(facts, buffer) {
            events[at.block.index()].push((at.position, event));
        }
        events.iter_mut().for_each(|block: &mut Vec<_>| block.sort_unstable());
        let uses: Vec<_> =
            facts.contents.uses.iter().filter(|u| u.buffers.contains(&buffer)).map(|u| u.at).collect();
        let around = frames_around(facts, &uses);
        let in_concerned = |frame: FrameId| {
            facts.callers(frame).any(|outer| outer != FrameId::ROOT && around[outer.index()])
        };
        let concerned = (0_u32..).map(FrameId).take(facts.frames.len()).map(in_concerned).collect();
        let blocks = facts.blocks.len();
        let mut life = Self {
            facts,
            flow,
            buffer,
            events,
            concerned,
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
        life
    }

    fn solve_past(&mut self) {
        self.past_at_start.fill(Past::default());
        let mut pending: BTreeSet<usize> = (0..self.facts.blocks.len()).collect();
        while let Some(block) = pending.pop_first() {
            let end = Point { block: BlockId::from_index(block), position: u32::MAX };
            let past = self.past(end);
            for successor in &self.facts.blocks[block].successors {
                let known = &mut self.past_at_start[successor.index()];
                if known.or(past) != *known {
                    *known = known.or(past);
                    pending.insert(successor.index());
                }
            }
        }
    }

    /// What may have happened before the instruction at a point.
    fn past(&self, point: Point) -> Past {
        let here = &self.events[point.block.index()];
        let before = here.iter().take_while(|(position, _)| *position < point.position);
        before.fold(self.past_at_start[point.block.index()], |past, &(_, event)| {
            past.after(event, self.is_lost)
        })
    }

    fn happens_while_held(&self, is_such: impl Fn(Event) -> bool) -> bool {
        self.points(is_such).into_iter().any(|at| self.past(at).held)
    }

    fn solve_needed(&mut self) {
        let outlives = self.facts.buffers[self.buffer.index()].shared.is_some() && !self.facts.is_main();
        let at_exit: Vec<bool> =
            self.facts.blocks.iter().map(|block| outlives && block.exit == Some(Exit::Return)).collect();
        self.needed_at_end.clone_from(&at_exit);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for index in (0..self.facts.blocks.len()).rev() {
                let follows = |next: &BlockId| self.needed(Point { block: *next, position: 0 });
                let needed = at_exit[index] || self.facts.blocks[index].successors.iter().any(follows);
                changed |= needed != self.needed_at_end[index];
                self.needed_at_end[index] = needed;
            }
        }
    }

    /// Whether a use may follow from the instruction at a point on, before the buffer is freed.
    fn needed(&self, point: Point) -> bool {
        let here = &self.events[point.block.index()];
        let ends_life = |event: &Event| *event == Event::Free(true) && !self.is_lost;
        let mut later = here.iter().filter(|(position, _)| *position >= point.position);
        let first = later.find_map(|(_, event)| match event {
            Event::Use(_) => Some(true),
            event if ends_life(event) => Some(false),
            _ => None,
        });
        let outlives = self.facts.buffers[self.buffer.index()].shared.is_some() && !self.facts.is_main();
        let may_throw = |call: &&Point| call.block == point.block && call.position >= point.position;
        if outlives && self.facts.throws.iter().any(|call| may_throw(&call)) {
            return true;
        }
        first.unwrap_or(self.needed_at_end[point.block.index()])
    }

    /// Whether it is needed at a point, or the point lies in a called function that uses it.
    fn holds(&self, point: Point) -> bool {
        let frame = self.facts.frame(point);
        (frame != FrameId::ROOT && self.concerned[frame.index()]) || self.needed(point)
    }

    /// Whether its memory may be in use around the instruction at a point, if all that [`Self::stops`] gives is declared.
    fn occupies(&self, at: Point) -> bool {
        self.past(at.after()).touched
            && (self.holds(at) || self.holds(at.after()) || !self.flow.may_return(at.block))
    }

    fn points(&self, is_such: impl Fn(Event) -> bool) -> Vec<Point> {
        let all = self.events.iter().enumerate();
        let points = all.flat_map(|(block, events)| {
            events
                .iter()
                .map(move |&(position, event)| (Point { block: BlockId::from_index(block), position }, event))
        });
        points.filter(|&(_, event)| is_such(event)).map(|(at, _)| at).collect()
    }

    /// Where it stops to be needed while it is there.
    fn stops(&self) -> Vec<Stop> {
        let spots = Spots { facts: self.facts, flow: self.flow };
        let uses = self.points(|event| matches!(event, Event::Use(_)));
        let mut stops = spots.stops(&uses, |point| self.holds(point));
        // One that is never used is dead at once.
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

    /// The places of the nearest uses before (or behind) a point.
    fn nearest_uses(&self, from: Point, is_before: bool) -> BTreeSet<Place> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut pending = vec![(from.block, Some(from.position))];
        while let Some((block, limit)) = pending.pop() {
            let is_within = |position: u32| match limit {
                Some(limit) => (position < limit) == is_before,
                None => true,
            };
            let mut here = self.events[block.index()].iter().filter(|(position, event)| {
                is_within(*position) && matches!(event, Event::Use(_) | Event::Free(true))
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
        let spots: Option<BTreeSet<Spot>> =
            stops.iter().map(|stop| stop.spot.filter(|_| !stop.is_early)).collect();
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
        let is_own =
            |kind: &SiteKind| matches!(kind, SiteKind::Allocation { buffer, .. } if *buffer == self.buffer);
        let allocated: BTreeSet<Place> = self
            .facts
            .sites
            .iter()
            .filter(|site| is_own(&site.kind))
            .filter_map(|s| s.place.clone())
            .collect();
        BufferPlan {
            buffer: self.buffer,
            allocated: allocated.into_iter().collect(),
            first_uses: first.collect::<BTreeSet<_>>().into_iter().collect(),
            outcome: self.outcome(),
        }
    }
}

fn events_of(facts: &Facts, buffer: BufferId) -> Vec<(Point, Event)> {
    let uses = facts.contents.uses.iter().enumerate();
    let uses = uses.filter(|(_, used)| used.buffers.contains(&buffer));
    let mut events: Vec<_> = uses.map(|(index, used)| (used.at, Event::Use(index))).collect();
    for site in &facts.sites {
        let event = match &site.kind {
            SiteKind::Allocation { buffer: made, .. } if *made == buffer => Event::Allocate,
            SiteKind::Free { buffers, exact } if buffers.contains(&buffer) => Event::Free(*exact),
            SiteKind::Overwrite { buffers } if buffers.contains(&buffer) => Event::Overwrite,
            _ => continue,
        };
        events.push((site.at, event));
    }
    events
}

/// The lives of all device memory of a function, by buffer, with what is shown of each.
#[derive(Debug)]
pub struct Deaths<'a> {
    lives: Vec<Option<(Life<'a>, BufferPlan)>>,
}

impl<'a> Deaths<'a> {
    #[must_use]
    pub fn new(facts: &'a Facts, flow: &'a Flow<'a>) -> Self {
        let made: BTreeSet<BufferId> = facts
            .sites
            .iter()
            .filter_map(|site| match site.kind {
                SiteKind::Allocation { buffer, .. } => Some(buffer),
                _ => None,
            })
            .collect();
        let life = |(buffer, of): (BufferId, &crate::facts::BufferFacts)| {
            if of.kind != BufferKind::Memory || !made.contains(&buffer) {
                return None;
            }
            let life = Life::new(facts, flow, buffer);
            let plan = life.plan();
            Some((life, plan))
        };
        Self { lives: (0_u32..).map(BufferId).zip(&facts.buffers).map(life).collect() }
    }

    /// What is shown of a buffer; `None` for handles and for what is not allocated here.
    #[must_use]
    pub fn plan(&self, buffer: BufferId) -> Option<&BufferPlan> {
        self.lives.get(buffer.index())?.as_ref().map(|(_, plan)| plan)
    }

    /// Whether a buffer's memory may be in use around the instruction at a point: from its first use to its death where
    /// that is shown, else always.
    #[must_use]
    pub fn occupies(&self, buffer: BufferId, at: Point) -> bool {
        match self.lives.get(buffer.index()).and_then(Option::as_ref) {
            Some((life, BufferPlan { outcome: Outcome::Dead(_), .. })) => life.occupies(at),
            _ => true,
        }
    }
}
