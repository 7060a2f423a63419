//! Instructions: what their kinds mean.

use inkwell::values::{BasicValueEnum, InstructionValue};

use crate::raw::{Type, Value};
use crate::{LLVMIntPredicate, Opcode};

impl<'m> Value<'m> {
    #[track_caller]
    pub(crate) fn instruction(self) -> InstructionValue<'m> {
        self.as_instruction().expect("an instruction")
    }

    /// The value as one of inkwell's, which has no tokens, metadata and blocks.
    #[track_caller]
    pub(crate) fn basic(self) -> BasicValueEnum<'m> {
        self.as_basic().unwrap_or_else(|| panic!("a value of type {} has no bytes", self.ty().to_text()))
    }

    /// The function that a call names; `None` if it calls through a pointer or is inline assembly.
    #[must_use]
    #[track_caller]
    pub fn callee(self) -> Option<Value<'m>> {
        let called = self.called_value();
        called.is_function().then_some(called)
    }

    #[must_use]
    #[track_caller]
    pub fn called_function_type(self) -> Type<'m> {
        Type::of(self.as_call().expect("a call").get_called_fn_type())
    }

    /// Makes a call use another function of the same type.
    #[track_caller]
    pub fn set_called_value(self, function: Value<'m>) {
        assert!(self.is_call_site(), "not a call");
        // The called value is a call's last operand.
        self.set_operand(self.operand_count() - 1, function);
    }

    /// The text of inline assembly, for a called value.
    #[must_use]
    pub fn assembly(self) -> Option<String> {
        self.assembly_texts().map(|[text, _]| text)
    }

    /// The constraints of inline assembly, for a called value; empty for other values.
    #[must_use]
    pub fn assembly_constraints(self) -> String {
        self.assembly_texts().map(|[_, constraints]| constraints).unwrap_or_default()
    }

    /// The next instruction in its block; not for a terminator.
    #[must_use]
    #[track_caller]
    pub fn next_instruction(self) -> Value<'m> {
        self.instruction().get_next_instruction().map(Value::of).expect("an instruction behind this one")
    }

    /// Predicate of an integer comparison.
    #[must_use]
    #[track_caller]
    pub fn predicate(self) -> LLVMIntPredicate {
        self.instruction().get_icmp_predicate().expect("an integer comparison").into()
    }

    /// True for an `or` whose operands have no bit in common, so that it equals an addition.
    #[must_use]
    pub fn is_disjoint(self) -> bool {
        self.as_instruction().is_some_and(|i| i.get_disjoint_flag() == Ok(true))
    }

    /// True for a zero extension of a number that is known not to have the highest bit set.
    #[must_use]
    pub fn is_never_negative(self) -> bool {
        self.as_instruction().is_some_and(|i| i.get_non_negative_flag() == Ok(true))
    }

    /// Removes flags that can make an instruction's result poison: no wrap, exact, non-negative and so on.
    pub fn drop_poison_flags(self) {
        use crate::Opcode::*;
        let Some(i) = self.as_instruction() else { return };
        let done = match self.opcode() {
            Some(LLVMAdd | LLVMSub | LLVMMul | LLVMShl) => {
                i.set_no_unsigned_wrap_flag(false).and_then(|()| i.set_no_signed_wrap_flag(false))
            }
            Some(LLVMUDiv | LLVMSDiv | LLVMLShr | LLVMAShr) => i.set_exact_flag(false),
            Some(LLVMZExt) => i.set_non_negative_flag(false),
            Some(LLVMOr) => i.set_disjoint_flag(false),
            Some(LLVMGetElementPtr) => {
                self.clear_no_wrap_of_gep();
                Ok(())
            }
            _ => Ok(()),
        };
        done.expect("the flag is one of this kind of instruction");
    }

    /// True for a volatile access to memory.
    #[must_use]
    pub fn is_volatile(self) -> bool {
        self.as_instruction().is_some_and(|i| i.get_volatile() == Ok(true))
    }

    #[track_caller]
    pub fn make_volatile(self) {
        self.instruction().set_volatile(true).expect("an access to memory");
    }

    /// True for an atomic load or store.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        let ordering = self.as_instruction().map(|i| i.get_atomic_ordering());
        matches!(ordering, Some(Ok(ordering)) if ordering != inkwell::AtomicOrdering::NotAtomic)
    }

    /// True for an atomic read-modify-write that leaves the value unchanged, or stores a value that does not depend on
    /// it.
    #[must_use]
    pub fn ignores_or_keeps_old(self) -> bool {
        use crate::sys::LLVMAtomicRMWBinOp::*;
        match self.atomic_operation() {
            Some(LLVMAtomicRMWBinOpXchg) => true,
            Some(
                LLVMAtomicRMWBinOpAdd
                | LLVMAtomicRMWBinOpSub
                | LLVMAtomicRMWBinOpOr
                | LLVMAtomicRMWBinOpXor
                | LLVMAtomicRMWBinOpUMax,
            ) => self.operand(1).constant_integer() == Some(0),
            _ => false,
        }
    }

    /// Type that a stack slot holds.
    #[must_use]
    #[track_caller]
    pub fn allocated_type(self) -> Type<'m> {
        Type::of(self.instruction().get_allocated_type().expect("a stack slot"))
    }

    /// Indices of an `extractvalue` or `insertvalue`; none for other values.
    #[must_use]
    pub fn field_indices(self) -> Vec<u32> {
        match self.instruction_opcode() {
            Some(Opcode::LLVMExtractValue | Opcode::LLVMInsertValue) => self.instruction().get_indices(),
            _ => Vec::new(),
        }
    }
}

