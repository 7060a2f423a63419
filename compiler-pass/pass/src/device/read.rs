//! Translates LLVM device code into the form of `eager-kernel-facts`, instruction by instruction.
//!
//! Trap: every construct that is not known here must become `Opaque` or a call of unknown code with all its operands,
//! so that no pointer is lost from sight. Only calls that are known to leave memory alone may drop their operands.

use std::collections::BTreeMap;
use std::ffi::CStr;

use crate::llvm_sys::LLVMAttributeFunctionIndex;
use crate::llvm_sys::core::*;
use crate::llvm_sys::prelude::LLVMTypeRef;
use crate::llvm_sys::target::{
    LLVMABISizeOfType, LLVMGetModuleDataLayout, LLVMOffsetOfElement, LLVMStoreSizeOfType,
};
use crate::llvm_sys::{LLVMIntPredicate, LLVMOpcode, LLVMTypeKind};
use eager_kernel_facts::access::code::{
    Arithmetic, Axis, Block, BlockId, Function, FunctionId, Instruction, Kind, Memory, Operand, Param,
    Program, Register, Relation, ValueId,
};

use crate::ir::{Block as IrBlock, Module, Value};

/// Address spaces of NVPTX.
const SHARED: u32 = 3;
const CONSTANT: u32 = 4;
const LOCAL: u32 = 5;

