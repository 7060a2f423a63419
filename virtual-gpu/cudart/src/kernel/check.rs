//! Checks that a launch is within CUDA's limits. Pure.
//!
//! Limits: CUDA C++ programming guide, "Technical Specifications per Compute Capability" (specification S-514), equal
//! for all capabilities from 5.0 on. Trap: the codes are those observed on an H100 with driver 580.159.04, not those of
//! the manual; the code for a bad shape differs between CUDA 12 and CUDA 13.

use crate::status::Code;

/// Threads of a block, in total and per dimension.
pub const THREADS_PER_BLOCK_MAX: u32 = 1024;
pub const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];
pub const GRID_MAX: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Shared memory of a block, static and dynamic, without opting in for more.
pub const SHARED_BYTES_PER_BLOCK: u32 = 48 << 10;

/// Code for a shape that no kernel may have.
const BAD_SHAPE: Code =
    if cfg!(cuda_12) { Code::cudaErrorInvalidConfiguration } else { Code::cudaErrorInvalidValue };

/// Shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared_bytes: u64,
}

impl Shape {
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    pub fn threads_per_block(&self) -> u64 {
        self.block.iter().map(|&n| u64::from(n)).product()
    }

    /// Checks the shape for a kernel.
    ///
    /// # Errors
    /// The CUDA runtime's code for the same launch.
    pub fn check(&self, kernel: &Limits) -> Result<(), Code> {
        let within =
            |sizes: [u32; 3], limits: [u32; 3]| sizes.iter().zip(limits).all(|(&n, max)| 0 < n && n <= max);
        if !within(self.block, BLOCK_MAX)
            || !within(self.grid, GRID_MAX)
            || self.threads_per_block() > u64::from(THREADS_PER_BLOCK_MAX)
        {
            return Err(BAD_SHAPE);
        }
        if self.threads_per_block() > u64::from(kernel.threads_max) {
            return Err(Code::cudaErrorInvalidValue);
        }
        match self.dynamic_shared_bytes.checked_add(u64::from(kernel.static_shared_bytes)) {
            Some(bytes) if bytes <= u64::from(kernel.shared_bytes_max) => Ok(()),
            // The driver checks how many blocks fit on the device at once, and none does.
            _ if kernel.is_cooperative => Err(Code::cudaErrorCooperativeLaunchTooLarge),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }
}

/// Launch limits of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Threads per block, by its `__launch_bounds__`.
    pub threads_max: u32,
    pub static_shared_bytes: u32,
    /// Static and dynamic shared memory of a block.
    pub shared_bytes_max: u32,
    pub is_cooperative: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        threads_max: THREADS_PER_BLOCK_MAX,
        static_shared_bytes: 1024,
        shared_bytes_max: SHARED_BYTES_PER_BLOCK,
        is_cooperative: false,
    };

    fn check(grid: [u32; 3], block: [u32; 3], dynamic_shared_bytes: u64) -> Result<(), Code> {
        Shape { grid, block, dynamic_shared_bytes }.check(&LIMITS)
    }

    #[test]
    fn limits_are_cudas() {
        assert_eq!(check([1, 1, 1], [1024, 1, 1], 47 << 10), Ok(()));
        assert_eq!(check([0x7fff_ffff, 65_535, 65_535], [16, 1, 64], 0), Ok(()));
        let bad_shapes = [
            ([1, 1, 1], [1025, 1, 1]),
            ([1, 1, 1], [32, 33, 1]),
            ([1, 1, 1], [1, 1, 65]),
            ([1, 65_536, 1], [1, 1, 1]),
            ([0, 1, 1], [1, 1, 1]),
            ([1, 1, 1], [1, 0, 1]),
        ];
        let refused = if cfg!(cuda_12) { 9 } else { 1 };
        for (grid, block) in bad_shapes {
            assert_eq!(check(grid, block, 0).map_err(|code| code as u32), Err(refused), "{grid:?} {block:?}");
            assert_eq!(
                check(grid, block, 1 << 20).map_err(|code| code as u32),
                Err(refused),
                "the shape comes first"
            );
        }
        assert_eq!(check([1, 1, 1], [1, 1, 1], (47 << 10) + 1), Err(Code::cudaErrorInvalidValue));
        assert_eq!(check([1, 1, 1], [1, 1, 1], u64::MAX), Err(Code::cudaErrorInvalidValue));
    }

    #[test]
    fn a_kernels_own_limits_have_their_own_codes() {
        let shape =
            |threads, bytes| Shape { grid: [1; 3], block: [threads, 1, 1], dynamic_shared_bytes: bytes };
        let promised = Limits { threads_max: 128, ..LIMITS };
        assert_eq!(shape(128, 0).check(&promised), Ok(()));
        assert_eq!(shape(129, 0).check(&promised), Err(Code::cudaErrorInvalidValue));
        let cooperative = Limits { is_cooperative: true, ..promised };
        assert_eq!(shape(129, 48 << 10).check(&cooperative), Err(Code::cudaErrorInvalidValue));
        assert_eq!(shape(128, 48 << 10).check(&cooperative), Err(Code::cudaErrorCooperativeLaunchTooLarge));
    }
}
