//! Pointers that a program in C passes for results and structures.
//!
//! They have no constructor: values of these types come from C only, where CUDA's documentation obliges the caller to
//! pass null or a pointer valid for the type. Trap: C may put any number into an enumeration, so a structure read
//! through [`In`] must be made of plain numbers and addresses.

use core::ffi::c_void;

use crate::status::Code;

/// Where the caller wants a result.
#[derive(Debug)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

// By hand, because a derived one would ask the same of `T`.
impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// # Errors
    /// `cudaErrorInvalidValue` for null.
    pub fn put(self, value: T) -> Result<(), Code> {
        self.check()?;
        self.put_if_wanted(value);
        Ok(())
    }

    /// For results that the caller may leave out by passing null.
    pub fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so the caller in C vouches for it (see the module's head).
            unsafe { self.0.write(value) };
        }
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for null, before anything is done that would have to be undone.
    pub fn check(self) -> Result<(), Code> {
        if self.0.is_null() { Err(Code::cudaErrorInvalidValue) } else { Ok(()) }
    }

    /// For pointers to nothing in particular, once another argument has said to what.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// The value that is there, for arguments that go both ways.
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

    /// Fills an array of at most `room` elements.
    pub fn put_all(self, values: impl Iterator<Item = T>, room: usize) {
        for (index, value) in values.take(room).enumerate() {
            // SAFETY: CUDA obliges the caller to pass an array of `room` elements; null goes with no room, which is
            // checked by whoever calls this.
            unsafe { self.0.add(index).write(value) };
        }
    }
}

/// A structure or array that the caller passes by address.
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
    /// For pointers to nothing in particular, once another argument has said to what.
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

    /// An array of `count` elements.
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
        // SAFETY: not null, so the caller in C vouches for it and for the count (see the module's head).
        Ok((0..count).map(|index| unsafe { self.0.add(index).read() }).collect())
    }
}

/// The addresses of a kernel's argument values.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct KernelArgs(*const *const c_void);

impl KernelArgs {
    /// Of a launch that is only asked about.
    pub fn none() -> KernelArgs {
        KernelArgs(core::ptr::null())
    }

    /// Gives addresses of values to the program.
    pub fn to(addresses: &[usize]) -> KernelArgs {
        KernelArgs(addresses.as_ptr().cast())
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// One pointer for each parameter of the kernel, as the caller in C vouches.
    pub fn pointers(self) -> *const *const c_void {
        self.0
    }
}
