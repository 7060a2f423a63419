//! Batches of copies: several copies in one call, with attributes that apply to runs of them. The calls are in
//! `major12` and `major13`, whose arguments differ.
//!
//! CUDA promises no order within a batch, so one after the other is right. Trap: a source on the program's stack
//! (`DURING_CALL`) must have been read when the call returns.

use core::ffi::{c_int, c_void};

use super::copy::{Return, submit_copy};
use super::{open, stream_key};
use crate::ffi::In;
use crate::status::Code;
use crate::stream::StreamKey;
use crate::transfer::{Copy, Direction};

const INVALID: Code = Code::cudaErrorInvalidValue;

/// Runs of a batch's entries: one attribute applies from each first index on.
#[derive(Debug)]
pub struct Runs(Vec<usize>);

impl Runs {
    /// Reads as many first indices as there are runs, for a batch of `count` entries.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` for no runs or more than entries, and unless the first indices rise from 0 and are below
    /// `count`.
    pub fn read(first_indices: In<usize>, runs: usize, count: usize) -> Result<Runs, Code> {
        if runs > count {
            return Err(INVALID);
        }
        Runs::new(first_indices.all(runs)?, count)
    }

    fn new(first_indices: Vec<usize>, count: usize) -> Result<Runs, Code> {
        let rise = first_indices.is_sorted_by(|before, after| before < after);
        let inside =
            first_indices.first() == Some(&0) && first_indices.last().is_some_and(|last| *last < count);
        if rise && inside { Ok(Runs(first_indices)) } else { Err(INVALID) }
    }

    /// Index of the attribute that applies to an entry.
    pub fn of(&self, entry: usize) -> usize {
        self.0.partition_point(|first| *first <= entry) - 1
    }
}

/// `cudaMemcpyAttributes`; the locations and flags are hints without effect.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CopyAttributes {
    source_order: u32,
    hints: [[c_int; 2]; 2],
    flags: u32,
}

const _: () = assert!(size_of::<CopyAttributes>() == 24);

/// Copies of a batch: as many of each.
#[derive(Debug)]
pub struct Batch {
    pub to: Vec<*mut c_void>,
    pub from: Vec<*const c_void>,
    pub sizes: Vec<usize>,
}

impl Batch {
    /// Copies in the order of a stream, which must not be the legacy default stream; passes the index of a refused copy
    /// to `failed`.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue`, and those of a copy.
    pub fn copy(
        &self,
        attributes: &[CopyAttributes],
        runs: &Runs,
        stream: *mut c_void,
        failed: impl Fn(usize),
    ) -> Result<(), Code> {
        const IN_STREAM_ORDER: u32 = 1;
        const DURING_CALL: u32 = 2;
        const AT_ANY_TIME: u32 = 3;
        let (runtime, device) = open()?;
        let stream = stream_key(stream, device);
        if matches!(stream, StreamKey::Default { .. }) {
            return Err(INVALID);
        }
        for (index, bytes) in self.sizes.iter().enumerate() {
            let returns = match attributes[runs.of(index)].source_order {
                DURING_CALL => Return::AtEnd,
                IN_STREAM_ORDER | AT_ANY_TIME => Return::Early,
                _ => return Err(INVALID),
            };
            let (to, from) = (self.to[index] as u64, self.from[index] as u64);
            let copy = Copy::line(to, from, *bytes as u64, Direction::Default);
            submit_copy(runtime, stream, copy, returns).inspect_err(|_| failed(index))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_applies_until_the_next_begins() {
        let runs = Runs::new(vec![0, 6, 7], 10).unwrap();
        let found: Vec<usize> = (0..10).map(|entry| runs.of(entry)).collect();
        assert_eq!(found, [0, 0, 0, 0, 0, 0, 1, 2, 2, 2]);
    }

    #[test]
    fn first_indices_must_rise_from_0_below_the_count() {
        for wrong in [vec![], vec![1], vec![0, 0], vec![0, 2, 1], vec![0, 3]] {
            assert_eq!(Runs::new(wrong.clone(), 3).err(), Some(INVALID), "{wrong:?}");
        }
    }
}
