//! Copies and memsets: which the CPU does into managed memory, which go to the runtime as they are.
//!
//! Rules (eager launch specification §3, UM model §1.7):
//! - host to device, into memory that the shim made managed: the CPU fills it, then a prefetch moves it in *within the
//!   grant*. A plain copy would pull every byte onto the device, grant or not. The `Async` form does this for unbound
//!   and eager tasks only; for others it stays asynchronous;
//! - anything between the host and memory of a task that has no device yet: the CPU;
//! - everything else: as it is, on the memory's device.
//!
//! Trap: a direction of `cudaMemcpyDefault` says nothing about where the source is, and the CPU must not read device
//! memory. Such copies are never done by the CPU.

use crate::ledger::{Allocation, Origin};
use crate::outcome::{Outcome, Why};
use crate::runtime::{Copy, CopyKind, CudaResult, DeviceIndex, Fill, Order, Runtime, Span};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::state::{State, Thread};
use crate::task::{Phase, TaskKey};

/// How a copy is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// By the CPU into managed memory; then moved in if its task has a device.
    FillOnHost { owner: TaskKey, bound: bool },
    /// By the CPU, out of managed memory that no device has touched.
    ReadOnHost,
    /// By the runtime, on this device if it is known.
    Runtime(Option<DeviceIndex>),
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `cudaMemcpy`, `cudaMemcpyAsync`.
    pub fn copy(&self, thread: &mut Thread, copy: &Copy) -> Outcome<()> {
        if let Some(bypass) = self.bypass() {
            return bypass;
        }
        self.attend(thread);
        let route = route(&self.state.lock(), copy);
        match route {
            Route::FillOnHost { owner, bound } => {
                if bound && let Err(error) = self.quiesce(thread, owner, copy.order) {
                    return Outcome::Fail(error);
                }
                self.runtime.copy_on_host(copy.dst, copy.src, copy.bytes);
                self.filled(thread, owner, Span { start: copy.dst, bytes: copy.bytes }, bound)
            }
            Route::ReadOnHost => {
                self.runtime.copy_on_host(copy.dst, copy.src, copy.bytes);
                Outcome::Handled(())
            }
            Route::Runtime(None) => Outcome::PassThrough(Why::NotOurs),
            Route::Runtime(Some(device)) => self.copy_on(thread, copy, device),
        }
    }

    /// `cudaMemset`, `cudaMemsetAsync`: by the CPU while the memory has no device.
    pub fn fill(&self, thread: &mut Thread, fill: &Fill) -> Outcome<()> {
        if let Some(bypass) = self.bypass() {
            return bypass;
        }
        self.attend(thread);
        let span = Span { start: fill.dst, bytes: fill.bytes };
        let mut state = self.state.lock();
        let Some(place) = state.ledger.find_span(span).map(|allocation| place(&state, allocation)) else {
            return Outcome::PassThrough(Why::NotOurs);
        };
        match place {
            Place::Unbound { owner } => {
                drop(state);
                // `cudaMemset` uses the low byte of its value.
                self.runtime.fill_on_host(fill.dst, fill.value.to_le_bytes()[0], fill.bytes);
                self.filled(thread, owner, span, false)
            }
            Place::Bound { device, .. } => {
                state.unsynchronized = true;
                drop(state);
                self.enter(thread, device).map_or_else(Outcome::Fail, |()| Outcome::PassThrough(Why::AsItIs))
            }
            Place::Elsewhere => Outcome::PassThrough(Why::NotOurs),
        }
    }

    fn filled(&self, thread: &mut Thread, owner: TaskKey, span: Span, bound: bool) -> Outcome<()> {
        self.state.lock().ledger.filled(span);
        if bound {
            let device = self.state.lock().task(owner).map(|task| task.terms.device);
            if device.is_some_and(|device| self.enter(thread, device).is_ok()) {
                let stream = self.fill_stream(owner);
                self.fetch(owner, stream, &[]);
            }
        }
        Outcome::Handled(())
    }

    /// Waits for device work that may still use memory that the CPU is about to write, or that is about to be freed.
    pub(crate) fn quiesce(&self, thread: &mut Thread, owner: TaskKey, order: Order) -> CudaResult<()> {
        let (device, needed, marks) = {
            let state = self.state.lock();
            let device = state.task(owner).map(|task| task.terms.device);
            (device, state.unsynchronized, state.marks())
        };
        if let Some(device) = device {
            self.enter(thread, device)?;
        }
        if needed {
            self.runtime.device_synchronize()?;
            let mut state = self.state.lock();
            let devices: Vec<DeviceIndex> = state.bound().map(|task| task.terms.device).collect();
            // With tasks on several devices only one of them is quiet now.
            state.unsynchronized = devices.iter().any(|&other| Some(other) != device);
            drop(state);
            let ended: Vec<_> = marks.into_iter().filter(|mark| Some(mark.device) == device).collect();
            self.retire(&ended);
        } else if let Order::On(stream) = order {
            self.runtime.stream_synchronize(stream)?;
        }
        Ok(())
    }

    /// A copy by the runtime. A blocking one between host and device waits for the kernels before it, as the legacy
    /// default stream does; one between two places on the device does not.
    fn copy_on(&self, thread: &mut Thread, copy: &Copy, device: DeviceIndex) -> Outcome<()> {
        if let Err(error) = self.enter(thread, device) {
            return Outcome::Fail(error);
        }
        let waits = copy.order == Order::Blocking
            && [CopyKind::HOST_TO_DEVICE, CopyKind::DEVICE_TO_HOST].contains(&copy.kind);
        if !waits {
            self.state.lock().unsynchronized = true;
            return Outcome::PassThrough(Why::AsItIs);
        }
        let marks: Vec<_> = {
            let state = self.state.lock();
            state.marks().into_iter().filter(|mark| state.legacy_waits_for(mark, device)).collect()
        };
        let result = self.runtime.copy(copy);
        if result.is_ok() {
            self.retire(&marks);
            self.tell_activity();
        }
        result.into()
    }
}