/// Translates all functions with a body.
#[must_use]
pub fn program(module: Module<'_>, kernels: &[String]) -> Program {
    let defined: Vec<Value<'_>> =
        module.functions().into_iter().filter(|function| !function.is_declaration()).collect();
    let ids: BTreeMap<Value<'_>, FunctionId> =
        defined.iter().enumerate().map(|(index, &function)| (function, FunctionId(number(index)))).collect();
    let functions = defined
        .iter()
        .map(|&function| {
            let name = function.name();
            let is_kernel = kernels.contains(&name);
            Reader::new(module, &ids, function).read(name, is_kernel)
        })
        .collect();
    Program { functions }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

struct Reader<'r, 'm> {
    module: Module<'m>,
    functions: &'r BTreeMap<Value<'m>, FunctionId>,
    function: Value<'m>,
    blocks: BTreeMap<IrBlock<'m>, BlockId>,
    values: BTreeMap<Value<'m>, ValueId>,
}

impl<'r, 'm> Reader<'r, 'm> {
    fn new(module: Module<'m>, functions: &'r BTreeMap<Value<'m>, FunctionId>, function: Value<'m>) -> Self {
        let blocks = function.blocks();
        let params = function.params();
        let instructions = blocks.iter().flat_map(|block| block.instructions());
        let values = params.into_iter().chain(instructions).enumerate();
        let values = values.map(|(index, value)| (value, ValueId(number(index)))).collect();
        let blocks = blocks.into_iter().enumerate();
        let blocks = blocks.map(|(index, block)| (block, BlockId(number(index)))).collect();
        Self { module, functions, function, blocks, values }
    }

    fn read(&self, name: String, is_kernel: bool) -> Function {
        let params = self.function.params().into_iter().map(param).collect();
        let blocks = self.function.blocks().into_iter().map(|block| self.block(block)).collect();
        Function { name, is_kernel, params, values: number(self.values.len()), blocks }
    }

    fn block(&self, block: IrBlock<'m>) -> Block {
        let instructions: Vec<Value<'m>> = block.instructions();
        let successors =
            block.successors().iter().filter_map(|next| self.blocks.get(next).copied()).collect();
        let condition = instructions.last().and_then(|last| self.condition(*last));
        let instructions = instructions
            .into_iter()
            .map(|instruction| Instruction {
                result: self.values.get(&instruction).copied(),
                kind: self.kind(instruction),
            })
            .collect();
        Block { instructions, successors, condition }
    }

    fn condition(&self, branch: Value<'m>) -> Option<Operand> {
        // SAFETY: the instruction is a branch (first test), and asked for a condition only if it has one.
        let condition = unsafe {
            (branch.opcode() == Some(LLVMOpcode::LLVMBr) && LLVMIsConditional(branch.raw()) != 0)
                .then(|| LLVMGetCondition(branch.raw()))
        };
        Value::from_raw(condition?).map(|value| self.operand(value))
    }

    fn operand(&self, value: Value<'m>) -> Operand {
        if let Some(&id) = self.values.get(&value) {
            return Operand::Value(id);
        }
        if value.integer_bits().is_some_and(|bits| bits <= 64) && value.const_int().is_some() {
            // SAFETY: the value is an integer constant of at most 64 bits (tested above).
            return Operand::Integer(unsafe { LLVMConstIntGetSExtValue(value.raw()) });
        }
        memory_of_constant(value).map_or(Operand::Constant, Operand::Address)
    }

    fn operands(&self, instruction: Value<'m>) -> Vec<Operand> {
        instruction.operands().into_iter().map(|value| self.operand(value)).collect()
    }

    fn kind(&self, instruction: Value<'m>) -> Kind {
        let Some(opcode) = instruction.opcode() else { return Kind::Opaque { operands: Vec::new() } };
        let operands = || self.operands(instruction);
        let of =
            |index: usize| instruction.operand(index).map_or(Operand::Constant, |value| self.operand(value));
        let scalar = instruction.integer_bits().is_some();
        let single = instruction.is_pointer() || scalar;
        match opcode {
            LLVMOpcode::LLVMAlloca => Kind::Object(Memory::Private),
            LLVMOpcode::LLVMLoad => Kind::Load { from: of(0), bytes: self.bytes(instruction) },
            LLVMOpcode::LLVMStore => {
                let bytes = instruction.operand(0).map_or(0, |value| self.bytes(value));
                Kind::Store { to: of(1), value: of(0), bytes }
            }
            LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg => {
                let bytes = instruction.operand(1).map_or(0, |value| self.bytes(value));
                Kind::Update { at: of(0), bytes, operands: operands().split_off(1) }
            }
            LLVMOpcode::LLVMGetElementPtr => {
                self.offset(instruction).unwrap_or_else(|| Kind::Opaque { operands: operands() })
            }
            LLVMOpcode::LLVMPHI => Kind::Merge { incoming: self.incoming(instruction) },
            LLVMOpcode::LLVMSelect if self.has_one_condition(instruction) => {
                Kind::Choose { condition: of(0), if_true: of(1), if_false: of(2) }
            }
            LLVMOpcode::LLVMICmp if scalar => {
                Kind::Compare { relation: relation(instruction), left: of(0), right: of(1) }
            }
            LLVMOpcode::LLVMZExt | LLVMOpcode::LLVMSExt | LLVMOpcode::LLVMTrunc if scalar => {
                Kind::Convert { from: of(0) }
            }
            LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMFreeze if single => Kind::Convert { from: of(0) },
            LLVMOpcode::LLVMRet => Kind::Return { value: of(0) },
            LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke | LLVMOpcode::LLVMCallBr => self.call(instruction),
            _ => match arithmetic(opcode).filter(|_| scalar) {
                Some(op) => Kind::Arithmetic { op, left: of(0), right: of(1) },
                None => Kind::Opaque { operands: operands() },
            },
        }
    }

    /// Whether a `select` has a single condition; with a vector of conditions it chooses element by element.
    fn has_one_condition(&self, select: Value<'m>) -> bool {
        select.operand(0).is_some_and(|condition| condition.integer_bits().is_some())
    }

    fn bytes(&self, value: Value<'m>) -> u64 {
        // SAFETY: every live value has a type.
        let ty = unsafe { LLVMTypeOf(value.raw()) };
        // SAFETY: the type has a fixed size (tested), which the data layout knows.
        fixed_size(ty)
            .map_or(0, |()| unsafe { LLVMStoreSizeOfType(LLVMGetModuleDataLayout(self.module.raw()), ty) })
    }

    fn incoming(&self, phi: Value<'m>) -> Vec<(BlockId, Operand)> {
        // SAFETY: the instruction is a phi (the caller matched it), and indices stay below its count.
        let edges = unsafe {
            (0..LLVMCountIncoming(phi.raw()))
                .map(|i| (LLVMGetIncomingBlock(phi.raw(), i), LLVMGetIncomingValue(phi.raw(), i)))
                .collect::<Vec<_>>()
        };
        edges
            .into_iter()
            .filter_map(|(block, value)| {
                let block = self.blocks.get(&IrBlock::from_raw(block)?)?;
                Some((*block, self.operand(Value::from_raw(value)?)))
            })
            .collect()
    }

    /// Translates a `getelementptr`; `None` for vectors of addresses, sizes that are not fixed, and offsets beyond 64
    /// bits.
    fn offset(&self, gep: Value<'m>) -> Option<Kind> {
        if !gep.is_pointer() {
            return None;
        }
        let operands = gep.operands();
        let (base, indices) = operands.split_first()?;
        // SAFETY: the instruction is a getelementptr: it is one by the caller's match.
        let mut ty = unsafe { LLVMGetGEPSourceElementType(gep.raw()) };
        let (mut constant, mut terms) = (0i64, Vec::new());
        for (position, &index) in indices.iter().enumerate() {
            if position > 0 {
                match self.step_into(ty, index)? {
                    Step::Field { offset, inner } => {
                        constant = constant.checked_add(offset)?;
                        ty = inner;
                        continue;
                    }
                    Step::Element { inner } => ty = inner,
                }
            }
            let size = i64::try_from(self.allocated_size(ty)?).ok()?;
            match self.operand(index) {
                Operand::Integer(value) => constant = constant.checked_add(value.checked_mul(size)?)?,
                operand => terms.push((size, operand)),
            }
        }
        Some(Kind::Offset { base: self.operand(*base), constant, terms })
    }

    fn step_into(&self, ty: LLVMTypeRef, index: Value<'m>) -> Option<Step> {
        // SAFETY: `ty` is a live type; each accessor is called for its kind only, and a field index of a valid
        // getelementptr is a constant in range (checked all the same).
        unsafe {
            match LLVMGetTypeKind(ty) {
                LLVMTypeKind::LLVMStructTypeKind => {
                    let field = u32::try_from(index.const_int()?).ok()?;
                    fixed_size(ty)?;
                    if field >= LLVMCountStructElementTypes(ty) {
                        return None;
                    }
                    let layout = LLVMGetModuleDataLayout(self.module.raw());
                    let offset = i64::try_from(LLVMOffsetOfElement(layout, ty, field)).ok()?;
                    Some(Step::Field { offset, inner: LLVMStructGetTypeAtIndex(ty, field) })
                }
                LLVMTypeKind::LLVMArrayTypeKind | LLVMTypeKind::LLVMVectorTypeKind => {
                    Some(Step::Element { inner: LLVMGetElementType(ty) })
                }
                _ => None,
            }
        }
    }

    fn allocated_size(&self, ty: LLVMTypeRef) -> Option<u64> {
        fixed_size(ty)?;
        // SAFETY: the type has a fixed size (tested above).
        Some(unsafe { LLVMABISizeOfType(LLVMGetModuleDataLayout(self.module.raw()), ty) })
    }

    fn call(&self, call: Value<'m>) -> Kind {
        let args: Vec<Operand> = call.call_args().into_iter().map(|value| self.operand(value)).collect();
        let Some(callee) = call.callee() else { return Kind::Call { callee: None, args } };
        if let Some(&callee) = self.functions.get(&callee) {
            return Kind::Call { callee: Some(callee), args };
        }
        if is_assembly_without_memory(callee) {
            return Kind::Opaque { operands: args };
        }
        let name = if callee.is_function() { callee.name() } else { String::new() };
        let arg = |index: usize| args.get(index).copied().unwrap_or(Operand::Constant);
        if let Some(register) = register(&name) {
            return Kind::Read(register);
        }
        match call_kind(&name) {
            CallKind::Unknown if callee.is_function() && is_arithmetic(callee, &name) => {
                Kind::Opaque { operands: args }
            }
            CallKind::Copy => Kind::Copy { to: arg(0), from: arg(1) },
            CallKind::Fill => Kind::Fill { to: arg(0) },
            CallKind::Extreme => {
                Kind::Choose { condition: Operand::Constant, if_true: arg(0), if_false: arg(1) }
            }
            CallKind::Atomic => {
                let bytes = call.call_args().get(1).map_or(0, |&value| self.bytes(value));
                Kind::Update { at: arg(0), bytes, operands: args[1.min(args.len())..].to_vec() }
            }
            CallKind::CachedLoad => Kind::Load { from: arg(0), bytes: self.bytes(call) },
            CallKind::Same => Kind::Convert { from: arg(0) },
            CallKind::Nothing => Kind::Opaque { operands: Vec::new() },
            CallKind::Unknown => Kind::Call { callee: None, args },
        }
    }
}

enum Step {
    Field { offset: i64, inner: LLVMTypeRef },
    Element { inner: LLVMTypeRef },
}

/// Effect of a called function without a body, derived from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    Copy,
    Fill,
    /// Minimum or maximum of two values.
    Extreme,
    Atomic,
    CachedLoad,
    /// Returns its argument.
    Same,
    /// Marks, barriers and hints.
    Nothing,
    Unknown,
}

