//! The begin of a site: as a task of its own, inside another one, or at its first use of a device.

use super::Client;
use crate::account::Announced;
use crate::request::Outbox;
use crate::sites::{Beginning, Begun, OpenSite, Sites};
use crate::task::{Cause, Kind, Phase, Slot, Task, TaskKey, lazy_slot};
use eager_proto::reply::REASON_TOO_LARGE;
use eager_proto::request::BeginFlags;

impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    /// A site begins. `is_covered_by`: whether the announcement of another site includes this one. `is_answered`:
    /// whether the daemon has answered a request in a slot.
    ///
    /// Never makes the thread wait for memory while it holds some. A site inside another one is part of that task,
    /// unless that is refused and has nothing until it allocates. A site that begins while the thread uses lazy *memory*
    /// is part of the lazy task: their kernels may share the memory. With lazy *handles* only, nothing is held: the site
    /// may wait, but must get the device that the handles are on. In a program of a declared size it is part of the
    /// declared task.
    pub fn begin(
        &mut self,
        sites: &mut Sites,
        beginning: &Beginning,
        is_covered_by: impl Fn(u64) -> bool,
        is_answered: impl Fn(Slot, u32) -> bool,
        out: &mut impl Outbox,
    ) -> Begun {
        if self.declared.is_some() {
            return Begun::Open;
        }
        sites.open.retain(|open| self.is_open(open));
        let outer = self.innermost_task(sites);
        let lazy =
            sites.lazy.and_then(|key| self.task(key)).filter(|task| outer.is_none() && task.is_bound());
        let around = outer.filter(|task| task.phase != Phase::Unbound);
        if let Some(around) = around.or(lazy.filter(|task| task.account.live() > 0)) {
            return self.begin_inside(sites, around.key, beginning, is_covered_by);
        }
        let handles = lazy.filter(|_| self.pinned).map(|task| task.key);
        self.begin_alone(sites, beginning, handles, is_answered, out)
    }

    fn begin_alone(
        &mut self,
        sites: &mut Sites,
        beginning: &Beginning,
        beside: Option<TaskKey>,
        is_answered: impl Fn(Slot, u32) -> bool,
        out: &mut impl Outbox,
    ) -> Begun {
        let slot = match self.free_slot(is_answered) {
            Ok(slot) => slot,
            Err(begun) => return begun,
        };
        let Beginning { site, requirement, geometry, .. } = *beginning;
        // A task that no device could ever grant whole is requested without by-name memory, so that it may start
        // over-subscribed.
        let habits = self.habits;
        let by_name = beginning.by_name_with(requirement.bytes).filter(|_| habits.comes_by_name());
        let lazy = sites.lazy.and_then(|key| self.task(key));
        let lazy_may_have_memory =
            lazy.is_some_and(|task| matches!(task.phase, Phase::Asked(_) | Phase::Bound));
        let key = self.add(slot, Kind::Static);
        let Some(task) = self.task_mut(key) else { return Begun::Full };
        let frame = task.account.open(beginning.announced());
        if by_name.is_some() && habits.live_requirement {
            task.account.ask_for(requirement.live_bytes);
        }
        (task.by_name, task.site, task.geometry, task.beside) = (by_name, site, geometry, beside);
        // At its first use of a device its thread may hold nothing ([`Client::before_lazy`]).
        if by_name.is_some() && habits.late_reservation && !lazy_may_have_memory {
            task.lazy_used = sites.lazy;
            sites.push(site, key, frame);
            return Begun::Open;
        }
        let flags = BeginFlags { whole: by_name.is_some(), ..BeginFlags::NONE };
        let bytes = task.account.reserved();
        self.ask(key, bytes, geometry, flags, Cause::Begin, out);
        Begun::Asked(key)
    }

    /// A slot for a static task, whose last task's end is answered.
    fn free_slot(&mut self, is_answered: impl Fn(Slot, u32) -> bool) -> Result<Slot, Begun> {
        let mut without = Begun::Full;
        for slot in Slot::all().filter(|&slot| slot != lazy_slot()) {
            if self.tasks[slot.index()].is_some() {
                continue;
            }
            match self.ended[slot.index()] {
                Some(end) if !is_answered(slot, end) => without = Begun::Unanswered(slot, end),
                _ => {
                    self.ended[slot.index()] = None;
                    return Ok(slot);
                }
            }
        }
        Err(without)
    }

    /// Begins a site in the thread's innermost task, or in the bound lazy task that it has used.
    fn begin_inside(
        &mut self,
        sites: &mut Sites,
        key: TaskKey,
        beginning: &Beginning,
        is_covered_by: impl Fn(u64) -> bool,
    ) -> Begun {
        let Some(task) = self.task(key) else { return Begun::Full };
        let is_refused = matches!(task.phase, Phase::Refused(_));
        let is_covered = is_refused || self.announced_by(sites).any(is_covered_by);
        if let Some(outer) = self.innermost(sites).copied().filter(|_| is_covered) {
            sites.open.push(OpenSite { site: beginning.site, covered: true, ..outer });
            return Begun::Open;
        }
        let Some(task) = self.task(key) else { return Begun::Full };
        match task.phase {
            Phase::Deferred => {
                let wanted = task.account.reserved().saturating_add(beginning.requirement.bytes);
                if beginning.by_name_with(wanted).is_none() {
                    return Begun::Waits(key);
                }
                self.open_inside(sites, key, beginning.announced());
                Begun::Open
            }
            Phase::Asked(_) => Begun::Waits(key),
            Phase::Bound | Phase::Unbound | Phase::Refused(_) => Begun::Extends(key),
        }
    }

    /// Opens a site whose task the daemon has decided on. A refused task is final: until the site ends, its
    /// allocations and launches fail, and it is not requested again. The exception is a task that is larger than every
    /// device: its announcement is an upper bound, so its allocations are requested one by one, in the lazy task.
    ///
    /// `Some`: the daemon bound the task to another device than the one that the program's handles are on, so it is
    /// ended, and the site must be opened inside this task.
    pub fn open(&mut self, sites: &mut Sites, key: TaskKey, out: &mut impl Outbox) -> Option<TaskKey> {
        let task = self.task(key)?;
        let site = task.site;
        // Another thread may have ended it.
        let frame = task.account.frame_of(site)?;
        let apart = self.handles_apart(task);
        if task.phase == Phase::Refused(REASON_TOO_LARGE) {
            self.end(key, out);
            let lazy = self.lazy();
            self.open_inside(sites, lazy, Announced { site, bytes: 0, reuses: false });
        } else if apart.is_some() {
            self.end(key, out);
        } else {
            sites.push(site, key, frame);
        }
        apart
    }

    /// The task that has the program's handles, if it is on another device than this bound task.
    pub(super) fn handles_apart(&self, task: &Task<D, W>) -> Option<TaskKey> {
        let bound = |key| self.task(key).filter(|task| task.is_bound());
        let beside = task.beside.filter(|_| task.is_bound()).and_then(bound);
        beside.filter(|beside| beside.terms.device != task.terms.device).map(|beside| beside.key)
    }

    /// Opens a site inside a task. The bytes announced are those that the task was extended by: none if that was
    /// refused, and each of the site's allocations is requested by itself.
    pub fn open_inside(&mut self, sites: &mut Sites, key: TaskKey, announced: Announced) {
        let Some(task) = self.task_mut(key) else { return };
        let frame = task.account.open(announced);
        sites.push(announced.site, key, frame);
    }
}
