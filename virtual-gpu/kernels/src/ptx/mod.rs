//! Inline PTX: each assembly statement becomes a function in LLVM IR, which is inlined in its place.
//!
//! Registers and operands are stack slots, which optimisation turns into values. Trap: this must run before any
//! analysis of the kernel, so that calls in the function (`llvm.nvvm.*`) are handled like any other call. A statement
//! with an instruction or a form of it that the tables lack ([`forms`]) stays as it is, and the check reports it.

mod carry;
mod compare;
mod convert;
mod dots;
mod emit;
mod fields;
mod float;
mod forms;
mod fp8;
mod frame;
mod images;
mod instructions;
mod memory;
mod parse;
mod products;
mod scopes;
mod tensor;
mod threads;
mod types;
mod video;

pub(crate) use carry::{describe_unset as describe_unset_carry, give_slots as give_carry_slots};
pub(crate) use forms::describe_refused;
pub(crate) use images::note_place;
pub(crate) use memory::{SHARED_ADDRESS, atomic_text};
pub(crate) use scopes::give_slots as give_register_slots;
pub(crate) use tensor::{FUNCTION as TENSOR, replace_intrinsics as replace_tensor_intrinsics};

use crate::llvm::{Context, Module, Opcode, Type};

/// Replaces every assembly statement of the module that can be translated.
///
/// # Errors
/// LLVM rejects the translation: a defect of the tables.
pub(crate) fn replace_assembly(context: Context, module: &Module) -> Result<(), String> {
    let mut made: Vec<Made> = Vec::new();
    let mut registers = 0;
    for function in module.functions().into_iter().filter(|function| !function.is_declaration()) {
        let shared = scopes::shared(function, &mut registers);
        for call in function.instructions() {
            if call.opcode() != Some(Opcode::LLVMCall) {
                continue;
            }
            let Some(assembly) = call.called_value().assembly() else { continue };
            let constraints = call.called_value().assembly_constraints();
            let assembly = frame::with_constants(&assembly, &constraints, &call.call_arguments());
            let ty = call.called_function_type();
            let shared = shared.get(&call).cloned().unwrap_or_default();
            let is_known = |m: &&Made| {
                (&m.assembly, &m.constraints, m.ty, &m.shared) == (&assembly, &constraints, ty, &shared)
            };
            let known = made.iter().position(|m| is_known(&m) && !m.has_memory);
            let index = match known {
                Some(index) => index,
                None => {
                    let name = format!("eager_ptx_{}", made.len());
                    let Some(text) = frame::function(&name, &assembly, &constraints, ty, &shared) else {
                        continue;
                    };
                    let library = context.parse_text(&text).map_err(|e| format!("`{assembly}`: {e}"))?;
                    library.set_layout_of(module);
                    module.link(library).map_err(|()| format!("`{assembly}`: {}", context.messages()))?;
                    made.push(Made::new(name, assembly, constraints, ty, shared, &text));
                    made.len() - 1
                }
            };
            let Made { name, touches_memory, .. } = &made[index];
            let callee = module.function(name).ok_or("a translated assembly statement is missing")?;
            if callee.value_type() == ty {
                call.set_called_value(callee);
                if *touches_memory {
                    ["memory", "nounwind"].iter().for_each(|name| call.remove_call_attribute(name));
                }
            }
        }
    }
    Ok(())
}

/// A statement that has been translated. Its type counts too: a 32-bit register may hold a `float` in one statement and
/// an integer in another.
struct Made<'m> {
    name: String,
    assembly: String,
    constraints: String,
    ty: Type<'m>,
    /// Two statements of the same text may use registers of different scopes.
    shared: scopes::Shared,
    /// The translation has effects that the program's compiler did not know of: it reads images, the carry flag or
    /// registers of other statements.
    touches_memory: bool,
    /// The statement declares shared variables, which another statement of the same text does not share with it.
    has_memory: bool,
}

impl<'m> Made<'m> {
    fn new(
        name: String,
        assembly: String,
        constraints: String,
        ty: Type<'m>,
        shared: scopes::Shared,
        text: &str,
    ) -> Made<'m> {
        let touches_memory = images::are_in(&assembly) || carry::is_in(text) || !shared.is_empty();
        let has_memory = text.starts_with('@');
        Made { name, assembly, constraints, ty, shared, touches_memory, has_memory }
    }
}
