//! Emits `eager_buffer_dead` where a buffer's contents are not used again.
//!
//! Each buffer gets its own variable in the function, which is null until an allocation has succeeded. The program's
//! variable would not do: it may hold anything before the allocation, after a failed one, and once the program
//! overwrites it. Trap: the pointer in a place after a call may equal the one before it by chance, or because nothing
//! was allocated. Nothing is known of the buffer then, and nothing may be declared dead.

use std::collections::BTreeSet;

use eager_llvm::{Builder, LLVMIntPredicate, Module, Value};
use eager_tasks::contents::Capture;
use eager_tasks::deaths::Dead;
use eager_tasks::{Point, ReloadBase, Spot};

use super::builder_before;
use super::constants::Constants;
use super::tasks::{Writer, first_insertion_point};
use crate::read::program::Readings;

/// Sets variables whose pointers are returned to null before the allocations that fill them, so that a failed
/// allocation leaves null.
pub fn clear_returned<'m>(module: &'m Module<'m>, readings: &Readings<'m>, dead: &[&Dead]) {
    let constants = Constants::new(module);
    let captures: BTreeSet<Capture> = dead.iter().flat_map(|dead| dead.captures.iter().copied()).collect();
    for capture in captures {
        let Capture::Returned { function, made, variable, .. } = capture else { continue };
        let reading = &readings.functions[function.index()];
        let Some(variable) = reading.pointers[variable.index()] else { continue };
        let call = reading.instructions[made.block.index()][made.position as usize];
        let builder = builder_before(module, call);
        builder.store(constants.null(), variable);
    }
}

impl<'m> Writer<'_, 'm> {
    /// Emits the variables, the captures that fill them, and the calls.
    pub fn dead_buffers(&mut self, dead: &[&Dead]) {
        let variables: Vec<_> = dead.iter().filter_map(|_| self.new_variable()).collect();
        for (dead, &variable) in dead.iter().zip(&variables) {
            for &capture in &dead.captures {
                self.capture(capture, variable);
            }
        }
        for (dead, &variable) in dead.iter().zip(&variables) {
            for &spot in &dead.spots {
                self.declare_dead(spot, variable);
            }
        }
    }

    /// Adds a pointer variable to the function that starts as null.
    fn new_variable(&self) -> Option<Value<'m>> {
        let entry = *self.reading.blocks.first()?;
        let builder = builder_before(self.module, first_insertion_point(entry)?);
        let variable = builder.variable(self.constants.pointer(), "eager.buffer");
        builder.store(self.constants.null(), variable);
        Some(variable)
    }

    fn capture(&mut self, capture: Capture, variable: Value<'m>) {
        let call = self.instruction(capture.at());
        if call.is_must_tail() {
            // Nothing may follow a `musttail` call, so the variable stays null.
            return;
        }
        match capture {
            Capture::Allocation { at, into } => {
                let Some(into) = self.reading.pointers[into.index()] else { return };
                for place in self.behind(at) {
                    let builder = builder_before(self.module, place);
                    // A successful call has written a pointer to the address that it was given.
                    let found = builder.load(self.constants.pointer(), into);
                    let zero = call.ty().null();
                    self.store_if(&builder, LLVMIntPredicate::LLVMIntEQ, (call, zero), found, variable);
                }
            }
            Capture::Returned { at, .. } => {
                if !call.is_pointer() {
                    return;
                }
                for place in self.behind(at) {
                    let builder = builder_before(self.module, place);
                    builder.store(call, variable);
                }
            }
            Capture::Place { at, base, offset } => {
                let base = match base {
                    ReloadBase::Global(global) => Some(self.globals[global.index()]),
                    ReloadBase::Pointer(pointer) => self.reading.pointers[pointer.index()],
                };
                let Some(base) = base else { return };
                let before = self.load_place(&builder_before(self.module, call), base, offset);
                for place in self.behind(at) {
                    let builder = builder_before(self.module, place);
                    let now = self.load_place(&builder, base, offset);
                    let differs = LLVMIntPredicate::LLVMIntNE;
                    self.store_if(&builder, differs, (now, before), now, variable);
                }
            }
        }
    }

    /// Loads a pointer from a variable. The load is volatile, so that LLVM does not assume a value for memory that was
    /// never written.
    fn load_place(&self, builder: &Builder<'m>, base: Value<'m>, offset: i64) -> Value<'m> {
        let address = builder.offset(base, self.constants.u64(offset.cast_unsigned()));
        let load = builder.load(self.constants.pointer(), address);
        load.make_volatile();
        load.set_alignment(1);
        load
    }

    /// Stores `value`, or null if the comparison does not hold.
    fn store_if(
        &self,
        builder: &Builder<'m>,
        predicate: LLVMIntPredicate,
        (a, b): (Value<'m>, Value<'m>),
        value: Value<'m>,
        variable: Value<'m>,
    ) {
        let holds = builder.compare(predicate, a, b);
        builder.store(builder.select(holds, value, self.constants.null()), variable);
    }

    fn declare_dead(&mut self, spot: Spot, variable: Value<'m>) {
        let pointer = self.constants.pointer();
        let (ty, function) = self.constants.declare(eager_abi::BUFFER_DEAD, &[pointer]);
        for place in self.places(spot) {
            let builder = builder_before(self.module, place);
            builder.call_as(ty, function, &[builder.load(pointer, variable)]);
        }
    }

    /// Instructions directly behind an instruction; for an invoking call, those on the edge to its normal successor.
    fn behind(&mut self, at: Point) -> Vec<Value<'m>> {
        let block = &self.reading.instructions[at.block.index()];
        if let Some(&next) = block.get(at.position as usize + 1) {
            return vec![next];
        }
        let source = self.reading.blocks[at.block.index()];
        let normal = source.successors().first().copied();
        let to = normal.and_then(|normal| self.reading.blocks.iter().position(|&block| block == normal));
        let to = to.map(eager_tasks::BlockId::from_index);
        to.map(|to| self.places(Spot::OnEdge { from: at.block, to })).unwrap_or_default()
    }
}
