//! Queries about the server: its devices, their users, their work so far. They change only which process attends.

use eager_gpu_model::{Card, DeviceTotals, ModelError};
use eager_vgpu_link::{
    Activity, DeviceActivity, DeviceInfo, ProcessUse, Refusal, ServedCard, ServedClock, Serving,
};

use super::{ProcessId, Service};
use crate::Clock;

impl Service {
    pub(super) fn devices(&self) -> Result<Vec<DeviceInfo>, Refusal> {
        (0..).zip(&self.cards).map(|(index, card)| self.device(index, card)).collect()
    }

    /// Recomputes the model's books; for tests, and after an internal error of the server.
    ///
    /// # Panics
    /// When the books are wrong.
    pub fn check(&self) {
        self.model.check();
    }

    /// True if no user is charged for anything.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.holdings.is_empty()
    }

    /// Permits only the server's own user and root to look at all programs.
    pub(super) fn require_owner(&mut self, asker: ProcessId) -> Result<(), Refusal> {
        match self.greeted(asker)?.peer.is_some_and(|peer| !peer.is_owner) {
            true => Err(Refusal::NotAllowed),
            false => Ok(()),
        }
    }

    pub(super) fn activity(&mut self, asker: ProcessId) -> Result<Activity, Refusal> {
        self.require_owner(asker)?;
        let totals = |device| self.model.totals(self.now, device);
        let totals = (0..self.cards.len()).map(totals).collect::<Result<Vec<_>, _>>();
        let of = |totals: DeviceTotals| DeviceActivity {
            paged_bytes: self.scale.to_program_bytes(totals.moved.paged_bytes()),
            kernels: totals.kernel_present,
        };
        let devices = totals.map_err(|e| self.refusal(e))?.into_iter().map(of).collect();
        Ok(Activity { now: self.now, devices })
    }

    pub(super) fn uses(&mut self, asker: ProcessId) -> Result<Vec<ProcessUse>, Refusal> {
        self.require_owner(asker)?;
        let held = self.processes.values().flat_map(|process| {
            process.contexts.iter().map(|(&device, &context)| (device, process.pid, context))
        });
        held.map(|(device, pid, context)| {
            let pinned = self.model.pinned_bytes(context).map_err(|e| self.refusal(e))?;
            let managed = self.model.managed_bytes(context).map_err(|e| self.refusal(e))?;
            let [pinned, managed] = [pinned, managed].map(|bytes| self.scale.to_program_bytes(bytes));
            Ok(ProcessUse { device, pid, pinned, managed })
        })
        .collect()
    }

    fn device(&self, index: u32, card: &Card) -> Result<DeviceInfo, Refusal> {
        let info = self.model.memory_info(index as usize).map_err(|e| self.refusal(e))?;
        let (major, minor) =
            card.compute_capability.split_once('.').unwrap_or((&card.compute_capability, "0"));
        Ok(DeviceInfo {
            index,
            name: card.name.clone(),
            capacity_bytes: self.scale.to_program_bytes(info.total),
            free_bytes: self.scale.to_program_bytes(info.free),
            sms: card.sms,
            threads_per_sm: card.threads_per_sm,
            blocks_per_sm: card.blocks_per_sm,
            faults_stall: !self.model.options().mps,
            shared_bytes_per_sm: card.shared_bytes_per_sm,
            registers_per_sm: card.registers_per_sm,
            compute_capability: (major.parse().unwrap_or(0), minor.parse().unwrap_or(0)),
            single_to_double: (card.flops32_per_s / card.flops64_per_s).round() as u32,
            details: card.details,
            memory_scale: self.scale.memory,
            time_scale: self.scale.time,
        })
    }

    pub(super) fn refusal(&self, error: ModelError) -> Refusal {
        match error {
            ModelError::OutOfMemory { wanted, free } => Refusal::OutOfMemory {
                wanted_bytes: self.scale.to_program_bytes(wanted),
                free_bytes: self.scale.to_program_bytes(free),
            },
            other => Refusal::Invalid(other.to_string()),
        }
    }

    /// Marks the asker as a daemon, and returns the server's settings so that the daemon can compare them with its own.
    pub(super) fn attend(&mut self, asker: ProcessId) -> Result<Serving, Refusal> {
        self.require_owner(asker)?;
        self.greeted(asker)?.attends = true;
        self.is_dismissed = false;
        let card = |card: &Card| ServedCard {
            name: card.name.clone(),
            memory_bytes: card.memory_bytes,
            sms: card.sms,
        };
        let clock = match self.clock() {
            Clock::Real => ServedClock::Real { time_scale: self.scale.time },
            Clock::Virtual { host_factor } => ServedClock::Virtual { host_factor },
        };
        Ok(Serving {
            cards: self.cards.iter().map(card).collect(),
            memory_scale: self.scale.memory,
            clock,
            mps: self.model.options().mps,
        })
    }

    fn clock(&self) -> Clock {
        self.keeper
            .as_ref()
            .map_or(Clock::Real, |(_, host_factor)| Clock::Virtual { host_factor: *host_factor })
    }
}
