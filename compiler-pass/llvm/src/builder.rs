//! Builds instructions, and splits blocks.
//!
//! Trap: a builder inserts where it was last positioned; position it again before each group of instructions.

use inkwell::builder::{Builder as InkBuilder, BuilderError};
use inkwell::types::BasicTypeEnum;
use inkwell::values::{AnyValue, BasicValueEnum, IntValue, PointerValue};

use crate::raw::{self, Block, Type, Value};
use crate::{LLVMIntPredicate, Opcode};

#[derive(Debug)]
pub struct Builder<'m> {
    ink: InkBuilder<'m>,
}

/// A block cut in two.
#[derive(Debug, Clone, Copy)]
pub struct Split<'m> {
    /// New, and without a terminator.
    pub head: Block<'m>,
    pub tail: Block<'m>,
}

#[track_caller]
fn made<'m>(value: Result<impl AnyValue<'m>, BuilderError>) -> Value<'m> {
    Value::of(value.expect("the builder is at a place"))
}

#[track_caller]
fn pointer(value: Value<'_>) -> PointerValue<'_> {
    match value.basic() {
        BasicValueEnum::PointerValue(pointer) => pointer,
        other => panic!("{other:?} is no pointer"),
    }
}

#[track_caller]
fn integer(value: Value<'_>) -> IntValue<'_> {
    match value.basic() {
        BasicValueEnum::IntValue(integer) => integer,
        other => panic!("{other:?} is no integer"),
    }
}

impl<'m> Builder<'m> {
    pub(crate) fn of(ink: InkBuilder<'m>) -> Self {
        Builder { ink }
    }

    #[track_caller]
    pub fn before(&self, instruction: Value<'m>) -> &Self {
        assert!(instruction.place().is_some(), "not an instruction in a block");
        self.ink.position_before(&instruction.instruction());
        self
    }

    pub fn at_end(&self, block: Block<'m>) -> &Self {
        self.ink.position_at_end(block.ink());
        self
    }

    /// Gives what is built next the source location of `instruction`.
    pub fn located_as(&self, instruction: Value<'m>) -> &Self {
        raw::take_location(&self.ink, instruction);
        self
    }

    /// Moves everything before `instruction` in its block to a new block in front of it, without a terminator, and
    /// returns both blocks. `instruction` and the rest stay in the original block, so PHIs of its successors stay
    /// valid. PHIs are moved, not copied, so values found before stay valid.
    #[track_caller]
    pub fn split_before(&self, instruction: Value<'m>, name: &str) -> Split<'m> {
        let tail = instruction.parent();
        let head = tail.new_in_front();
        let old_name = tail.name();
        tail.set_name(name);
        head.set_name(&old_name);
        // Without its terminator the block has no successors, so only branches to it are redirected: PHIs of its
        // successors, its own among them, still name it.
        raw::without_terminator(&self.ink, tail, || tail.replace_uses_with(head));
        self.at_end(head);
        for moved in tail.instructions().into_iter().take_while(|&other| other != instruction) {
            self.move_here(moved);
        }
        Split { head, tail }
    }

    #[track_caller]
    pub fn call(&self, function: Value<'m>, args: &[Value<'m>]) -> Value<'m> {
        self.call_as(function.value_type(), function, args)
    }

    /// Calls a pointer or inline assembly as a function of type `ty`.
    #[track_caller]
    pub fn call_as(&self, ty: Type<'m>, function: Value<'m>, args: &[Value<'m>]) -> Value<'m> {
        raw::build_call(&self.ink, ty, function, args)
    }

    #[track_caller]
    pub fn alloca(&self, ty: Type<'m>, align: u32) -> Value<'m> {
        let slot = self.variable(ty, "");
        slot.set_alignment(align);
        slot
    }

    /// A variable on the stack, aligned as its type demands.
    #[track_caller]
    pub fn variable(&self, ty: Type<'m>, name: &str) -> Value<'m> {
        made(self.ink.build_alloca(ty.basic(), name))
    }

    #[track_caller]
    pub fn store(&self, value: Value<'m>, to: Value<'m>) -> Value<'m> {
        made(self.ink.build_store(pointer(to), value.basic()))
    }

    #[track_caller]
    pub fn copy_bytes(&self, to: Value<'m>, from: Value<'m>, align: u32, bytes: Value<'m>) -> Value<'m> {
        let copy = self.ink.build_memcpy(pointer(to), align, pointer(from), align, integer(bytes));
        Value::of(copy.expect("powers of two as alignments"))
    }

    /// `pointer + bytes`.
    #[track_caller]
    pub fn offset(&self, pointer: Value<'m>, bytes: Value<'m>) -> Value<'m> {
        let byte = Type::of(pointer.ty().context().i8_type());
        self.gep(byte, &[pointer, bytes])
    }

    #[track_caller]
    pub fn gep(&self, source: Type<'m>, operands: &[Value<'m>]) -> Value<'m> {
        raw::build_gep(&self.ink, source, operands)
    }

    #[track_caller]
    pub fn cast(&self, opcode: Opcode, value: Value<'m>, to: Type<'m>) -> Value<'m> {
        made(self.ink.build_cast(opcode.into(), value.basic(), to.basic(), ""))
    }

    #[track_caller]
    pub fn binary(&self, opcode: Opcode, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        assert!(left.ty() == right.ty(), "operands of one type");
        made(self.ink.build_binop(opcode.into(), left.basic(), right.basic(), ""))
    }

    #[track_caller]
    pub fn address_space_cast(&self, value: Value<'m>, to: Type<'m>) -> Value<'m> {
        if value.ty() == to {
            return value;
        }
        self.cast(Opcode::LLVMAddrSpaceCast, value, to)
    }

    #[track_caller]
    pub fn equal(&self, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        self.compare(LLVMIntPredicate::LLVMIntEQ, left, right)
    }

    /// Compares two integers or two pointers.
    #[track_caller]
    pub fn compare(&self, predicate: LLVMIntPredicate, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        assert!(left.ty() == right.ty(), "operands of one type");
        match (left.basic(), right.basic()) {
            (BasicValueEnum::IntValue(left), BasicValueEnum::IntValue(right)) => {
                made(self.ink.build_int_compare(predicate.into(), left, right, ""))
            }
            (BasicValueEnum::PointerValue(left), BasicValueEnum::PointerValue(right)) => {
                made(self.ink.build_int_compare(predicate.into(), left, right, ""))
            }
            (BasicValueEnum::VectorValue(left), BasicValueEnum::VectorValue(right)) => {
                made(self.ink.build_int_compare(predicate.into(), left, right, ""))
            }
            _ => panic!("neither integers nor pointers"),
        }
    }

    /// One of two values, as a bit says.
    #[track_caller]
    pub fn select(&self, condition: Value<'m>, then: Value<'m>, otherwise: Value<'m>) -> Value<'m> {
        assert!(then.ty() == otherwise.ty(), "values of one type");
        made(self.ink.build_select(integer(condition), then.basic(), otherwise.basic(), ""))
    }

    /// Zero-extends or truncates.
    #[track_caller]
    pub fn cast_integer(&self, value: Value<'m>, to: Type<'m>) -> Value<'m> {
        match to.basic() {
            BasicTypeEnum::IntType(to) => {
                made(self.ink.build_int_cast_sign_flag(integer(value), to, false, ""))
            }
            _ => panic!("{} is no integer", to.to_text()),
        }
    }

    /// Converts `value` to type `to`; `None` if they differ by more than the address space.
    #[track_caller]
    pub fn fit(&self, value: Value<'m>, to: Type<'m>) -> Option<Value<'m>> {
        match [value.ty(), to].map(Type::is_pointer) {
            _ if value.ty() == to => Some(value),
            [true, true] => Some(self.address_space_cast(value, to)),
            _ => None,
        }
    }

    /// Moves an instruction from its block to this position.
    #[track_caller]
    pub fn move_here(&self, instruction: Value<'m>) {
        raw::move_to(&self.ink, instruction);
    }

    /// A copy of `instruction`, with the same operands.
    #[track_caller]
    pub fn clone_here(&self, instruction: Value<'m>) -> Value<'m> {
        raw::copy_to(&self.ink, instruction)
    }

    /// Returns `value`, or an arbitrary but fixed value if it is poison.
    #[track_caller]
    pub fn freeze(&self, value: Value<'m>) -> Value<'m> {
        raw::build_freeze(&self.ink, value)
    }

    #[track_caller]
    pub fn load(&self, ty: Type<'m>, from: Value<'m>) -> Value<'m> {
        made(self.ink.build_load(ty.basic(), pointer(from), ""))
    }

    #[track_caller]
    pub fn branch(&self, to: Block<'m>) -> Value<'m> {
        made(self.ink.build_unconditional_branch(to.ink()))
    }

    #[track_caller]
    pub fn branch_if(&self, condition: Value<'m>, then: Block<'m>, otherwise: Block<'m>) -> Value<'m> {
        made(self.ink.build_conditional_branch(integer(condition), then.ink(), otherwise.ink()))
    }

    /// Emits `switch value`, with `otherwise` as the default.
    #[track_caller]
    pub fn switch(&self, value: Value<'m>, otherwise: Block<'m>, cases: &[(u64, Block<'m>)]) {
        let case = |&(case, block): &(u64, Block<'m>)| (integer(value.ty().constant(case)), block.ink());
        let cases: Vec<_> = cases.iter().map(case).collect();
        made(self.ink.build_switch(integer(value), otherwise.ink(), &cases));
    }

    #[track_caller]
    pub fn return_nothing(&self) {
        made(self.ink.build_return(None));
    }

    #[track_caller]
    pub fn return_value(&self, value: Value<'m>) {
        made(self.ink.build_return(Some(&value.basic())));
    }

    /// A landing pad for a function with a personality, which takes every exception in order to let it pass; `caught` is
    /// the type of what [`Builder::resume`] gets.
    #[track_caller]
    pub fn cleanup_pad(&self, caught: Type<'m>) -> Value<'m> {
        let function = self.ink.get_insert_block().and_then(|block| block.get_parent());
        let personality = function.and_then(|function| function.get_personality_function());
        let personality = personality.expect("a place in a function with a personality");
        made(self.ink.build_landing_pad(caught.basic(), personality, &[], true, ""))
    }

    /// Lets an exception go on.
    #[track_caller]
    pub fn resume(&self, pad: Value<'m>) {
        made(self.ink.build_resume(pad.basic()));
    }
}
