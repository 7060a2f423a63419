//! Pointers that a C program passes for results and structures.
//!
//! They have no constructor: values of these types come from C only, where CUDA's documentation obliges the caller to
//! pass null or a pointer valid for the type. Trap: C may store any number in an enumeration, so a structure read
//! through [`In`] must consist of plain numbers and addresses.

use core::ffi::c_void;

use crate::status::Code;

/// Pointer to the caller's variable for a result.
#[derive(Debug)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

// Not derived, because a derived implementation would require `T: Clone`.
impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// No variable, for an optional result that nobody wants.
    #[cfg_attr(not(cuda_12), allow(dead_code, reason = "only older forms of calls lack results"))]
    pub fn none() -> Out<T> {
        Out(core::ptr::null_mut())
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for null.
    pub fn put(self, value: T) -> Result<(), Code> {
        self.check()?;
        self.put_if_wanted(value);
        Ok(())
    }

    /// Writes the value unless the pointer is null, for optional results.
    pub fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so the C caller guarantees its validity (see the module's header).
            unsafe { self.0.write(value) };
        }
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for null, before any effect that would have to be undone.
    pub fn check(self) -> Result<(), Code> {
        if self.0.is_null() { Err(Code::cudaErrorInvalidValue) } else { Ok(()) }
    }

    /// Casts a `void` pointer, once another argument has determined its type.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Reads the value, for arguments that are both input and output.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` for null.
    pub fn given(self) -> Result<T, Code>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get()
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Fills an array with at most `room` elements.
    pub fn put_all(self, values: impl Iterator<Item = T>, room: usize) {
        for (index, value) in values.take(room).enumerate() {
            // SAFETY: CUDA obliges the caller to pass an array of `room` elements; null comes with `room` 0, which
            // every caller of this function checks.
            unsafe { self.0.add(index).write(value) };
        }
    }
}

/// Pointer to a structure or array of the caller.
#[derive(Debug)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

impl<T> In<T> {
    /// Casts a `void` pointer, once another argument has determined its type.
    pub fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T: Copy> In<T> {
    /// # Errors
    /// `cudaErrorInvalidValue` for null.
    pub fn get(self) -> Result<T, Code> {
        self.all(1).map(|values| values[0])
    }

    /// Copies an array of `count` elements.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` for null, unless `count` is 0.
    pub fn all(self, count: usize) -> Result<Vec<T>, Code> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Code::cudaErrorInvalidValue);
        }
        // SAFETY: not null, so the C caller guarantees its validity and the count (see the module's header).
        Ok((0..count).map(|index| unsafe { self.0.add(index).read() }).collect())
    }
}

/// Addresses of a kernel's argument values.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct KernelArgs(*const *const c_void);

impl KernelArgs {
    /// No arguments, for a launch that is only queried.
    pub fn none() -> KernelArgs {
        KernelArgs(core::ptr::null())
    }

    /// Arguments at the given addresses, to be passed to the program.
    pub fn to(addresses: &[usize]) -> KernelArgs {
        KernelArgs(addresses.as_ptr().cast())
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Pointers to one value per parameter of the kernel; the C caller guarantees their validity.
    pub fn pointers(self) -> *const *const c_void {
        self.0
    }
}
