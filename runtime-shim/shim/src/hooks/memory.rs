//! Allocation and free: who an allocation belongs to, what it becomes, and what the daemon is told.

use crate::account::FrameId;
use crate::ledger::Origin;
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, CudaResult, DeviceIndex, Order, Runtime, Span};
use crate::scheduler::Scheduler;
use crate::shim::{Answer, Shim, Stop};
use crate::state::Thread;
use crate::task::{Kind, Phase, Release, Task, TaskKey};
use crate::voice::size_text;
use eager_proto::request::RequestBody;

/// `cudaMemAttachGlobal`: what `cudaMallocManaged` takes by default.
const ATTACH_GLOBAL: u32 = 1;

/// Room for an allocation, counted and answered for.
#[derive(Debug, Clone, Copy)]
struct Room {
    key: TaskKey,
    frame: Option<FrameId>,
    /// How many bytes were an extension.
    beyond: u64,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// The device is not known yet.
    Unbound,
    Bound {
        device: DeviceIndex,
        managed: bool,
    },
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `cudaMalloc`: of an unbound lazy task or of a task that the daemon wants managed, managed memory that prefers
    /// the device; else plain device memory.
    pub fn malloc(&self, thread: &mut Thread, bytes: u64) -> Outcome<u64> {
        if let Some(bypass) = self.bypass() {
            return bypass;
        }
        if bytes == 0 {
            return Outcome::PassThrough(Why::AsItIs);
        }
        self.attend(thread);
        let room = match self.make_room(thread, bytes) {
            Ok(room) => room,
            Err(stop) => return self.stopped(stop),
        };
        let (made, origin) = match room.place {
            Place::Unbound => (self.runtime.malloc_managed(bytes, ATTACH_GLOBAL), Origin::Rewritten),
            Place::Bound { device, managed } => self.malloc_on(thread, bytes, device, managed),
        };
        self.settle_room(room, made, bytes, origin).into()
    }

    /// `cudaMallocManaged` of the program: counted, otherwise the program's business.
    pub fn malloc_managed(&self, thread: &mut Thread, bytes: u64, flags: u32) -> Outcome<u64> {
        if let Some(bypass) = self.bypass() {
            return bypass;
        }
        if bytes == 0 {
            return Outcome::PassThrough(Why::AsItIs);
        }
        self.attend(thread);
        let room = match self.make_room(thread, bytes) {
            Ok(room) => room,
            Err(stop) => return self.stopped(stop),
        };
        let entered = match room.place {
            Place::Bound { device, .. } => self.enter(thread, device),
            Place::Unbound => Ok(()),
        };
        let made = entered.and_then(|()| self.runtime.malloc_managed(bytes, flags));
        self.settle_room(room, made, bytes, Origin::Program).into()
    }

