//! What every value has: name, type, kind, users, operands.
//!
//! Operands and users may be tokens, metadata and blocks, so inkwell's enumerations would panic on some of them.

use inkwell::values::AsValueRef;

use super::{Type, Value, text_at, walk};
use crate::Opcode;
use crate::sys::core::*;

/// Tests of kinds: LLVM answers the value itself, or null if it is of another kind.
macro_rules! kind_tests {
    ($($(#[$doc:meta])* $name:ident: $test:ident;)*) => {
        impl Value<'_> {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(self) -> bool {
                    // SAFETY: a live value (it is borrowed), which LLVM asks for its kind only: the test is a
                    // `dyn_cast`, defined for all values.
                    !unsafe { $test(self.raw) }.is_null()
                }
            )*
        }
    };
}

kind_tests! {
    is_instruction: LLVMIsAInstruction;
    is_constant: LLVMIsAConstant;
    is_constant_expression: LLVMIsAConstantExpr;
    is_function: LLVMIsAFunction;
    is_global_variable: LLVMIsAGlobalVariable;
    /// Whether it is a function, a variable or an alias.
    is_global: LLVMIsAGlobalValue;
    is_argument: LLVMIsAArgument;
    is_inline_assembly: LLVMIsAInlineAsm;
    is_constant_integer: LLVMIsAConstantInt;
    /// Whether it has operands: an instruction or a constant made of others.
    is_user: LLVMIsAUser;
    is_metadata_node: LLVMIsAMDNode;
    is_metadata_text: LLVMIsAMDString;
    is_plain_call: LLVMIsACallInst;
    is_invoke: LLVMIsAInvokeInst;
}

impl<'m> Value<'m> {
    #[must_use]
    pub fn name(self) -> String {
        let mut length = 0;
        // SAFETY: a live value owns its name, which is `length` bytes long and is copied at once.
        unsafe {
            let start = LLVMGetValueName2(self.raw, &raw mut length);
            text_at(start, length)
        }
    }

    pub fn set_name(self, name: &str) {
        // SAFETY: a live value; LLVM copies the `name.len()` bytes.
        unsafe { LLVMSetValueName2(self.raw, name.as_ptr().cast(), name.len()) };
    }

