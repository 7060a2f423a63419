//! What inkwell lacks of instructions and calls: callees, successors, flags and modes, and calls with any arguments.

use inkwell::builder::Builder as InkBuilder;

use super::{Block, Type, Value, count_of};
use crate::sys::core::*;
use crate::sys::prelude::*;
use crate::sys::{LLVMAtomicRMWBinOp, LLVMInlineAsmDialect, LLVMTailCallKind};
use crate::{Opcode, TypeKind};

impl<'m> Value<'m> {
    /// The block that an instruction is in.
    #[must_use]
    #[track_caller]
    pub fn parent(self) -> Block<'m> {
        self.place().expect("an instruction in a block")
    }

    /// The block that an instruction is in; `None` for other values.
    #[must_use]
    pub fn place(self) -> Option<Block<'m>> {
        if !self.is_instruction() {
            return None;
        }
        // SAFETY: a live instruction (tested); LLVM answers null for one that is in no block.
        unsafe { Block::from_raw(LLVMGetInstructionParent(self.raw)) }
    }

    /// What a call calls: a function, inline assembly or any pointer.
    #[must_use]
    #[track_caller]
    pub fn called_value(self) -> Value<'m> {
        assert!(self.is_call_site(), "not a call");
        // SAFETY: a live call (asserted), which has a callee. inkwell panics unless that is a function.
        unsafe { Value::certain(LLVMGetCalledValue(self.raw)) }
    }

    /// Arguments of a call, without the callee.
    #[must_use]
    #[track_caller]
    pub fn call_arguments(self) -> Vec<Value<'m>> {
        assert!(self.is_call_site(), "not a call");
        // SAFETY: a live call (asserted). inkwell panics on arguments that are metadata or tokens.
        let count = unsafe { LLVMGetNumArgOperands(self.raw) };
        self.operands().into_iter().take(count as usize).collect()
    }

    /// Whether nothing but a return may follow a call.
    #[must_use]
    pub fn is_must_tail(self) -> bool {
        // SAFETY: a live call (tested): `getTailCallKind` is for `call` instructions only.
        self.is_plain_call()
            && unsafe { LLVMGetTailCallKind(self.raw) } == LLVMTailCallKind::LLVMTailCallKindMustTail
    }

    /// Blocks to which a terminator may branch; none for other instructions.
    #[must_use]
    pub fn successors(self) -> Vec<Block<'m>> {
        // SAFETY: a live terminator (tested), and numbers below that of its successors, which are not null.
        unsafe {
            if LLVMIsATerminatorInst(self.raw).is_null() {
                return Vec::new();
            }
            (0..LLVMGetNumSuccessors(self.raw))
                .filter_map(|index| Block::from_raw(LLVMGetSuccessor(self.raw, index)))
                .collect()
        }
    }

    #[track_caller]
    pub fn set_successor(self, index: u32, block: Block<'m>) {
        assert!((index as usize) < self.successors().len(), "no successor {index}");
        // SAFETY: a live terminator and one of its successors (asserted), and a live block.
        unsafe { LLVMSetSuccessor(self.raw, index, block.raw) };
    }

    /// The number for which a `switch` goes to a successor; `None` for its default, the first one.
    #[must_use]
    #[track_caller]
    pub fn case_value(self, successor: u32) -> Option<Value<'m>> {
        assert!(self.instruction_opcode() == Some(Opcode::LLVMSwitch), "not a switch");
        assert!((successor as usize) < self.successors().len(), "no successor {successor}");
        if successor == 0 {
            return None;
        }
        // Since LLVM 22 these numbers are no operands.
        // SAFETY: a live switch, and one of its successors behind the default (asserted).
        #[cfg(feature = "llvm22")]
        let number = unsafe { Value::certain(LLVMGetSwitchCaseValue(self.raw, successor)) };
        // Operands are the condition, the default, and for each case the number and the block.
        #[cfg(not(feature = "llvm22"))]
        let number = self.operand(2 * successor);
        Some(number)
    }

    /// Condition of a branch to two blocks.
    #[must_use]
    pub fn condition(self) -> Option<Value<'m>> {
        let is_branch = self.instruction_opcode() == Some(Opcode::LLVMBr) && self.successors().len() == 2;
        // SAFETY: a live branch to two blocks (tested), which has a condition.
        is_branch.then(|| unsafe { Value::certain(LLVMGetCondition(self.raw)) })
    }

    /// Values and blocks that they come from, of a PHI; none for other values.
    #[must_use]
    pub fn incoming(self) -> Vec<(Value<'m>, Block<'m>)> {
        let Some(phi) = self.as_phi() else { return Vec::new() };
        phi.get_incomings().map(|(value, block)| (Value::of(value), Block::of(block))).collect()
    }

    pub(crate) fn atomic_operation(self) -> Option<LLVMAtomicRMWBinOp> {
        let is_update = self.instruction_opcode() == Some(Opcode::LLVMAtomicRMW);
        // SAFETY: a live atomic update (tested). inkwell's own list of operations lacks newer ones and panics on them.
        is_update.then(|| unsafe { LLVMGetAtomicRMWBinOp(self.raw) })
    }

    /// The type from which a `getelementptr` counts its first index. A constant expression has it too, which is why
    /// inkwell's question to an instruction does not do.
    #[must_use]
    #[track_caller]
    pub fn gep_source(self) -> Type<'m> {
        assert!(self.opcode() == Some(Opcode::LLVMGetElementPtr), "not a getelementptr");
        // SAFETY: a live getelementptr, instruction or constant (asserted).
        unsafe { Type::from_raw(LLVMGetGEPSourceElementType(self.raw)) }
    }

    pub(crate) fn clear_no_wrap_of_gep(self) {
        assert!(self.instruction_opcode() == Some(Opcode::LLVMGetElementPtr), "not a getelementptr");
        // SAFETY: a live getelementptr (asserted); 0 promises nothing.
        #[cfg(feature = "llvm22")]
        unsafe {
            LLVMGEPSetNoWrapFlags(self.raw, 0);
        }
        // SAFETY: as above.
        #[cfg(not(feature = "llvm22"))]
        unsafe {
            LLVMSetIsInBounds(self.raw, 0);
        }
    }
}

