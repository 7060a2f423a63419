//! Changes that a variant makes to machine, model, jobs or scheduler.
//!
//! A field that is left out leaves the rest of the experiment's setting as it is.

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
    /// Modelled devices, as for `eagerd --virtual` [default: the experiment's].
    pub cards: Option<String>,
    /// `true`: processes use a device's SMs at the same time, as under MPS. `false`: they take turns [default: true].
    pub mps: Option<bool>,
    /// Length of a turn without MPS, in milliseconds [default: 1.024].
    pub slice_ms: Option<f64>,
    /// Factor on the rate at which pages migrate [default: 1].
    pub migrate_factor: Option<f64>,
    /// Factor on the cost of a batch of page faults [default: 1].
    pub batch_factor: Option<f64>,
    /// Share of the paging time, 0 to 1, that is hidden behind computing [default: 0].
    pub overlap: Option<f64>,
    /// Factor on the speed of everything between host and device: copies, prefetches, page faults and evictions
    /// [default: 1].
    pub link_factor: Option<f64>,
    /// `true`: the driver's density prefetcher grows each page fault to a whole block [default: true].
    pub prefetcher: Option<bool>,
    /// Rate at which one host thread copies, in 10^9 bytes per second [default: 8].
    pub host_copy_gb_per_s: Option<f64>,
    /// Device memory that a context takes, in MiB [default: 100 with MPS, 450 without].
    pub context_mib: Option<u64>,
    /// Factor on the duration of the jobs' host phases [default: 1].
    pub host: Option<f64>,
    /// Factor on the duration of the host phases in which jobs write their output [default: as `host`].
    pub output: Option<f64>,
    /// Share of the jobs, 0 to 1, whose memory use the compiler can determine [default: 1].
    pub informed: Option<f64>,
    /// `true`: programs allocate all their memory before they do anything else [default: false].
    pub allocate_first: Option<bool>,
    /// Number of host cores that run the jobs' host phases [default: 40].
    pub host_cores: Option<u32>,
    /// How host phases share the cores: `arrival`, `holders-first`, `shared` [default: arrival].
    pub core_order: Option<CoreOrder>,
    /// Host memory for the jobs' own buffers, in GiB [default: unlimited].
    pub host_memory_gib: Option<u64>,
    /// Memory that the ledger may grant on each device, in MiB, in the order of the devices; the last number also
    /// applies to all further devices [default: all of it].
    pub device_memory_mib: Option<Vec<u64>>,
    /// Number of jobs in progress at once, in place of the list's way to submit them [default: as the list says].
    pub workers: Option<u32>,
    /// Replaces the systems' option of this name, as do the next two keys [default: as the systems say].
    pub os_ratio_percent_cyclic: Option<u32>,
    /// See `os_ratio_percent_cyclic`.
    pub os_ratio_percent_other: Option<u32>,
    /// See `os_ratio_percent_cyclic`.
    pub grant_percent_min: Option<u32>,
    /// Whether Normal tasks of the eager policies allocate managed memory; replaces the systems' option of this name
    /// [default: as the systems say].
    pub managed_normal_tasks: Option<bool>,
    /// Queue order of the eager policies, in place of their own: `fifo`, `backfill`, `largest-first`,
    /// `longest-remaining` [default: as the systems say].
    pub queue: Option<QueueOrder>,
    /// Any option of the GPU model by its name (`virtual-gpu/model/src/options.rs`), such as `{ eviction = "used" }`
    /// [default: none].
    pub model: toml::Table,
}

impl Machine {
    /// Numbers that have bounds: name, value, least and greatest value allowed.
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

    /// Returns the factors on the jobs' host phases.
    pub fn host_times(&self) -> HostTimes {
        HostTimes {
            scale: self.host.unwrap_or(1.0),
            output_scale: self.output.or(self.host).unwrap_or(1.0),
            allocate_first: self.allocate_first.unwrap_or(false),
        }
    }

    /// True if the compiler can determine the memory use of the job at this place of a list. Multiples of the golden
    /// ratio (a sequence of low discrepancy) spread these jobs evenly, independent of any order that the list has.
    pub fn informs(&self, index: usize) -> bool {
        let golden = (5f64.sqrt() - 1.0) / 2.0;
        (index as f64 * golden).fract() < self.informed.unwrap_or(1.0)
    }

    /// Returns how jobs are submitted: the list's own way unless `workers` replaces it.
    pub fn submission(&self, own: Submission) -> Submission {
        self.workers.map_or(own, Submission::Workers)
    }

    /// Applies the changes that concern the cards.
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

    /// Returns the GPU model's options with those replaced that `model` names.
    ///
    /// # Errors
    /// The GPU model has no such option, or it is of another type.
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
            .map_err(|error: toml::de::Error| anyhow::anyhow!(eager_plainly::reword(error.message(), &words)))
    }

    /// Applies all other changes.
    ///
    /// # Errors
    /// See [`Machine::model_options`].
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
