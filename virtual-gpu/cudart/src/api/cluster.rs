//! Queries about clusters of blocks.
//!
//! The model has no groups of multiprocessors into which a cluster must fit, so the number of clusters is limited only
//! by the blocks that fit on the card.

use core::ffi::{c_int, c_void};

use super::function::active_blocks_per_sm;
use super::launch::LaunchConfig;
use super::open;
use crate::ffi::{In, Out};
use crate::kernel::cluster::{BLOCKS_MAX, NON_PORTABLE_BLOCKS_MAX};
use crate::kernel::{allows_non_portable_clusters, kernel};
use crate::status::Code;

api!(
    /// Returns the number of blocks of the largest cluster possible for this kernel.
    fn cudaOccupancyMaxPotentialClusterSize(
        blocks: Out<c_int>,
        stub: *const c_void,
        config: In<LaunchConfig>,
    ) -> Result<(), Code> {
        let (runtime, device) = open()?;
        kernel(stub)?;
        config.get()?;
        let has_clusters = super::launch::has_clusters(runtime, device)?;
        let most = if allows_non_portable_clusters(stub) { NON_PORTABLE_BLOCKS_MAX } else { BLOCKS_MAX };
        blocks.put(if has_clusters { most.cast_signed() } else { 1 })
    }

    /// Returns the number of clusters of a launch that are on the card at once.
    fn cudaOccupancyMaxActiveClusters(
        clusters: Out<c_int>,
        stub: *const c_void,
        config: In<LaunchConfig>,
    ) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let kernel = kernel(stub)?;
        let config = config.get()?;
        let asked = config.asked(stub)?;
        let sizes = asked.cluster(runtime, device, &kernel)?;
        let info = runtime.device(device)?;
        let threads = u32::try_from(asked.shape.threads_per_block()).unwrap_or(u32::MAX);
        let blocks = active_blocks_per_sm(info, &kernel, threads, asked.shape.dynamic_shared_bytes);
        let all =
            u64::from(blocks) * u64::from(info.sms) / sizes.iter().map(|&n| u64::from(n)).product::<u64>();
        clusters.put(c_int::try_from(all).unwrap_or(c_int::MAX))
    }
);