/// Where an allocation is, as far as copies care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Managed by the shim, without a device so far.
    Unbound {
        owner: TaskKey,
    },
    Bound {
        owner: TaskKey,
        device: DeviceIndex,
        rewritten: bool,
        eager: bool,
    },
    /// The program's own managed memory before it has a device, or a task that is gone.
    Elsewhere,
}

fn place(state: &State, allocation: &Allocation) -> Place {
    let owner = allocation.owner;
    let rewritten = allocation.origin == Origin::Rewritten;
    match state.task(owner) {
        Some(task) if task.phase == Phase::Bound => {
            Place::Bound { owner, device: task.terms.device, rewritten, eager: task.terms.eager() }
        }
        Some(_) if rewritten => Place::Unbound { owner },
        _ => Place::Elsewhere,
    }
}

fn route(state: &State, copy: &Copy) -> Route {
    let at = |start: u64| {
        let allocation = state.ledger.find_span(Span { start, bytes: copy.bytes });
        allocation.map(|allocation| place(state, allocation))
    };
    let asynchronous = copy.order != Order::Blocking;
    match (copy.kind, at(copy.dst), at(copy.src)) {
        _ if copy.bytes == 0 || copy.src == 0 => Route::Runtime(None),
        (CopyKind::HOST_TO_DEVICE, Some(Place::Unbound { owner }), None) => {
            Route::FillOnHost { owner, bound: false }
        }
        (CopyKind::HOST_TO_DEVICE, Some(Place::Bound { owner, rewritten: true, eager, .. }), None)
            if eager || !asynchronous =>
        {
            Route::FillOnHost { owner, bound: true }
        }
        (CopyKind::DEVICE_TO_DEVICE, Some(Place::Unbound { owner }), Some(Place::Unbound { .. })) => {
            Route::FillOnHost { owner, bound: false }
        }
        (CopyKind::DEVICE_TO_HOST, None, Some(Place::Unbound { .. })) => Route::ReadOnHost,
        (_, Some(Place::Bound { device, .. }), _) | (_, _, Some(Place::Bound { device, .. })) => {
            Route::Runtime(Some(device))
        }
        _ => Route::Runtime(None),
    }
}
