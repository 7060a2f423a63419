//! Late reservation: a task requests memory at its first use of a device, and its allocations are addresses until
//! then (specification S-303).
//!
//! Every use must be seen before it reaches the device, so a task is deferred only if the pass shows that each use is
//! a call that names the memory ([`eager_abi::TASK_NAMED`]). Traps: such a task cannot run over-subscribed, since the
//! addresses that it has handed out are not managed memory; and an allocation that no device can ever hold must fail
//! where it is made, so a task that requests more than the daemon ever grants must not be deferred.

use crate::outcome::Outcome;
use crate::runtime::{DeviceIndex, Launch, Runtime};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::Thread;
use crate::task::TaskKey;
use eager_client::way::ByName;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// How the memory of a site's task may come with the calls that name it.
    pub(crate) fn by_name(&self, site: u64) -> Option<ByName> {
        if !self.state.lock().client.habits.comes_by_name() {
            return None;
        }
        let room = {
            let grant_max = self.scheduler.as_ref()?.grant_max()?;
            let program = self.program.read();
            // Each request includes the program's managed variables.
            let room = grant_max.checked_sub(program.with_variables(0));
            room.filter(|_| program.is_named(site) && !program.shares_memory())?
        };
        Some(ByName { piece: self.common_granularity()?, room })
    }

    /// Bytes that sizes must be a multiple of on every device, since the task's device is not known yet; `None`: some
    /// device cannot map memory.
    fn common_granularity(&self) -> Option<u64> {
        let devices = self.runtime.device_count().ok()?;
        let each = (0..devices).map(|device| self.runtime.map_granularity(DeviceIndex(device)));
        // Granularities are powers of two, so the largest is a multiple of all.
        each.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Waits for the device of a task that has none.
    pub(crate) fn await_device(&self, thread: &mut Thread, key: TaskKey) -> Result<(), Stop> {
        if !self.state.lock().client.is_deferred(key) {
            return self.settle(thread, key);
        }
        self.bind(thread, key, None)?;
        self.flush(thread, key)
    }

    /// Binds the thread's innermost task, or the declared one, if it is deferred: a call is ordered in a stream, or
    /// queries the device.
    pub(crate) fn bind_own(&self, thread: &mut Thread) -> Result<(), Stop> {
        let own = self.state.lock().client.deferred_of(&thread.sites);
        own.map_or(Ok(()), |key| self.await_device(thread, key))
    }

    /// Prepares a call that names these addresses: binds their tasks, copies what was kept for them to the device,
    /// and gives the addresses memory.
    pub(crate) fn prepare(&self, thread: &mut Thread, words: &[u64]) -> Result<(), Stop> {
        let owners: Vec<TaskKey> = {
            let state = self.state.lock();
            // A word that points near a buffer must not make this thread wait for a task that another thread has
            // open.
            let own = state.client.innermost(&thread.sites).map(|open| open.key);
            let is_others =
                |key| own != Some(key) && state.client.task(key).is_some_and(|task| task.account.is_open());
            let owners = state.memory().absent_among(words).into_iter().map(|found| found.owner);
            let owners = owners.filter(|&key| !is_others(key));
            let named = state.memory().pointed_at(words).into_iter().map(|found| found.owner);
            owners.chain(named).collect()
        };
        for owner in owners {
            if self.state.lock().client.is_deferred(owner) {
                self.bind(thread, owner, None)?;
            }
            self.flush(thread, owner)?;
        }
        self.give_memory_to_named(thread, words)
    }

    /// Prepares a launch. A kernel that no module registered may use all memory of its task.
    pub(crate) fn prepare_launch(&self, thread: &mut Thread, launch: &Launch) -> Result<(), Stop> {
        let key = self.task_of(thread, launch);
        if self.state.lock().client.is_deferred(key) {
            self.bind(thread, key, None)?;
        }
        self.flush(thread, key)?;
        if self.program.read().kernel(launch.stub).is_none() {
            return self.give_memory_to_all(thread, key);
        }
        self.prepare(thread, &self.arguments(launch))
    }

    /// Prepares a copy or memset, and reports it if it uses a dead buffer.
    pub(crate) fn prepare_call(&self, thread: &mut Thread, addresses: &[u64]) -> Result<(), Stop> {
        let lost = self.state.lock().memory().is_lost_among(addresses);
        self.prepare(thread, addresses)?;
        self.watch_addresses(lost, addresses);
        Ok(())
    }

    /// A call that takes addresses and belongs to one device, and is otherwise forwarded.
    pub fn on_a_device_with(&self, thread: &mut Thread, addresses: &[u64]) -> Outcome<()> {
        let prepared =
            self.served(|| if self.is_watched() { self.prepare_call(thread, addresses) } else { Ok(()) });
        if let Outcome::Handled(()) = prepared { self.on_a_device(thread) } else { prepared }
    }

    /// `cudaPointerGetAttributes`: the runtime would not recognize an address that has no memory yet, so it gets
    /// memory first.
    pub fn about_address(&self, thread: &mut Thread, address: u64) -> Outcome<()> {
        let prepared = self
            .served_harmless(|| if self.is_watched() { self.prepare(thread, &[address]) } else { Ok(()) });
        if let Outcome::Handled(()) = prepared { self.about_host_memory(thread, address) } else { prepared }
    }
}
