//! One change to machine, model, jobs or scheduler.
//!
//! Trap: a variant lists only what it changes; everything it leaves out is as in the rest of the experiment.

use anyhow::Result;
use eager_core::options::QueueOrder;
use eager_gpu_model::{Card, Nanos};
use eager_rodinia::HostTimes;
use eager_sim::{CoreOrder, SimOptions, Submission};
use eager_units::Bytes;
use serde::Deserialize;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    pub cards: Option<String>,
    pub mps: Option<bool>,
    pub slice_ms: Option<f64>,
    pub migrate_factor: Option<f64>,
    pub batch_factor: Option<f64>,
    pub overlap: Option<f64>,
    /// Everything between host and device that many times as fast: copies, prefetches, faults and evictions.
    pub link_factor: Option<f64>,
    pub prefetcher: Option<bool>,
    /// One host thread's copy, 10^9 bytes per second.
    pub host_copy_gb_per_s: Option<f64>,
    /// Device memory of a context, MiB.
    pub context_mib: Option<u64>,
    /// Factors on the jobs' host phases, and on those in which they write their output.
    pub host: Option<f64>,
    pub output: Option<f64>,
    /// Of the jobs, those whose memory the compiler sees through; 1 without it.
    pub informed: Option<f64>,
    pub allocate_first: Option<bool>,
    pub host_cores: Option<u32>,
    /// How host phases share the cores: `arrival`, `holders-first`, `shared`.
    pub core_order: Option<CoreOrder>,
    /// Host memory for the jobs' own buffers, GiB.
    pub host_memory_gib: Option<u64>,
    /// What the ledger may give away on each device, MiB; the last one holds for all further.
    pub device_memory_mib: Option<Vec<u64>>,
    /// Jobs in progress at once, in place of the list's own submission.
    pub workers: Option<u32>,
    pub os_ratio_percent_cyclic: Option<u32>,
    pub os_ratio_percent_other: Option<u32>,
    pub grant_percent_min: Option<u32>,
    /// Whether the eager policies' Normal tasks allocate managed memory.
    pub managed_normal_tasks: Option<bool>,
    /// In place of every policy's own queue order but the baselines'.
    pub queue: Option<QueueOrder>,
    /// Any option of the GPU model by its name (`virtual-gpu/model/src/options.rs`), such as `{ eviction = "used" }`.
    pub model: toml::Table,
}

impl Variant {
    /// Host phases of the jobs.
    pub fn host_times(&self) -> HostTimes {
        HostTimes {
            scale: self.host.unwrap_or(1.0),
            output_scale: self.output.or(self.host).unwrap_or(1.0),
            allocate_first: self.allocate_first.unwrap_or(false),
        }
    }

    /// Is the job at this place of a list one that the compiler sees through? Spread evenly over the list, by the golden
    /// ratio's multiples (a sequence of low discrepancy), so that it does not go along with any order of the list.
    pub fn informs(&self, index: usize) -> bool {
        let golden = (5f64.sqrt() - 1.0) / 2.0;
        (index as f64 * golden).fract() < self.informed.unwrap_or(1.0)
    }

    /// When the jobs come, if the list's own way is replaced.
    pub fn submission(&self, own: Submission) -> Submission {
        self.workers.map_or(own, Submission::Workers)
    }

    /// Applies what changes the cards.
    pub fn apply_to_card(&self, card: &mut Card) {
        let factor = self.link_factor.unwrap_or(1.0);
        let link = &mut card.link;
        link.copy_to_device_bytes_per_s *= factor;
        link.copy_to_host_bytes_per_s *= factor;
        link.prefetch_bytes_per_s *= factor;
        link.migrate_bytes_per_s *= factor;
        link.batch_ns /= factor;
        link.block_ns /= factor;
        link.page_ns /= factor;
        link.eviction_ns /= factor;
    }

    /// The GPU model's options with what the variant changes by name.
    ///
    /// # Errors
    /// The GPU model has no such option, or it is of another kind.
    pub fn model_options(&self, base: &eager_gpu_model::Options) -> Result<eager_gpu_model::Options> {
        let mut table = toml::Table::try_from(base)?;
        table.extend(self.model.clone());
        Ok(table.try_into()?)
    }

    /// Applies the rest.
    ///
    /// # Errors
    /// As [`Variant::model_options`].
    pub fn apply(&self, options: &mut SimOptions) -> Result<()> {
        options.model = self.model_options(&options.model)?;
        fn set<T>(to: &mut T, from: Option<T>) {
            if let Some(value) = from {
                *to = value;
            }
        }
        let model = &mut options.model;
        set(&mut model.mps, self.mps);
        set(&mut model.slice, self.slice_ms.map(|ms| Nanos((ms * 1e6) as u64)));
        set(&mut model.migrate_factor, self.migrate_factor);
        set(&mut model.batch_factor, self.batch_factor);
        set(&mut model.overlap, self.overlap);
        set(&mut model.prefetcher, self.prefetcher);
        set(&mut model.host_copy_bytes_per_s, self.host_copy_gb_per_s.map(|gb| gb * 1e9));
        model.context_bytes = self.context_mib.map(|mib| mib << 20).or(model.context_bytes);
        set(&mut options.host_cores, self.host_cores);
        set(&mut options.core_order, self.core_order);
        options.host_memory_bytes = self.host_memory_gib.map(|gib| gib << 30).or(options.host_memory_bytes);
        let limits = self.device_memory_mib.as_ref();
        set(
            &mut options.device_memory_bytes,
            limits.map(|limits| limits.iter().map(|mib| mib << 20).collect()),
        );
        let scheduler = &mut options.scheduler;
        set(&mut scheduler.os_ratio_percent_cyclic, self.os_ratio_percent_cyclic);
        set(&mut scheduler.os_ratio_percent_other, self.os_ratio_percent_other);
        set(&mut scheduler.grant_percent_min, self.grant_percent_min);
        set(&mut scheduler.managed_normal_tasks, self.managed_normal_tasks);
        if options.policy.traits().eager {
            scheduler.queue = self.queue;
        }
        scheduler.context_bytes = Bytes(options.model.context_memory());
        Ok(())
    }
}
