//! Finds the calls through which a C++ exception may leave a function without passing any of its code.
//!
//! At this point of the pipeline clang has not yet inferred which functions never throw, so the module's own functions
//! are examined here. A C library function that clang does not mark is recognised by its name.

use std::collections::BTreeSet;

use eager_llvm::{Block, Module, Opcode, Value};

use super::calls::Wrappers;
use super::{launch, library};

/// Functions of the C++ runtime that throw; its other functions do not.
const THROWING: &[&str] = &[
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_throw_bad_array_new_length",
];

/// Which functions of a module let no exception out.
#[derive(Debug)]
pub struct Throws<'a, 'm> {
    module: &'m Module<'m>,
    wrappers: &'a Wrappers<'m>,
    /// Defined functions that may throw.
    throwing: BTreeSet<Value<'m>>,
}

impl<'a, 'm> Throws<'a, 'm> {
    /// Examines every function of a module.
    #[must_use]
    pub fn find(module: &'m Module<'m>, wrappers: &'a Wrappers<'m>) -> Self {
        let mut found = Self { module, wrappers, throwing: BTreeSet::new() };
        let defined: Vec<_> =
            module.functions().into_iter().filter(|f| !f.is_declaration() && !is_nounwind(*f)).collect();
        loop {
            let throws = |function: &&Value<'m>| {
                let mut instructions = function.blocks().into_iter().flat_map(Block::instructions);
                instructions
                    .any(|i| i.instruction_opcode() == Some(Opcode::LLVMResume) || found.may_leave_by(i))
            };
            let more: Vec<_> =
                defined.iter().filter(|f| !found.throwing.contains(f)).filter(throws).copied().collect();
            if more.is_empty() {
                return found;
            }
            found.throwing.extend(more);
        }
    }

    /// Whether an exception may leave the function through this instruction: a plain call that may throw.
    #[must_use]
    pub fn may_leave_by(&self, instruction: Value<'m>) -> bool {
        instruction.instruction_opcode() == Some(Opcode::LLVMCall)
            && !is_nounwind(instruction)
            && !instruction.is_must_tail()
            && !launch::is_launch(instruction)
            && self.wrappers.runtime_call(instruction).is_none()
            && instruction.call_target().is_some_and(|callee| self.may_throw(callee))
    }

    fn may_throw(&self, callee: Value<'m>) -> bool {
        if !callee.is_function() {
            return !callee.is_inline_assembly();
        }
        let name = callee.name();
        if is_nounwind(callee) || name.starts_with("llvm.") || name.starts_with("__cuda") {
            return false;
        }
        if !callee.is_declaration() {
            return self.throwing.contains(&callee);
        }
        if name.starts_with("__cxa_") {
            return THROWING.contains(&name.as_str());
        }
        name.starts_with("_Z") || !library::is_library(self.module, callee)
    }
}

/// Whether a function or a call is marked `nounwind`.
#[must_use]
pub fn is_nounwind(value: Value<'_>) -> bool {
    const NOUNWIND: &str = "nounwind";
    if value.is_function() {
        value.attribute(NOUNWIND).is_some()
    } else {
        value.call_target().is_some() && value.has_call_attribute(NOUNWIND)
    }
}