fn call_kind(name: &str) -> CallKind {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["llvm.memcpy.", "llvm.memmove."]) {
        CallKind::Copy
    } else if starts(&["llvm.memset."]) {
        CallKind::Fill
    } else if starts(&["llvm.smin.", "llvm.smax.", "llvm.umin.", "llvm.umax."]) {
        CallKind::Extreme
    } else if starts(&["llvm.nvvm.atomic."]) {
        CallKind::Atomic
    } else if starts(&["llvm.nvvm.ldg.", "llvm.nvvm.ldu."]) {
        CallKind::CachedLoad
    } else if starts(&["llvm.nvvm.ptr.", "llvm.expect.", "llvm.ssa.copy", "llvm.ptr.annotation"]) {
        CallKind::Same
    } else if starts(&[
        "llvm.lifetime.",
        "llvm.assume",
        "llvm.dbg.",
        "llvm.prefetch",
        "llvm.invariant.",
        "llvm.experimental.noalias.scope.decl",
        "llvm.sideeffect",
        "llvm.trap",
        "llvm.nvvm.barrier",
        "llvm.nvvm.bar.",
        "llvm.nvvm.membar.",
        "llvm.nvvm.fence.",
        "llvm.nvvm.isspacep.",
        "llvm.nvvm.prefetch",
        "llvm.nvvm.exit",
    ]) {
        CallKind::Nothing
    } else {
        CallKind::Unknown
    }
}