/// Emits a call with arguments of any kind: inkwell takes no tokens, which coroutines pass around.
#[track_caller]
pub(crate) fn build_call<'m>(
    builder: &InkBuilder<'m>,
    ty: Type<'m>,
    function: Value<'m>,
    args: &[Value<'m>],
) -> Value<'m> {
    let params = ty.param_types();
    assert!(function.ty().is_pointer(), "only functions and pointers are called");
    assert!(
        params.len() == args.len() || ty.is_variadic() && params.len() < args.len(),
        "a call with {} arguments of a function with {}",
        args.len(),
        params.len()
    );
    assert!(params.iter().zip(args).all(|(param, arg)| *param == arg.ty()), "an argument of another type");
    assert!(builder.get_insert_block().is_some(), "the builder is at no place");
    let mut args: Vec<LLVMValueRef> = args.iter().map(|value| value.raw).collect();
    let count = count_of(&args);
    // SAFETY: a live builder at a place, a function type (it has parameter types), a pointer, and arguments of the
    // parameters' types (all asserted); LLVM copies the list.
    unsafe {
        Value::certain(LLVMBuildCall2(
            builder.as_mut_ptr(),
            ty.raw,
            function.raw,
            args.as_mut_ptr(),
            count,
            c"".as_ptr(),
        ))
    }
}

/// Whether each index leads to a part that the type has; the first one counts whole elements.
fn leads_somewhere(source: Type<'_>, indices: &[Value<'_>]) -> bool {
    let mut at = source;
    indices.iter().skip(1).all(|index| {
        let fields = at.struct_types();
        let inner = match (at.kind(), index.constant_integer()) {
            (TypeKind::LLVMStructTypeKind, Some(field)) => {
                usize::try_from(field).ok().and_then(|field| fields.get(field).copied())
            }
            (TypeKind::LLVMArrayTypeKind | TypeKind::LLVMVectorTypeKind, _) => Some(at.element()),
            _ => None,
        };
        inner.inspect(|&inner| at = inner).is_some()
    })
}

/// Emits an address computed from `operands[0]` by the indices behind it.
#[track_caller]
pub(crate) fn build_gep<'m>(builder: &InkBuilder<'m>, source: Type<'m>, operands: &[Value<'m>]) -> Value<'m> {
    let (&base, indices) = operands.split_first().expect("an address to start from");
    let is_integer = |index: &Value<'_>| index.ty().integer_bits().is_some();
    assert!(base.ty().is_pointer() && source.is_basic(), "an address, and a type of values in memory");
    assert!(
        indices.iter().all(is_integer) && leads_somewhere(source, indices),
        "indices of parts that exist"
    );
    assert!(builder.get_insert_block().is_some(), "the builder is at no place");
    let mut indices: Vec<LLVMValueRef> = indices.iter().map(|index| index.raw).collect();
    let (start, count) = (indices.as_mut_ptr(), count_of(&indices));
    // SAFETY: a live builder at a place, a type of values in memory, a pointer, and integers, of which those that choose
    // a field are constants in range (all asserted): what LLVM computes the result's type from. inkwell's call is unsafe
    // for the same reason.
    unsafe {
        Value::certain(LLVMBuildGEP2(builder.as_mut_ptr(), source.raw, base.raw, start, count, c"".as_ptr()))
    }
}

/// Emits a copy of a value that is arbitrary but fixed where the value is poison. inkwell has no call for it.
#[track_caller]
pub(crate) fn build_freeze<'m>(builder: &InkBuilder<'m>, value: Value<'m>) -> Value<'m> {
    assert!(value.ty().is_basic() && builder.get_insert_block().is_some(), "a value, at a place");
    // SAFETY: a live builder at a place, and a value of a type that has values (asserted).
    unsafe { Value::certain(LLVMBuildFreeze(builder.as_mut_ptr(), value.raw, c"".as_ptr())) }
}

/// Inline assembly of a function type, with effects that LLVM does not see.
#[must_use]
pub fn inline_assembly<'m>(ty: Type<'m>, text: &str, constraints: &str) -> Value<'m> {
    assert!(ty.as_function().is_some(), "assembly has a function type");
    // SAFETY: a live function type (asserted), and two texts that LLVM copies with their lengths. inkwell's call needs
    // its context, which a type of a borrowed module does not carry.
    unsafe {
        Value::certain(LLVMGetInlineAsm(
            ty.raw,
            text.as_ptr().cast(),
            text.len(),
            constraints.as_ptr().cast(),
            constraints.len(),
            1,
            0,
            LLVMInlineAsmDialect::LLVMInlineAsmDialectATT,
            0,
        ))
    }
}

impl<'m> Block<'m> {
    /// Wraps a pointer of LLVM's; `None` for null.
    ///
    /// # Safety
    /// `raw` is null or a live block of the module borrowed for `'m`.
    pub(super) unsafe fn from_raw(raw: LLVMBasicBlockRef) -> Option<Self> {
        (!raw.is_null()).then_some(Block { raw, lifetime: std::marker::PhantomData })
    }

    /// The block as a value, which terminators use.
    pub(crate) fn as_value(self) -> Value<'m> {
        // SAFETY: a live block, which is a value and lives as long.
        unsafe { Value::certain(LLVMBasicBlockAsValue(self.raw)) }
    }
}
