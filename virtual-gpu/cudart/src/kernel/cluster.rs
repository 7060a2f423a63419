//! Determines the cluster of blocks of a launch. Pure.
//!
//! Limits: CUDA C++ programming guide, "Thread Block Clusters": eight blocks, or sixteen where the program allows a
//! size that not every GPU supports (`cudaFuncAttributeNonPortableClusterSizeAllowed`), from compute capability 9.0 on.
//! If both the kernel (`__cluster_dims__`) and the launch specify a cluster, the two must be equal.

use crate::status::Code;

pub const BLOCKS_MAX: u32 = 8;
pub const NON_PORTABLE_BLOCKS_MAX: u32 = 16;
/// The first compute capability with clusters.
pub const CAPABILITY: (u32, u32) = (9, 0);

/// Inputs that determine a launch's cluster.
#[derive(Debug, Clone, Copy)]
pub struct ClusterRequest {
    /// Size given by the kernel, 8 bits per dimension; 0: none.
    pub by_kernel: u32,
    pub by_launch: Option<[u32; 3]>,
    pub grid: [u32; 3],
    pub non_portable: bool,
    pub has_clusters: bool,
}

/// Decodes the cluster size in a kernel's table; `None` if it has none.
pub fn unpacked(by_kernel: u32) -> Option<[u32; 3]> {
    let sizes = [0, 8, 16].map(|shift| (by_kernel >> shift & 0xff).max(1));
    (by_kernel != 0).then_some(sizes)
}

impl ClusterRequest {
    /// Blocks of a cluster in x, y, z; ones for no cluster.
    ///
    /// # Errors
    /// `cudaErrorInvalidClusterSize`; `cudaErrorNotSupported` for a card without clusters.
    pub fn cluster(&self) -> Result<[u32; 3], Code> {
        let by_kernel = unpacked(self.by_kernel);
        let sizes = match (by_kernel, self.by_launch) {
            (Some(kernel), Some(launch)) if kernel != launch => {
                return Err(Code::cudaErrorInvalidClusterSize);
            }
            (kernel, launch) => kernel.or(launch).unwrap_or([1; 3]),
        };
        let blocks = sizes.iter().fold(1_u32, |product, &size| product.saturating_mul(size));
        if blocks == 1 {
            return Ok(sizes);
        }
        let most = if self.non_portable { NON_PORTABLE_BLOCKS_MAX } else { BLOCKS_MAX };
        let divides = sizes.iter().zip(self.grid).all(|(&size, blocks)| size > 0 && blocks % size == 0);
        match () {
            () if !self.has_clusters => Err(Code::cudaErrorNotSupported),
            () if blocks == 0 || blocks > most || !divides => Err(Code::cudaErrorInvalidClusterSize),
            () => Ok(sizes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(by_kernel: u32, by_launch: Option<[u32; 3]>, non_portable: bool) -> Result<[u32; 3], Code> {
        ClusterRequest { by_kernel, by_launch, grid: [16, 4, 1], non_portable, has_clusters: true }.cluster()
    }

    #[test]
    fn limits_are_cudas() {
        let wrong = Err(Code::cudaErrorInvalidClusterSize);
        assert_eq!(cluster(0, None, false), Ok([1; 3]));
        assert_eq!(cluster(0x0102, None, false), Ok([2, 1, 1]));
        assert_eq!(cluster(0, Some([4, 2, 1]), false), Ok([4, 2, 1]));
        assert_eq!(cluster(0x010102, Some([2, 1, 1]), false), Ok([2, 1, 1]));
        assert_eq!(cluster(0x010102, Some([4, 1, 1]), false), wrong);
        assert_eq!(cluster(0, Some([3, 1, 1]), false), wrong);
        assert_eq!(cluster(0, Some([1, 1, 2]), false), wrong);
        assert_eq!(cluster(0, Some([0, 1, 1]), false), wrong);
        assert_eq!(
            (cluster(0, Some([16, 1, 1]), false), cluster(0, Some([16, 1, 1]), true)),
            (wrong, Ok([16, 1, 1]))
        );
        assert_eq!(cluster(0, Some([16, 2, 1]), true), wrong);
        let old = ClusterRequest {
            by_kernel: 2,
            by_launch: None,
            grid: [2, 1, 1],
            non_portable: false,
            has_clusters: false,
        };
        assert_eq!(old.cluster(), Err(Code::cudaErrorNotSupported));
    }
}
