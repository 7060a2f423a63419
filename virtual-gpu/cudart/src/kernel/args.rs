//! Argument values of a launch, copied at the call, because the program may change or free them afterwards.
//!
//! Trap: a pointer may also be inside a structure argument, so every aligned 8-byte word must be searched for device
//! addresses.

use core::ffi::c_void;
use std::sync::OnceLock;

use eager_exec::abi::ParamDesc;

const WORD_BYTES: usize = size_of::<u128>();

/// Copied argument values.
#[derive(Debug)]
pub struct CapturedArgs {
    /// Values, each at a multiple of 16 bytes, the largest alignment of a kernel parameter.
    storage: Vec<u128>,
    /// Index into `storage` and size in bytes, per argument.
    places: Vec<(usize, usize)>,
    /// Pointers to the values; made when the program queries them.
    kept: OnceLock<Vec<usize>>,
}

impl CapturedArgs {
    /// Copies one value per parameter.
    ///
    /// # Safety
    /// `args` points to one pointer per entry of `params`, each to a readable value of that size.
    pub unsafe fn capture(params: &[ParamDesc], args: *const *const c_void) -> CapturedArgs {
        let mut captured = CapturedArgs { storage: Vec::new(), places: Vec::new(), kept: OnceLock::new() };
        for (index, param) in params.iter().enumerate() {
            let (start, bytes) = (captured.storage.len(), param.size as usize);
            captured.storage.resize(start + bytes.div_ceil(WORD_BYTES), 0);
            // SAFETY: the caller guarantees `args[index]` and its size; the storage was just made large enough.
            unsafe {
                let value = (*args.add(index)).cast::<u8>();
                std::ptr::copy_nonoverlapping(
                    value,
                    captured.storage[start..].as_mut_ptr().cast::<u8>(),
                    bytes,
                );
            }
            captured.places.push((start, bytes));
        }
        captured
    }

    /// Arguments for the executor: one pointer per argument, valid as long as `self`.
    pub fn pointers(&self) -> Vec<*const c_void> {
        self.places.iter().map(|&(start, _)| self.storage[start..].as_ptr().cast()).collect()
    }

    /// Addresses of the values, one per argument, kept as long as `self`.
    pub fn kept_pointers(&self) -> &[usize] {
        self.kept.get_or_init(|| self.pointers().into_iter().map(|value| value as usize).collect())
    }

    /// Every word in the arguments that may be an address.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.words_by_argument().flatten()
    }

    /// Every word in the arguments that may be an address, grouped by argument.
    pub fn words_by_argument(&self) -> impl Iterator<Item = impl Iterator<Item = u64> + '_> + '_ {
        self.places.iter().map(|&(start, bytes)| {
            let halves = self.storage[start..].iter().flat_map(|&word| [word as u64, (word >> 64) as u64]);
            halves.take(bytes / size_of::<u64>())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_copied_and_addresses_found_in_structures() {
        let (number, mut pair) = (7_u32, [0x1234_u64, 0x5678, 0x9abc]);
        let params = [ParamDesc { size: 4, align: 4 }, ParamDesc { size: 24, align: 8 }];
        let args = [(&raw const number).cast::<c_void>(), (&raw const pair).cast()];
        // SAFETY: both pointers lead to values of the given sizes.
        let captured = unsafe { CapturedArgs::capture(&params, args.as_ptr()) };
        pair[0] = 0;
        assert_eq!(captured.words().collect::<Vec<_>>(), [0x1234, 0x5678, 0x9abc]);
        let pointers = captured.pointers();
        // SAFETY: the first argument was captured from a `u32`.
        assert_eq!(unsafe { *pointers[0].cast::<u32>() }, 7);
        assert_eq!(pair[0], 0);
    }
}
