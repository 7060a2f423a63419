//! Rates of everything on a device: transfers by engine, kernels by pool, slice and placement.
//!
//! Trap: rates are relative to an operation's own full speed. An operation with rate 0 has no next event, so it must be
//! rated anew when others stop.

use crate::device::{Body, Device, Running};
use crate::options::Placement;
use crate::placement::{Claim, place};
use crate::run::KernelRun;
use crate::share::{Demand, rates, split};
use crate::transfer::Engine;
use crate::{ContextId, OpId};
use std::collections::{BTreeMap, BTreeSet};

/// Part of the link that copies keep at least beside a fault batch (specification S-619).
const LINK_FLOOR: f64 = 0.1;

impl Device {
    pub(crate) fn rate_transfers(&mut self) {
        let (mut to_device, mut to_host, mut outward) = (Vec::new(), Vec::new(), false);
        for (&op, running) in &self.running {
            let Body::Transfer { segment, .. } = &running.body else { continue };
            outward |= segment.engine == Engine::ToHost || segment.evicts;
            match segment.engine {
                Engine::ToDevice => to_device.push((op, segment.cap)),
                Engine::ToHost => to_host.push((op, segment.cap)),
                Engine::Host | Engine::Dram | Engine::Wait => {}
            }
        }
        let link = &self.card.link;
        let duplex = if outward { self.options.duplex.unwrap_or(link.duplex_factor) } else { 1.0 };
        let (batch_in, batch_out) = self.service.as_ref().map_or((0.0, 0.0), |s| (s.in_rate, s.out_rate));
        let down = link.copy_to_device_bytes_per_s / 1e9;
        let up = link.copy_to_host_bytes_per_s / 1e9;
        for running in self.running.values_mut() {
            if let Body::Transfer { segment, .. } = &running.body {
                running.rate = if segment.engine == Engine::Host { self.host_cap } else { segment.cap };
            }
        }
        for (flows, capacity) in [
            (to_device, (down * duplex - batch_in).max(down * LINK_FLOOR)),
            (to_host, (up - batch_out).max(up * LINK_FLOOR)),
        ] {
            let caps: Vec<f64> = flows.iter().map(|f| f.1).collect();
            for ((op, _), rate) in flows.iter().zip(split(capacity, &caps)) {
                if let Some(running) = self.running.get_mut(op) {
                    running.rate = rate;
                }
            }
        }
    }

    /// Rates kernels. With MPS there is one pool; without it contexts get equal slices, and only the faulting context
    /// runs while a batch is in service ("fault and stall", specification S-507, S-607). Returns true if a kernel waits
    /// for SMs.
    pub(crate) fn rate_kernels(&mut self) -> bool {
        if self.options.mps {
            let is_kernel = |running: &Running| matches!(running.body, Body::Kernel(_));
            let ops: Vec<OpId> =
                self.running.iter().filter(|(_, running)| is_kernel(running)).map(|(&op, _)| op).collect();
            return self.rate_pool(&ops, 1.0);
        }
        let mut pools: BTreeMap<ContextId, Vec<OpId>> = BTreeMap::new();
        let (mut contexts, mut stalled_contexts) = (BTreeSet::new(), BTreeSet::new());
        let stalled_by = self.service.as_ref().map(|s| s.context);
        for (&op, running) in &mut self.running {
            let Body::Kernel(run) = &running.body else { continue };
            let pool = running.context;
            pools.entry(pool).or_default().push(op);
            if !run.faulting {
                let stalled = stalled_by.is_some_and(|by| by != running.context);
                if stalled { &mut stalled_contexts } else { &mut contexts }.insert(pool);
            }
        }
        let slice = self.options.slice.0 as f64;
        let kept = slice / (slice + self.options.slice_switch.0 as f64);
        let part = if contexts.len() > 1 { kept / contexts.len() as f64 } else { 1.0 };
        let leak = self.options.stall_leak / stalled_contexts.len().max(1) as f64;
        let mut contended = false;
        for (context, ops) in pools {
            let part = if stalled_contexts.contains(&context) { leak } else { part };
            contended |= self.rate_pool(&ops, part);
        }
        contended
    }

    fn rate_pool(&mut self, ops: &[OpId], part: f64) -> bool {
        match self.options.placement {
            _ if ops.is_empty() => false,
            Placement::Leftover => self.rate_by_placement(ops, part),
            Placement::Fair => self.rate_fairly(ops, part),
        }
    }

    /// Runs each kernel at the part of its wanted slots that it gets, and shares DRAM where the demand is still too
    /// high.
    fn rate_by_placement(&mut self, ops: &[OpId], part: f64) -> bool {
        let runs: Vec<&KernelRun> = ops.iter().filter_map(|op| self.kernel_run(*op)).collect();
        let claim = |(run, &op): (&&KernelRun, &OpId)| Claim {
            priority: run.priority,
            arrived: run.arrived,
            op,
            wanted: run.work.slots,
            kept: run.kept(),
        };
        let claims: Vec<Claim> = runs.iter().zip(ops).map(claim).collect();
        let given = place(&claims);
        let speeds: Vec<f64> = given.iter().zip(&claims).map(|(given, claim)| given / claim.wanted).collect();
        let demand = |(run, speed): (&&KernelRun, &f64)| {
            let first = if run.faulting { 0.0 } else { run.work.dram * speed };
            Demand { level: 0, first, second: 0.0 }
        };
        let shares = rates(&runs.iter().zip(&speeds).map(demand).collect::<Vec<_>>());
        let contended = speeds.iter().any(|&speed| speed < 1.0);
        for (((op, given), speed), share) in ops.iter().zip(given).zip(speeds).zip(shares) {
            let Some(running) = self.running.get_mut(op) else { continue };
            let Body::Kernel(run) = &mut running.body else { continue };
            run.placed = given;
            running.rate = if run.faulting { 0.0 } else { speed * share * part };
        }
        contended
    }

    /// Gives equal shares within a priority; a kernel that waits for faults demands nothing.
    fn rate_fairly(&mut self, ops: &[OpId], part: f64) -> bool {
        for op in ops {
            if let Some(running) = self.running.get_mut(op) {
                running.rate = 0.0;
            }
        }
        let ready: Vec<OpId> =
            ops.iter().copied().filter(|&op| self.kernel_run(op).is_some_and(|run| !run.faulting)).collect();
        let demand = |&op: &OpId| {
            let run = self.kernel_run(op)?;
            Some(Demand { level: run.priority, first: run.work.dram, second: run.work.sm })
        };
        let demands: Vec<Demand> = ready.iter().filter_map(demand).collect();
        for (op, rate) in ready.iter().zip(rates(&demands)) {
            if let Some(running) = self.running.get_mut(op) {
                running.rate = rate * part;
            }
        }
        false
    }

    fn kernel_run(&self, op: OpId) -> Option<&KernelRun> {
        match &self.running.get(&op)?.body {
            Body::Kernel(run) => Some(run),
            Body::Transfer { .. } => None,
        }
    }
}