/// Whether a function without a body only computes a number and accesses no memory. LLVM marks its own functions so;
/// libdevice's are known by name. A pointer given to one (`modf`) counts as kept, which is the worst that it can do.
fn is_arithmetic(callee: Value<'_>, name: &str) -> bool {
    const MEMORY: &CStr = c"memory";
    // SAFETY: `callee` is a live function; the attribute, if there is one, is an integer attribute.
    let touches_none = unsafe {
        let kind = LLVMGetEnumAttributeKindForName(MEMORY.as_ptr(), MEMORY.count_bytes());
        let attribute = LLVMGetEnumAttributeAtIndex(callee.raw(), LLVMAttributeFunctionIndex, kind);
        !attribute.is_null() && LLVMGetEnumAttributeValue(attribute) == 0
    };
    const NUMBERS: &[&str] = &[
        "__nv_",
        "vprintf",
        "__assertfail",
        "llvm.nvvm.shfl.",
        "llvm.nvvm.vote.",
        "llvm.nvvm.match.",
        "llvm.nvvm.redux.",
        "llvm.nvvm.activemask",
        "llvm.nvvm.read.ptx.sreg.",
    ];
    touches_none || NUMBERS.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether inline assembly accesses no memory that it finds itself: it has no "memory" clobber. It may still use the
/// addresses that it is given, which count as kept.
fn is_assembly_without_memory(callee: Value<'_>) -> bool {
    // SAFETY: the constraints are read only of inline assembly; the text belongs to the module.
    unsafe {
        if LLVMIsAInlineAsm(callee.raw()).is_null() {
            return false;
        }
        let mut len = 0;
        let text = LLVMGetInlineAsmConstraintString(callee.raw(), &raw mut len);
        let text = if text.is_null() { &[] } else { std::slice::from_raw_parts(text.cast::<u8>(), len) };
        !text.windows(b"memory".len()).any(|part| part == b"memory")
    }
}

fn register(name: &str) -> Option<Register> {
    let rest = name.strip_prefix("llvm.nvvm.read.ptx.sreg.")?;
    let (register, axis) = rest.rsplit_once('.')?;
    let axis = match axis {
        "x" => Axis::X,
        "y" => Axis::Y,
        "z" => Axis::Z,
        _ => return None,
    };
    match register {
        "tid" => Some(Register::ThreadIndex(axis)),
        "ctaid" => Some(Register::BlockIndex(axis)),
        "ntid" => Some(Register::BlockSize(axis)),
        "nctaid" => Some(Register::GridSize(axis)),
        _ => None,
    }
}

fn param(param: Value<'_>) -> Param {
    if param.byval_type().is_some() {
        Param::ByValue
    } else if param.is_pointer() {
        Param::Pointer
    } else {
        Param::Scalar
    }
}

fn relation(compare: Value<'_>) -> Relation {
    // SAFETY: the instruction is an integer comparison: the caller matched it.
    match unsafe { LLVMGetICmpPredicate(compare.raw()) } {
        LLVMIntPredicate::LLVMIntEQ => Relation::Equal,
        LLVMIntPredicate::LLVMIntNE => Relation::NotEqual,
        _ => Relation::Other,
    }
}

fn arithmetic(opcode: LLVMOpcode) -> Option<Arithmetic> {
    Some(match opcode {
        LLVMOpcode::LLVMAdd => Arithmetic::Add,
        LLVMOpcode::LLVMSub => Arithmetic::Subtract,
        LLVMOpcode::LLVMMul => Arithmetic::Multiply,
        LLVMOpcode::LLVMShl => Arithmetic::ShiftLeft,
        LLVMOpcode::LLVMLShr | LLVMOpcode::LLVMAShr => Arithmetic::ShiftRight,
        LLVMOpcode::LLVMUDiv | LLVMOpcode::LLVMSDiv => Arithmetic::Divide,
        LLVMOpcode::LLVMURem | LLVMOpcode::LLVMSRem => Arithmetic::Remainder,
        LLVMOpcode::LLVMAnd => Arithmetic::And,
        LLVMOpcode::LLVMOr => Arithmetic::Or,
        LLVMOpcode::LLVMXor => Arithmetic::Xor,
        _ => return None,
    })
}

/// The kind of memory that a constant address points to or into.
fn memory_of_constant(value: Value<'_>) -> Option<Memory> {
    let mut at = value;
    // Constants are nested a few levels at most; deeper ones are ignored.
    for _ in 0..8 {
        if at.is_global() {
            if at.is_function() {
                return None;
            }
            // SAFETY: a global variable or alias, so its type is a pointer.
            return Some(match unsafe { LLVMGetPointerAddressSpace(LLVMTypeOf(at.raw())) } {
                SHARED => Memory::Shared,
                CONSTANT => Memory::Constant,
                LOCAL => Memory::Private,
                _ => Memory::Variable,
            });
        }
        match at.expression_opcode()? {
            LLVMOpcode::LLVMGetElementPtr | LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMBitCast => {
                at = at.operand(0)?;
            }
            _ => return None,
        }
    }
    None
}

/// Returns `Some` if the data layout knows the size of a type: scalable vectors and opaque types have none.
fn fixed_size(ty: LLVMTypeRef) -> Option<()> {
    // SAFETY: `ty` is a live type; element accessors are called on the kinds that have elements.
    unsafe {
        if LLVMTypeIsSized(ty) == 0 {
            return None;
        }
        match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMScalableVectorTypeKind | LLVMTypeKind::LLVMTargetExtTypeKind => None,
            LLVMTypeKind::LLVMArrayTypeKind | LLVMTypeKind::LLVMVectorTypeKind => {
                fixed_size(LLVMGetElementType(ty))
            }
            LLVMTypeKind::LLVMStructTypeKind => (0..LLVMCountStructElementTypes(ty))
                .all(|i| fixed_size(LLVMStructGetTypeAtIndex(ty, i)).is_some())
                .then_some(()),
            _ => Some(()),
        }
    }
}
