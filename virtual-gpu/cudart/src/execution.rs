//! Carries commands of a stream out, and checks copies and fills at the call: what they do to the runtime's state.
//!
//! Trap: work runs on the stream's thread, later than its call. What the call has checked may have changed since, so it
//! is looked up again.

use eager_exec::strict::Problem;
use eager_exec::{Fault, LaunchFailure};

use crate::command::Command;
use crate::kernel::{Launch, LaunchContext, copies};
use crate::log::log_line;
use crate::names::readable;
use crate::runtime::Runtime;
use crate::status::Code;
use crate::transfer::{Copy, Extent, Fill, Pageable, Region, copy_ops, fill_ops};

impl Command {
    /// Runs the command and waits for its modelled end; returns the modelled duration in nanoseconds.
    ///
    /// # Errors
    /// The code that the program gets at its next call.
    pub fn run(&self, runtime: &Runtime) -> Result<u64, Code> {
        match self {
            Command::Nothing => Ok(0),
            Command::Kernel(launch) => run_kernel(runtime, launch),
            Command::Copy(copy) => copy.run(runtime),
            Command::Fill(fill) => fill.run(runtime),
            Command::Release(address) => runtime.release(*address).map(|()| 0),
            Command::Prefetch(device, op) => runtime.prefetch(*device, op.clone()),
            Command::Discard(discarded) => runtime.discard(*discarded).map(|()| 0),
            Command::Host(host) => {
                host.call();
                Ok(0)
            }
            Command::Callback(callback) => {
                callback.call(Code::cudaSuccess);
                Ok(0)
            }
        }
    }
}

/// Runs the kernel on the CPU, then in the model.
fn run_kernel(runtime: &Runtime, launch: &Launch) -> Result<u64, Code> {
    let name = launch.kernel.name;
    let op = {
        let mut compute = runtime.compute.lock();
        copies::show(launch.device)?;
        let modelled = runtime.memory.lock().table.modelled();
        let strict = runtime.strict_mode.as_ref();
        let books = strict.and_then(|strict| strict.before_launch(&launch.kernel, &runtime.memory));
        let mut profile = runtime.profile.as_ref().map(|profile| profile.lock());
        let objects = runtime.images.now();
        let ran = compute.run(
            launch,
            &modelled,
            profile.as_deref_mut(),
            LaunchContext { objects: &objects, strict: books, memory: &runtime.memory },
        );
        let races = strict.map_or(Ok(()), |strict| strict.after_launch(name));
        let op = ran.map_err(|failure| {
            if let (Some(strict), LaunchFailure::Strict(_) | LaunchFailure::Parted(_)) = (strict, &failure) {
                strict.count_failed_launch();
            }
            log_line(format_args!("kernel {}: {failure}", readable(name)));
            code_of(&failure)
        })?;
        races?;
        op
    };
    let device_ns = runtime.run_op(launch.device, op)?;
    if let Some(profile) = &runtime.profile {
        profile.lock().took(name, device_ns);
    }
    Ok(device_ns)
}

fn code_of(failure: &LaunchFailure) -> Code {
    match failure {
        LaunchFailure::Fault(Fault::Address(_) | Fault::NoAddress) => Code::cudaErrorIllegalAddress,
        // On a GPU a stuck kernel would run until the watchdog ends it.
        LaunchFailure::Fault(Fault::Stuck(_) | Fault::TimeOut) => Code::cudaErrorLaunchTimeout,
        LaunchFailure::Assertion => Code::cudaErrorAssert,
        LaunchFailure::Fault(Fault::Division) | LaunchFailure::Trap => Code::cudaErrorLaunchFailure,
        // A GPU may hang, go on, or give wrong results.
        LaunchFailure::Parted(_) => Code::cudaErrorLaunchFailure,
        // A GPU reports the same for accesses outside a surface; for a destroyed object it reports less or nothing.
        LaunchFailure::Image(_) => Code::cudaErrorIllegalAddress,
        LaunchFailure::Strict(finding) => match finding.problem {
            Problem::Misaligned(_) => Code::cudaErrorMisalignedAddress,
            _ => Code::cudaErrorIllegalAddress,
        },
    }
}

impl Copy {
    /// Checks the copy. Returns whether it involves host memory that the program may reuse as soon as the call returns.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` when a pointer contradicts the direction, or a block leaves its allocation.
    pub fn check(&self, runtime: &Runtime) -> Result<Pageable, Code> {
        if self.to.address == 0 || self.from.address == 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        let (to, from) = (runtime.place(self.to, self.extent)?, runtime.place(self.from, self.extent)?);
        copy_ops(to, from, self.direction)?;
        Ok(Pageable(to.is_pageable() || from.is_pageable()))
    }

    /// Moves the bytes, then waits for the modelled end; returns the modelled duration in nanoseconds.
    ///
    /// # Errors
    /// Those of [`Copy::check`], if the program has freed memory that the copy needs; those of the server.
    pub fn run(&self, runtime: &Runtime) -> Result<u64, Code> {
        let (to, from) = (runtime.place(self.to, self.extent)?, runtime.place(self.from, self.extent)?);
        let ops = copy_ops(to, from, self.direction)?;
        self.move_bytes();
        note_written(runtime, self.to, self.extent);
        runtime.run_ops(ops)
    }

    fn move_bytes(&self) {
        let bytes = |number: u64| usize::try_from(number).expect("checked to lie in the address space");
        let move_line = |to: u64, from: u64, count: u64| {
            // SAFETY: an end on a device lies in a live allocation (looked up just before, and not freed while its
            // stream has work); for host memory the program is responsible, as CUDA demands. `copy` allows overlap.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes(count)) };
        };
        if self.to.is_dense(self.extent) && self.from.is_dense(self.extent) {
            move_line(self.to.address, self.from.address, self.extent.bytes().expect("checked at the call"));
            return;
        }
        for (to, from) in self.to.rows(self.extent).zip(self.from.rows(self.extent)) {
            move_line(to, from, self.extent.width);
        }
    }
}

impl Fill {
    /// # Errors
    /// `cudaErrorInvalidValue` for pageable memory, or a block that leaves its allocation.
    pub fn check(&self, runtime: &Runtime) -> Result<(), Code> {
        fill_ops(runtime.place(self.to, self.extent)?).map(drop)
    }

    /// Writes the bytes, then waits for the modelled end; returns the modelled duration in nanoseconds.
    ///
    /// # Errors
    /// Those of [`Fill::check`], if the program has freed the memory; those of the server.
    pub fn run(&self, runtime: &Runtime) -> Result<u64, Code> {
        let ops = fill_ops(runtime.place(self.to, self.extent)?)?;
        let element = self.value.to_le_bytes();
        let element = &element[..usize::from(self.element_bytes)];
        for row in self.to.rows(self.extent) {
            let width = usize::try_from(self.extent.width).expect("checked to lie in the address space");
            // SAFETY: the row lies in a live allocation (looked up just before, and not freed while its stream has
            // work).
            let row = unsafe { std::slice::from_raw_parts_mut(row as *mut u8, width) };
            match element {
                [byte] => row.fill(*byte),
                _ => row.chunks_exact_mut(element.len()).for_each(|cell| cell.copy_from_slice(element)),
            }
        }
        note_written(runtime, self.to, self.extent);
        runtime.run_ops(ops)
    }
}

/// Marks the bytes as initialised in strict mode.
fn note_written(runtime: &Runtime, to: Region, extent: Extent) {
    if let Some(strict) = &runtime.strict_mode {
        strict.wrote(&runtime.memory, to, extent);
    }
}
