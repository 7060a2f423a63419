//! The form in which calls of CUDA are listed: a name and the sizes of the arguments. Tests compare them with CUDA's headers.

/// A call of CUDA that the shim hooks or makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    /// Name of the CUDA call.
    pub name: &'static str,
    /// Size of each argument in bytes.
    pub argument_bytes: &'static [usize],
}

/// The sizes as cudarc declares them.
#[cfg(test)]
pub(crate) mod declared {
    macro_rules! placeholder {
        ($argument:ident) => {
            _
        };
    }
    pub(crate) use placeholder;

    /// Argument sizes of a function type.
    pub(crate) trait Signature {
        const ARGUMENT_BYTES: &'static [usize];
    }

    macro_rules! signatures {
        ($(($($argument:ident),*))*) => {
            $(impl<R, $($argument),*> Signature for unsafe fn($($argument),*) -> R {
                const ARGUMENT_BYTES: &'static [usize] = &[$(size_of::<$argument>()),*];
            })*
        };
    }
    signatures! {
        () (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) (A, B, C, D, E, F, G)
        (A, B, C, D, E, F, G, H) (A, B, C, D, E, F, G, H, I)
    }

    pub(crate) fn sizes<F: Signature>(_: F) -> &'static [usize] {
        F::ARGUMENT_BYTES
    }
}
