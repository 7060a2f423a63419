//! Whether a launch is within CUDA's limits. Pure.
//!
//! Limits: CUDA C++ programming guide, "Technical Specifications per Compute Capability" (specification S-514), equal for all
//! capabilities from 5.0 on. Trap: too much shared memory is `cudaErrorInvalidValue`, a bad shape
//! `cudaErrorInvalidConfiguration`.

use crate::status::Code;

/// Threads of a block, in all and per dimension.
pub const THREADS_PER_BLOCK_MAX: u32 = 1024;
pub const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];
pub const GRID_MAX: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Shared memory of a block, static and dynamic, without opting in for more.
pub const SHARED_BYTES_PER_BLOCK: u32 = 48 << 10;

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

    /// Checks the shape for a kernel of at most `threads_max` threads with `static_shared_bytes`, allowed
    /// `shared_bytes_max` in all.
    ///
    /// # Errors
    /// What the CUDA runtime would say.
    pub fn check(
        &self,
        threads_max: u32,
        static_shared_bytes: u32,
        shared_bytes_max: u32,
    ) -> Result<(), Code> {
        let within =
            |sizes: [u32; 3], limits: [u32; 3]| sizes.iter().zip(limits).all(|(&n, max)| 0 < n && n <= max);
        if !within(self.block, BLOCK_MAX)
            || !within(self.grid, GRID_MAX)
            || self.threads_per_block() > u64::from(threads_max)
        {
            return Err(Code::cudaErrorInvalidConfiguration);
        }
        match self.dynamic_shared_bytes.checked_add(u64::from(static_shared_bytes)) {
            Some(bytes) if bytes <= u64::from(shared_bytes_max) => Ok(()),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(grid: [u32; 3], block: [u32; 3], dynamic_shared_bytes: u64) -> Result<(), Code> {
        Shape { grid, block, dynamic_shared_bytes }.check(THREADS_PER_BLOCK_MAX, 1024, SHARED_BYTES_PER_BLOCK)
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
        for (grid, block) in bad_shapes {
            assert_eq!(check(grid, block, 0), Err(Code::cudaErrorInvalidConfiguration), "{grid:?} {block:?}");
        }
        let promised = Shape { grid: [1, 1, 1], block: [129, 1, 1], dynamic_shared_bytes: 0 };
        let within = |threads_max| promised.check(threads_max, 0, SHARED_BYTES_PER_BLOCK);
        assert_eq!((within(129), within(128)), (Ok(()), Err(Code::cudaErrorInvalidConfiguration)));
        assert_eq!(check([1, 1, 1], [1, 1, 1], (47 << 10) + 1), Err(Code::cudaErrorInvalidValue));
        assert_eq!(check([1, 1, 1], [1, 1, 1], u64::MAX), Err(Code::cudaErrorInvalidValue));
    }
}
