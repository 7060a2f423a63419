//! Places a module's device variables in two blocks of whole pages, which hold nothing else: those with initial values,
//! and those that start with zeros. With several devices the runtime maps each device's copy there in turn.
//!
//! Trap: this must come after the optimiser, to which parts of one block could be each other's neighbours, while
//! separate variables never alias.

use crate::driver::MEMORY;
use crate::import::Variable;
use crate::llvm::{Context, Machine, Module, Value, constant_at};

/// Unit in which memory is mapped on x86-64.
const PAGE_BYTES: u64 = 4096;

/// A block of variables in the making.
#[derive(Default)]
struct Layout<'m> {
    /// Initial values of the variables and of the gaps between them, without gaps.
    parts: Vec<Value<'m>>,
    bytes: u64,
    places: Vec<(Value<'m>, u64)>,
    alignment: u32,
}

impl<'m> Layout<'m> {
    fn pad(&mut self, context: Context<'m>, alignment: u64) {
        let gap = self.bytes.next_multiple_of(alignment) - self.bytes;
        if gap > 0 {
            self.parts.push(context.int_type(8).array(gap).null());
            self.bytes += gap;
        }
    }

    fn add(&mut self, context: Context<'m>, machine: &Machine, variable: Value<'m>, initial: Value<'m>) {
        let ty = variable.value_type();
        let alignment = variable.alignment().max(machine.align_of(ty)).max(1);
        self.alignment = self.alignment.max(alignment);
        self.pad(context, alignment.into());
        self.places.push((variable, self.bytes));
        self.parts.push(initial);
        self.bytes += machine.size_of(ty);
    }

    /// Makes the block and redirects every use of the variables. Returns its address and size; null and 0 if there are
    /// no variables.
    fn make(mut self, context: Context<'m>, module: &'m Module, name: &str, zero: bool) -> [Value<'m>; 2] {
        let number = |bytes| context.int_type(64).constant(bytes);
        if self.places.is_empty() {
            return [context.ptr_type(0).null(), number(0)];
        }
        self.pad(context, PAGE_BYTES);
        // A variable without a size still needs an address.
        self.bytes = self.bytes.max(PAGE_BYTES);
        let initial = match zero {
            true => context.int_type(8).array(self.bytes).null(),
            false => context.packed(&self.parts),
        };
        let block = module.add_global(name, initial.ty());
        block.set_initializer(initial);
        block.set_alignment(self.alignment.max(PAGE_BYTES as u32));
        block.make_internal();
        for (variable, offset) in self.places {
            variable.replace_uses_with(constant_at(block, context.int_type(8), number(offset)));
            variable.delete();
        }
        [block, number(self.bytes)]
    }
}

/// Moves the variables into blocks, and writes the blocks into the kernel table's list.
pub(crate) fn place(context: Context, module: &Module, machine: &Machine, variables: &[Variable]) {
    let (mut initialised, mut zero) = (Layout::default(), Layout::default());
    for variable in variables.iter().filter_map(|variable| module.global(&variable.symbol)) {
        let Some(initial) = variable.initializer() else { continue };
        let layout = if initial.is_zero() { &mut zero } else { &mut initialised };
        layout.add(context, machine, variable, initial);
    }
    let Some(list) = module.global(MEMORY) else { return };
    let [start, bytes] = initialised.make(context, module, "eager.initialised", false);
    let [zero_start, zero_bytes] = zero.make(context, module, "eager.zeroed", true);
    list.set_initializer(context.packed(&[start, bytes, zero_start, zero_bytes]));
}
