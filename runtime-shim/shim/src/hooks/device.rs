//! Devices: the program's choice of device is stored but not used, since the daemon chooses. Also the calls that wait
//! for a whole device.
//!
//! Trap: CUDA's current device is per host thread, and a program's tasks may be on several devices. A synchronising
//! call must therefore cover every device that holds a task of the program, not the current one only.

use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, CudaResult, DeviceIndex, Runtime, Setting, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::Thread;
use crate::task::TaskKey;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `cudaSetDevice`: stored and returned by `cudaGetDevice`, but not applied.
    pub fn set_device(&self, thread: &mut Thread, device: i32) -> Outcome<()> {
        self.set_valid_devices(thread, &[device])
    }

    /// `cudaSetValidDevices`: stores the first device of the list; an empty list stores nothing.
    pub fn set_valid_devices(&self, thread: &mut Thread, devices: &[i32]) -> Outcome<()> {
        if let Some(bypass) = self.device_is_the_programs() {
            return bypass;
        }
        let known = devices.iter().try_for_each(|&device| self.known(device));
        if let (Ok(()), Some(&first)) = (known, devices.first()) {
            thread.program_device = first;
        }
        known.into()
    }

    /// `cudaInitDevice`: makes no context, since one on a device that the daemon did not choose would only take
    /// memory there.
    pub fn init_device(&self, device: i32) -> Outcome<()> {
        self.device_is_the_programs().unwrap_or_else(|| self.known(device).into())
    }

    fn known(&self, device: i32) -> CudaResult<()> {
        match (0..self.runtime.device_count()?).contains(&device) {
            true => Ok(()),
            false => Err(CudaError::INVALID_DEVICE),
        }
    }

    /// `cudaGetDevice`: the device that the program set.
    pub fn get_device(&self, thread: &mut Thread) -> Outcome<i32> {
        self.device_is_the_programs().unwrap_or(Outcome::Handled(thread.program_device))
    }

    /// Without a daemon the program chooses its device, unless a daemon has chosen one before.
    fn device_is_the_programs<T>(&self) -> Option<Outcome<T>> {
        if self.ever_bound.load(Ordering::Relaxed) { None } else { self.bypass_harmless() }
    }

    /// A call for the task's device, or, if it has none, the device of the program's context: `cudaMemGetInfo` (which
    /// does not show what the scheduler will grant), `cudaEventRecord`, `cudaLaunchHostFunc`, `cudaGraphInstantiate`,
    /// …
    pub fn on_own_device(&self, thread: &mut Thread) -> Outcome<()> {
        self.served_harmless(|| {
            self.sync_with_daemon(thread);
            self.bind_own(thread)?;
            self.enter_foothold(thread)?;
            Err(Stop::Pass(Why::AsItIs))
        })
    }

    /// True if the program's user declared its size.
    pub fn has_declared_size(&self) -> bool {
        self.config.declared.is_some()
    }

    /// The free memory that `cudaMemGetInfo` tells a program of a declared size, of `free` bytes on the device: what the
    /// program may still allocate of that size. The rest of the device is not promised to it; and where it starts
    /// over-subscribed, less may be free.
    pub fn free_for_program(&self, free: u64) -> u64 {
        let state = self.state.lock();
        let is_managed = state.client.lazy_task().is_some_and(|task| task.terms.managed);
        let left = state.client.left_of_declared();
        left.map_or(free, |left| if is_managed { left } else { left.min(free) })
    }

    /// A call with a device number of the program, which is replaced by the task's device.
    pub fn translate_device(&self, thread: &mut Thread, device: &mut i32) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        let outcome = self.on_a_device(thread);
        if let Some(own) = self.state.lock().own_device(thread) {
            *device = own.0;
        }
        outcome
    }

    /// `cudaDeviceEnablePeerAccess`, `…Disable…`: does nothing, since the program's device numbers are not the real
    /// ones.
    pub fn peer_access(&self) -> Outcome<()> {
        self.bypass_harmless().unwrap_or(Outcome::Handled(()))
    }

    /// A call that sets something on the current device: applied now, and to every device that a task of the program
    /// gets later.
    pub fn set(&self, thread: &mut Thread, setting: Setting) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        self.state.lock().remember(setting);
        let devices = {
            let state = self.state.lock();
            self.devices(state.client.bound().map(|task| task.terms.device))
        };
        let applied = self.on_each(thread, &devices, |runtime| {
            runtime.apply(setting);
            Ok(())
        });
        applied.map_or_else(Outcome::Fail, |()| self.on_own_device(thread))
    }

    /// `cudaDeviceSynchronize`.
    pub fn device_synchronize(&self, thread: &mut Thread) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        self.sync_with_daemon(thread);
        let (marks, devices) = {
            let state = self.state.lock();
            (state.marks(), self.devices(state.client.bound().map(|task| task.terms.device)))
        };
        if devices.is_empty() {
            let is_deferred = self.state.lock().client.tasks().any(|task| task.is_deferred());
            // There is nothing to wait for, and the call would make a context.
            let nothing_yet = is_deferred || !self.runtime.has_context();
            return if nothing_yet { Outcome::Handled(()) } else { self.not_ours(thread) };
        }
        let result = self.on_each(thread, &devices, |runtime| runtime.device_synchronize());
        if result.is_ok() {
            self.state.lock().unsynchronized = false;
            self.retire(&marks);
            self.send_activity();
        }
        result.into()
    }

    /// `cudaDeviceReset`: ends everything of the program on the device that it has set. If it has nothing on other
    /// devices, all its tasks end.
    pub fn device_reset(&self, thread: &mut Thread) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        self.sync_with_daemon(thread);
        if let Some(reset) = self.reset_one_of_several(thread) {
            return reset;
        }
        let (keys, devices): (Vec<TaskKey>, Vec<DeviceIndex>) = {
            let state = self.state.lock();
            let keys = state.client.tasks().map(|task| task.key).collect();
            (keys, self.devices(state.client.bound().map(|task| task.terms.device)))
        };
        if keys.is_empty() {
            return Outcome::PassThrough(Why::NotOurs);
        }
        // The runtime resets only what it made itself.
        let mapped = self.state.lock().memory().mapped();
        let emptied = self.on_each(thread, &devices, |runtime| runtime.device_synchronize());
        for (address, origin) in mapped.into_iter().filter(|_| emptied.is_ok()) {
            let _ = self.free_memory(address, origin);
        }
        // A reset ends page-locked memory together with the context that made it.
        self.ring.lock().release(&self.runtime);
        let result = if devices.is_empty() {
            let device = self.foothold_device(thread);
            device
                .map_or(Ok(()), |device| self.enter(thread, device))
                .and_then(|()| self.runtime.device_reset())
        } else {
            self.on_each(thread, &devices, |runtime| runtime.device_reset())
        };
        if result.is_ok() {
            self.host_memory_unlocked();
            let mut state = self.state.lock();
            state.forget();
            self.note_watched(&state);
            for key in keys {
                // The reset has destroyed the streams.
                let over = state.client.end(key, &mut self.outbox());
                let _ = self.dispose(&mut state, over);
            }
            thread.sites.open.clear();
            thread.sites.lazy = None;
        }
        result.into()
    }

    /// Reset of a program that has memory or streams on several devices by its own numbers, which may all be the same
    /// real device: only what it made on the device that it has set is freed. `None`: it has nothing on other
    /// devices.
    fn reset_one_of_several(&self, thread: &mut Thread) -> Option<Outcome<()>> {
        let device = thread.program_device;
        let (addresses, streams) = {
            let state = self.state.lock();
            let (addresses, has_others) = state.memory().on_set_device(device);
            let is_own = |stream: &&StreamId| state.streams[*stream].set_device == device;
            let (own, others): (Vec<StreamId>, Vec<StreamId>) = state.streams.keys().partition(is_own);
            if !has_others && others.is_empty() {
                return None;
            }
            (addresses, own)
        };
        // As in a whole reset, running work is awaited.
        let synchronized = self.device_synchronize(thread);
        if let Outcome::Fail(_) = synchronized {
            return Some(synchronized);
        }
        for address in addresses {
            if let Outcome::Fail(error) = self.free(thread, address) {
                return Some(Outcome::Fail(error));
            }
        }
        for stream in streams {
            if let Outcome::PassThrough(Why::AsItIs) = self.stream_destroy(thread, stream) {
                let _ = self.runtime.stream_destroy(stream);
            }
        }
        Some(Outcome::Handled(()))
    }

    fn devices(&self, all: impl Iterator<Item = DeviceIndex>) -> Vec<DeviceIndex> {
        all.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Runs `call` on each device and returns to the device that the thread was on.
    fn on_each(
        &self,
        thread: &mut Thread,
        devices: &[DeviceIndex],
        call: impl Fn(&R) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let before = thread.real_device;
        for &device in devices {
            self.enter(thread, device)?;
            call(&self.runtime)?;
        }
        before.map_or(Ok(()), |device| self.enter(thread, device))
    }
}