    /// `cudaFree`.
    pub fn free(&self, thread: &mut Thread, address: u64) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        self.attend(thread);
        if address == 0 {
            // Programs use it to make a context; the daemon has not said on which device.
            return Outcome::Handled(());
        }
        let Some(owner) = self.state.lock().ledger.get(address).map(|allocation| allocation.owner) else {
            return Outcome::PassThrough(Why::NotOurs);
        };
        if let Err(error) = self.wait_for_users(thread, address) {
            return Outcome::Fail(error);
        }
        // Out of the ledger before it is freed: another thread may get the same address at once.
        let Some(allocation) = self.lock_settled(owner).ledger.remove(address) else {
            return Outcome::PassThrough(Why::NotOurs);
        };
        if let Err(error) = self.runtime.free(address) {
            self.state.lock().ledger.restore(allocation);
            return Outcome::Fail(error);
        }
        let mut state = self.state.lock();
        let (owner, frame, pinned) = (allocation.owner, allocation.frame, state.pinned);
        let freed = |task: &mut Task| task.free(frame, allocation.span.bytes, pinned);
        let release = state.task_mut(owner).map_or(Release::Nothing, freed);
        let streams = self.release(&mut state, owner, release);
        drop(state);
        self.destroy(streams);
        Outcome::Handled(())
    }

    /// Managed memory may have been allocated while another device was current than the one its task was bound to, and
    /// CUDA does not say that `cudaFree` waits for any other device than the current one. So the task's is waited for.
    fn wait_for_users(&self, thread: &mut Thread, address: u64) -> CudaResult<()> {
        let user = {
            let state = self.state.lock();
            let managed = state.ledger.get(address).filter(|allocation| allocation.origin != Origin::Plain);
            let owner = managed.and_then(|allocation| state.task(allocation.owner));
            owner.filter(|task| task.phase == Phase::Bound).map(|task| task.key)
        };
        user.map_or(Ok(()), |key| self.quiesce(thread, key, Order::Blocking))
    }

    /// Counts an allocation and asks for what goes beyond what the daemon holds.
    fn make_room(&self, thread: &mut Thread, bytes: u64) -> Result<Room, Stop> {
        let (key, _) = self.state.lock().owner_of_new(thread);
        let mut state = self.lock_settled(key);
        // The task may have ended while it was waited for: then this is the next one's.
        let (key, frame) = state.owner_of_new(thread);
        let Some(task) = state.task_mut(key) else { return Err(Stop::Cuda(CudaError::INITIALIZATION)) };
        if task.kind == Kind::Lazy {
            thread.lazy = Some(key);
        }
        if task.phase == Phase::Refused {
            drop(state);
            return Err(self.out_of_memory());
        }
        let beyond = task.account.take(frame, bytes);
        let (phase, terms) = (task.phase, task.terms);
        drop(state);
        if phase != Phase::Bound {
            return Ok(Room { key, frame, beyond, place: Place::Unbound });
        }
        let place = Place::Bound { device: terms.device, managed: terms.managed() };
        match self.extend(thread, key, beyond) {
            Ok(()) => Ok(Room { key, frame, beyond, place }),
            Err(stop) => {
                self.give_room_back(Room { key, frame, beyond: 0, place }, bytes, beyond);
                Err(stop)
            }
        }
    }

    /// Asks for `bytes` more for a bound task. The daemon answers at once: an extension never waits for memory, since it
    /// would do so holding some. A refusal is the program's out-of-memory error.
    pub(crate) fn extend(&self, thread: &mut Thread, key: TaskKey, bytes: u64) -> Result<(), Stop> {
        let Some(refusal) = self.ask_extension(thread, key, bytes)? else { return Ok(()) };
        let size = size_text(bytes);
        self.voice.say(&format!(
            "an allocation of {size} is refused: {refusal}. It returns an out-of-memory error"
        ));
        Err(self.out_of_memory())
    }

    /// The same; returns why it was refused, if it was.
    pub(crate) fn ask_extension(
        &self,
        thread: &mut Thread,
        key: TaskKey,
        bytes: u64,
    ) -> Result<Option<String>, Stop> {
        if bytes == 0 {
            return Ok(None);
        }
        // One at a time: the cell has one flag for the last extension of a slot.
        let _extending = self.extending.lock();
        match self.ask(key.slot, &RequestBody::TaskExtend { bytes })? {
            Answer::Bound(terms) if !terms.extend_refused() => {
                self.adopt_terms(thread, key, terms);
                Ok(None)
            }
            Answer::Bound(terms) => Ok(Some(self.reason(key.slot, terms.reason))),
            Answer::Refused(reason) => Ok(Some(reason)),
        }
    }

    fn malloc_on(
        &self,
        thread: &mut Thread,
        bytes: u64,
        device: DeviceIndex,
        managed: bool,
    ) -> (CudaResult<u64>, Origin) {
        if let Err(error) = self.enter(thread, device) {
            return (Err(error), Origin::Plain);
        }
        if !managed {
            match self.runtime.malloc(bytes) {
                Ok(Some(address)) => return (Ok(address), Origin::Plain),
                Err(error) => return (Err(error), Origin::Plain),
                // Granted, and yet no room: somebody takes memory that the daemon does not count, such as the contexts
                // of programs that are not bound yet. A grant is kept all the same.
                Ok(None) => self.voice.once("full", || {
                    let size = size_text(bytes);
                    format!(
                        "device {} has no room for {size} that were granted: managed memory instead",
                        device.0
                    )
                }),
            }
        }
        let made = self.runtime.malloc_managed(bytes, ATTACH_GLOBAL);
        if let Ok(start) = made {
            // A hint: without it the memory still works, it only stays less firmly on the device.
            let _ = self.runtime.prefer_device(Span { start, bytes }, device);
        }
        (made, Origin::Rewritten)
    }

    /// Enters a made allocation in the ledger, or gives its room back.
    fn settle_room(&self, room: Room, made: CudaResult<u64>, bytes: u64, origin: Origin) -> CudaResult<u64> {
        if let Ok(start) = made {
            self.state.lock().ledger.insert(Span { start, bytes }, room.key, room.frame, origin);
        } else {
            self.give_room_back(room, bytes, room.beyond);
        }
        made
    }

    /// Uncounts an allocation that was not made, of which `beyond` bytes had not been announced. What was asked for it
    /// in addition (`room.beyond`) goes back, or the whole task if nothing else is left of it.
    fn give_room_back(&self, room: Room, bytes: u64, beyond: u64) {
        let mut state = self.state.lock();
        let pinned = state.pinned;
        let release = state.task_mut(room.key).map_or(Release::Nothing, |task| {
            let lost = task.account.untake(room.frame, bytes, beyond);
            if task.phase == Phase::Bound {
                task.release(room.beyond.saturating_add(lost), pinned)
            } else {
                Release::Nothing
            }
        });
        let streams = self.release(&mut state, room.key, release);
        drop(state);
        self.destroy(streams);
    }
}