    #[must_use]
    pub fn ty(self) -> Type<'m> {
        // SAFETY: every live value has a type, which its context keeps.
        unsafe { Type::from_raw(LLVMTypeOf(self.raw)) }
    }

    /// Makes all users of this value use `other`, which is of the same type.
    pub fn replace_uses_with(self, other: Value<'m>) {
        assert!(self.ty() == other.ty() && self != other, "a value is replaced by another one of its type");
        // SAFETY: both are live, different, and of one type (asserted), which is what LLVM demands. Uses may be of any
        // kind of value, and inkwell has this call for instructions and functions only.
        unsafe { LLVMReplaceAllUsesWith(self.raw, other.raw) };
    }

    /// Instructions and constants that use this value.
    #[must_use]
    pub fn users(self) -> Vec<Value<'m>> {
        // SAFETY: a live value; the list is not changed during the walk, and each of its elements is a use, which has a
        // user that is alive as long as it uses something.
        unsafe {
            walk(LLVMGetFirstUse(self.raw), |at| LLVMGetNextUse(at))
                .map(|at| Value::certain(LLVMGetUser(at)))
                .collect()
        }
    }

    /// Number of operands; 0 for a value that has none.
    #[must_use]
    pub fn operand_count(self) -> u32 {
        if !self.is_user() {
            return 0;
        }
        // SAFETY: a live user of other values (tested).
        u32::try_from(unsafe { LLVMGetNumOperands(self.raw) }).unwrap_or(0)
    }

    /// Operands of an instruction or constant, with the callee and blocks; none for other values.
    #[must_use]
    pub fn operands(self) -> Vec<Value<'m>> {
        (0..self.operand_count())
            // SAFETY: a live user of other values (it has operands), and numbers below that of its operands.
            .map(|index| unsafe { Value::certain(LLVMGetOperand(self.raw, index)) })
            .collect()
    }

    #[must_use]
    #[track_caller]
    pub fn operand(self, index: u32) -> Value<'m> {
        assert!(index < self.operand_count(), "no operand {index}");
        // SAFETY: a live user of other values, and one of its operands (asserted).
        unsafe { Value::certain(LLVMGetOperand(self.raw, index)) }
    }

    /// Replaces an operand by a value of its type; an address may also get another address space.
    #[track_caller]
    pub fn set_operand(self, index: u32, value: Value<'m>) {
        let (old, new) = (self.operand(index).ty(), value.ty());
        assert!(old == new || old.is_pointer() && new.is_pointer(), "an operand of another type");
        // SAFETY: a live user of other values, one of its operands (`operand` found it), and a value of the same type or
        // also a pointer (asserted). LLVM stores the reference; what the instruction then means is for the verifier.
        unsafe { LLVMSetOperand(self.raw, index, value.raw) };
    }

    #[must_use]
    pub fn is_poison(self) -> bool {
        // SAFETY: a live value; this is a test of its kind.
        unsafe { LLVMIsPoison(self.raw) != 0 }
    }

    /// True if a constant is zero in all its bytes, or has no particular value.
    #[must_use]
    pub fn is_zero(self) -> bool {
        // SAFETY: a live value; both are tests of its kind.
        unsafe { LLVMIsNull(self.raw) != 0 || LLVMIsUndef(self.raw) != 0 }
    }

    /// Whether it is an instruction that calls: a call, an invoke or a `callbr`.
    #[must_use]
    pub fn is_call_site(self) -> bool {
        self.is_instruction()
            && matches!(self.opcode(), Some(Opcode::LLVMCall | Opcode::LLVMInvoke | Opcode::LLVMCallBr))
    }

    /// The opcode of an instruction or constant expression.
    #[must_use]
    pub fn opcode(self) -> Option<Opcode> {
        self.instruction_opcode().or_else(|| {
            // SAFETY: a live constant expression (tested), and all of them have an opcode.
            self.is_constant_expression().then(|| unsafe { LLVMGetConstOpcode(self.raw) })
        })
    }

    /// The opcode of an instruction.
    #[must_use]
    pub fn instruction_opcode(self) -> Option<Opcode> {
        // SAFETY: a live instruction (tested), and all of them have an opcode.
        self.is_instruction().then(|| unsafe { LLVMGetInstructionOpcode(self.raw) })
    }

    /// An integer constant of at most 64 bits, zero-extended.
    #[must_use]
    pub fn constant_integer(self) -> Option<u64> {
        let fits = self.is_constant_integer() && self.ty().integer_bits().is_some_and(|bits| bits <= 64);
        // SAFETY: a live integer constant of at most 64 bits (tested); LLVM aborts for a wider one.
        fits.then(|| unsafe { LLVMConstIntGetZExtValue(self.raw) })
    }

    /// An integer constant of at most 64 bits, sign-extended.
    #[must_use]
    pub fn signed_constant_integer(self) -> Option<i64> {
        let fits = self.is_constant_integer() && self.ty().integer_bits().is_some_and(|bits| bits <= 64);
        // SAFETY: as above.
        fits.then(|| unsafe { LLVMConstIntGetSExtValue(self.raw) })
    }

    /// Bytes of a constant array of bytes.
    #[must_use]
    pub fn string_bytes(self) -> Option<Vec<u8>> {
        let mut length = 0;
        // SAFETY: the test is for any live value, and the bytes are read only of a constant string, which owns them and
        // says how many they are; they are copied at once.
        unsafe {
            if !self.is_constant() || LLVMIsConstantString(self.raw) == 0 {
                return None;
            }
            let start = LLVMGetAsString(self.raw, &raw mut length);
            Some(super::bytes_at(start, length))
        }
    }

    /// Element `index` of a constant array or structure; `None` behind the last one.
    #[must_use]
    pub fn element(self, index: u32) -> Option<Value<'m>> {
        // SAFETY: a live constant (tested); LLVM answers null if it has no such element.
        self.is_constant()
            .then(|| unsafe { Value::from_raw(LLVMGetAggregateElement(self.raw, index)) })
            .flatten()
    }

    /// The function whose parameter this value is.
    #[must_use]
    pub fn parameter_of(self) -> Option<Value<'m>> {
        // SAFETY: a live argument (tested), which has a function.
        self.is_argument().then(|| unsafe { Value::certain(LLVMGetParamParent(self.raw)) })
    }

    /// Parameters of a function; none for other values.
    #[must_use]
    pub fn params(self) -> Vec<Value<'m>> {
        let Some(function) = self.as_function() else { return Vec::new() };
        let raw = function.as_value_ref();
        // SAFETY: a live function, and numbers below that of its parameters. inkwell panics on a parameter that is
        // metadata or a token, as intrinsics have.
        (0..function.count_params())
            .map(|index| unsafe { Value::certain(LLVMGetParam(raw, index)) })
            .collect()
    }

    /// Makes the alignment of a variable, stack slot, load or store that of `bytes`, a power of two.
    pub fn set_alignment(self, bytes: u32) {
        assert!(bytes.is_power_of_two() && self.has_alignment(), "no alignment to set");
        // SAFETY: a live value of a kind that has an alignment, and a power of two (asserted).
        unsafe { LLVMSetAlignment(self.raw, bytes) };
    }

    /// Alignment of a variable, stack slot or access to memory; 0 if the target's own applies, or there is none.
    #[must_use]
    pub fn alignment(self) -> u32 {
        // SAFETY: a live value of a kind that has an alignment (tested).
        if self.has_alignment() { unsafe { LLVMGetAlignment(self.raw) } } else { 0 }
    }

    fn has_alignment(self) -> bool {
        use Opcode::*;
        self.is_global_variable()
            || self.is_function()
            || matches!(
                self.instruction_opcode(),
                Some(LLVMAlloca | LLVMLoad | LLVMStore | LLVMAtomicRMW | LLVMAtomicCmpXchg)
            )
    }

    /// The text and the constraints of inline assembly.
    pub(crate) fn assembly_texts(self) -> Option<[String; 2]> {
        if !self.is_inline_assembly() {
            return None;
        }
        let (mut text_length, mut constraints_length) = (0, 0);
        // SAFETY: live inline assembly (tested), which owns both texts and says how long they are; copied at once.
        unsafe {
            let text = LLVMGetInlineAsmAsmString(self.raw, &raw mut text_length);
            let constraints = LLVMGetInlineAsmConstraintString(self.raw, &raw mut constraints_length);
            Some([text_at(text, text_length), text_at(constraints, constraints_length)])
        }
    }

    pub(crate) fn clear_comdat(self) {
        assert!(
            self.is_function() || self.is_global_variable(),
            "only functions and variables have a comdat"
        );
        // SAFETY: a live function or variable (asserted); null means none, and inkwell's call takes no null.
        unsafe { crate::sys::comdat::LLVMSetComdat(self.raw, std::ptr::null_mut()) };
    }

    pub(crate) fn clear_initializer(self) {
        assert!(self.is_global_variable(), "only variables have an initial value");
        // SAFETY: a live variable (asserted); null means none, and inkwell's call takes no null.
        unsafe { LLVMSetInitializer(self.raw, std::ptr::null_mut()) };
    }

    /// Removes a function or variable from its module; nothing outside of it may use it any more.
    pub fn delete(self) {
        let is_inside = |user: &Value<'_>| user.is_instruction() && user.parent().function() == self;
        assert!(self.users().iter().all(is_inside), "{} is used and cannot be deleted", self.name());
        // SAFETY: a live function or variable (the kind is tested) that only its own code uses (asserted), so that
        // nothing in the module leads to it; the caller looks values up again (trap of this crate).
        unsafe {
            match (self.is_function(), self.is_global_variable()) {
                (true, _) => LLVMDeleteFunction(self.raw),
                (_, true) => LLVMDeleteGlobal(self.raw),
                _ => panic!("neither a function nor a variable"),
            }
        }
    }
}

/// Casts a constant address to another address space.
#[must_use]
pub fn constant_address_space_cast<'m>(value: Value<'m>, to: Type<'m>) -> Value<'m> {
    assert!(value.is_constant() && value.ty().is_pointer() && to.is_pointer(), "an address, constant");
    // SAFETY: a live constant of a pointer type and a pointer type (asserted).
    unsafe { Value::certain(LLVMConstAddrSpaceCast(value.raw, to.raw)) }
}

/// The constant address `offset` bytes behind a global variable; `byte` is the type of a byte.
#[must_use]
pub fn constant_at<'m>(global: Value<'m>, byte: Type<'m>, offset: Value<'m>) -> Value<'m> {
    assert!(global.is_constant() && global.ty().is_pointer(), "an address, constant");
    assert!(offset.is_constant_integer() && byte.integer_bits() == Some(8), "an offset in bytes, constant");
    let mut indices = [offset.raw];
    // SAFETY: a live constant address, one constant index and its element type (asserted); LLVM copies the list.
    unsafe { Value::certain(LLVMConstInBoundsGEP2(byte.raw, global.raw, indices.as_mut_ptr(), 1)) }
}
