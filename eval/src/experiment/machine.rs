//! What a variant changes of machine, model, jobs or scheduler.
//!
//! Trap: it lists only what it changes; everything it leaves out is as in the rest of the experiment.

use anyhow::Result;
use eager_core::options::QueueOrder;
use eager_gpu_model::{Card, Nanos};
use eager_rodinia::HostTimes;
use eager_sim::{CoreOrder, SimOptions, Submission};
use eager_units::Bytes;
use serde::Deserialize;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// Other devices [default: the experiment's].
    pub cards: Option<String>,
    /// Processes share a device's SMs at once, as under MPS [default: true]. Without it they take turns.
    pub mps: Option<bool>,
    /// Milliseconds of a turn without MPS [default: 1.024].
    pub slice_ms: Option<f64>,
    /// Factor on the rate at which pages migrate [default: 1].
    pub migrate_factor: Option<f64>,
    /// Factor on what a batch of page faults costs [default: 1].
    pub batch_factor: Option<f64>,
    /// Share of paging, 0 to 1, that is hidden behind computing [default: 0].
    pub overlap: Option<f64>,
    /// Everything between host and device that many times as fast: copies, prefetches, faults and
    /// evictions [default: 1].
    pub link_factor: Option<f64>,
    /// Page faults are grown to blocks by the driver's density prefetcher [default: true].
    pub prefetcher: Option<bool>,
    /// One host thread's copy, 10^9 bytes per second [default: 8].
    pub host_copy_gb_per_s: Option<f64>,
    /// Device memory of a context, MiB [default: 100, without MPS 450].
    pub context_mib: Option<u64>,
    /// Factor on the jobs' host phases [default: 1].
    pub host: Option<f64>,
    /// Factor on the host phases in which they write their output [default: as `host`].
    pub output: Option<f64>,
    /// Share of the jobs, 0 to 1, whose memory the compiler sees through [default: 1].
    pub informed: Option<f64>,
    /// Programs allocate all their memory before they do anything else [default: false].
    pub allocate_first: Option<bool>,
    /// Host cores for the jobs' host phases [default: 40].
    pub host_cores: Option<u32>,
    /// How host phases share the cores: `arrival`, `holders-first`, `shared` [default: arrival].
    pub core_order: Option<CoreOrder>,
    /// Host memory for the jobs' own buffers, GiB [default: without end].
    pub host_memory_gib: Option<u64>,
    /// What the ledger may give away on each device, MiB; the last one holds for all further [default:
    /// all].
    pub device_memory_mib: Option<Vec<u64>>,
    /// Jobs in progress at once, in place of the list's own way [default: as the list says].
    pub workers: Option<u32>,
    /// In place of the systems' option of this name, as are the next two [default: as the systems say].
    pub os_ratio_percent_cyclic: Option<u32>,
    /// See `os_ratio_percent_cyclic`.
    pub os_ratio_percent_other: Option<u32>,
    /// See `os_ratio_percent_cyclic`.
    pub grant_percent_min: Option<u32>,
    /// Whether the eager policies' Normal tasks allocate managed memory, in place of the systems' option
    /// [default: as the systems say].
    pub managed_normal_tasks: Option<bool>,
    /// Queue order in place of every policy's own but the baselines': `fifo`, `backfill`, `largest-first`,
    /// `longest-remaining` [default: as the systems say].
    pub queue: Option<QueueOrder>,
    /// Any option of the GPU model by its name (`virtual-gpu/model/src/options.rs`), such as `{ eviction = "used" }`
    /// [default: none].
    pub model: toml::Table,
}

impl Machine {
    /// Numbers that have bounds: name, value, least and most.
    pub fn numbers(&self) -> [(&'static str, Option<f64>, f64, f64); 9] {
        const ABOVE_0: f64 = 1e-9;
        [
            ("slice_ms", self.slice_ms, ABOVE_0, f64::MAX),
            ("migrate_factor", self.migrate_factor, ABOVE_0, f64::MAX),
            ("batch_factor", self.batch_factor, 0.0, f64::MAX),
            ("overlap", self.overlap, 0.0, 1.0),
            ("link_factor", self.link_factor, ABOVE_0, f64::MAX),
            ("host_copy_gb_per_s", self.host_copy_gb_per_s, ABOVE_0, f64::MAX),
            ("host", self.host, 0.0, f64::MAX),
            ("output", self.output, 0.0, f64::MAX),
            ("informed", self.informed, 0.0, 1.0),
        ]
    }

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

    /// The GPU model's options with what is changed by name.
    ///
    /// # Errors
    /// The GPU model has no such option, or it is of another kind.
    pub fn model_options(&self, base: &eager_gpu_model::Options) -> Result<eager_gpu_model::Options> {
        let mut table = toml::Table::try_from(base)?;
        table.extend(self.model.clone());
        let words = eager_plainly::Words {
            noun: "option of the GPU model",
            unknown: "there is no option of the GPU model",
            others: "virtual-gpu/model/src/options.rs lists those that there are",
            elsewhere: Vec::new(),
        };
        table
            .try_into()
            .map_err(|error: toml::de::Error| anyhow::anyhow!(eager_plainly::said(error.message(), &words)))
    }

    /// Applies the rest.
    ///
    /// # Errors
    /// As [`Machine::model_options`].
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
            scheduler.queue = self.queue.or(scheduler.queue);
        }
        scheduler.context_bytes = Bytes(options.model.context_memory());
        Ok(())
    }
}