/// Questions that have an answer for every value.
impl<'m> Value<'m> {
    /// What a call or invoke calls; `None` for other values.
    #[must_use]
    pub fn call_target(self) -> Option<Value<'m>> {
        match self.instruction_opcode() {
            Some(Opcode::LLVMCall | Opcode::LLVMInvoke) => Some(self.called_value()),
            _ => None,
        }
    }

    /// Name of the function that a call or invoke names.
    #[must_use]
    pub fn callee_name(self) -> Option<String> {
        self.call_target().filter(|callee| callee.is_function()).map(Value::name)
    }

    /// Arguments of a call or invoke; none for other values.
    #[must_use]
    pub fn call_args(self) -> Vec<Value<'m>> {
        self.call_target().map(|_| self.call_arguments()).unwrap_or_default()
    }

    /// An operand, if the value has that many.
    #[must_use]
    pub fn operand_at(self, index: usize) -> Option<Value<'m>> {
        let index = u32::try_from(index).ok().filter(|&index| index < self.operand_count())?;
        Some(self.operand(index))
    }

    /// Type that a stack slot holds; `None` for other values.
    #[must_use]
    pub fn slot_type(self) -> Option<Type<'m>> {
        (self.instruction_opcode() == Some(Opcode::LLVMAlloca)).then(|| self.allocated_type())
    }

    #[must_use]
    pub fn is_pointer(self) -> bool {
        self.ty().is_pointer()
    }

    #[must_use]
    pub fn integer_bits(self) -> Option<u32> {
        self.ty().integer_bits()
    }

    /// Type behind a parameter that is passed by value; `None` for other values.
    #[must_use]
    pub fn own_byval_type(self) -> Option<Type<'m>> {
        self.parameter_of()?.byval_type(u32::try_from(self.argument_index()?).ok()?)
    }

    /// Bytes of a variable whose initial value is a constant array of bytes.
    #[must_use]
    pub fn constant_bytes(self) -> Option<Vec<u8>> {
        self.initializer()?.string_bytes()
    }

    /// Text of a constant C string, which a variable holds, without its NUL.
    #[must_use]
    pub fn c_string(self) -> Option<String> {
        let bytes = self.constant_bytes()?;
        Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
    }

    /// Elements of a constant array or structure; none for other values.
    #[must_use]
    pub fn elements(self) -> Vec<Value<'m>> {
        (0..).map_while(|index| self.element(index)).collect()
    }
}
