//! Inserts touch marks before accesses to global memory, cost counters into every basic block, and in strict mode
//! checks before every access.
//!
//! Trap: it must run on the simplified kernel, before CPU code is made of it: later, shared and global memory can no
//! longer be told apart, and unrolling or vectorising would change the counts.

use crate::llvm::{Block, Builder, Context, Machine, Module, Opcode, Split, Type, TypeKind, Value};
use crate::provenance::{KnownAddresses, Memory, memory_of};
use crate::runtime;
use crate::thread::Thread;
use crate::{Options, math, ptx, races, strict};

/// Copies up to this size are marked at their first and last byte only. Blocks of a touch map are not smaller.
const SMALL_COPY_BYTES: u64 = 64;

/// One access to memory.
pub(crate) struct Access<'m> {
    pub address: Value<'m>,
    pub bytes: Bytes<'m>,
    pub reads: bool,
    pub writes: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Bytes<'m> {
    Known(u64),
    /// The length operand of a memory intrinsic.
    Computed(Value<'m>),
}

/// Context of instrumentation: values that it reads and functions that it calls.
pub(crate) struct Instrument<'a> {
    pub context: Context<'a>,
    pub module: &'a Module<'a>,
    pub machine: &'a Machine,
    pub options: &'a Options,
    pub thread: Thread<'a>,
    /// The thread's three counters.
    pub counters: Value<'a>,
    pub known: KnownAddresses<'a>,
    /// The code always runs with marks.
    pub always_marks: bool,
    /// A mark is a call, to keep large code small.
    pub marks_out_of_line: bool,
}

#[derive(Default)]
struct Cost<'m> {
    bytes: u64,
    computed_bytes: Vec<Value<'m>>,
    flops32: u64,
    flops64: u64,
}

impl<'a> Instrument<'a> {
    pub fn block(&self, block: Block<'a>) {
        let mut cost = Cost::default();
        for instruction in block.instructions() {
            self.separate_from_touch_map(instruction);
            if self.options.strict {
                ptx::note_place(self.context, self.module, instruction);
                races::report_order(self, instruction);
            }
            for access in accesses(instruction, self.machine) {
                let memory = memory_of(access.address, self.known);
                if self.options.strict {
                    strict::check(self, instruction, &access, memory);
                }
                if memory != Memory::Global {
                    continue;
                }
                let times = u64::from(access.reads) + u64::from(access.writes);
                match access.bytes {
                    Bytes::Known(bytes) => cost.bytes += times * bytes,
                    Bytes::Computed(bytes) => cost.computed_bytes.push(bytes),
                }
                if self.options.touch {
                    self.mark(instruction, &access);
                }
            }
            let (flops32, flops64) = flops(instruction);
            cost.flops32 += flops32;
            cost.flops64 += flops64;
        }
        if self.options.counters {
            self.count(block, &cost);
        }
    }

    /// Tells LLVM that the program's memory does not alias the touch map, so that marks do not order the program's
    /// accesses.
    fn separate_from_touch_map(&self, instruction: Value<'a>) {
        let noalias = self.context.metadata_kind("noalias");
        if accesses(instruction, self.machine).is_empty() || instruction.has_metadata(noalias) {
            return;
        }
        if let Some(scope) = self.touch_scope() {
            instruction.set_metadata(noalias, scope);
        }
    }

    /// The aliasing scope of touch marks.
    fn touch_scope(&self) -> Option<Value<'a>> {
        let store = self.helper("eager.alias").instructions().first().copied()?;
        store.metadata(self.context.metadata_kind("alias.scope"))
    }

    pub fn helper(&self, name: &str) -> Value<'a> {
        runtime::helper(self.module, name)
    }

    /// Inserts a mark. If marks are optional, it is behind a branch, which constant folding removes in the version
    /// without marks.
    fn mark(&self, instruction: Value<'a>, access: &Access<'a>) {
        let builder = self.context.builder();
        if self.always_marks {
            builder.before(instruction);
            self.mark_planes(&builder, access);
            return;
        }
        let Split { head, tail } = builder.split_before(instruction, "access");
        let marks = self.context.append_block(head.function(), "marks");
        marks.move_after(head);
        builder.at_end(head).branch_if(self.thread.marks, marks, tail);
        builder.at_end(marks);
        self.mark_planes(&builder, access);
        builder.branch(tail);
    }

    fn mark_planes(&self, builder: &Builder<'a>, access: &Access<'a>) {
        let address = builder.address_space_cast(access.address, self.context.ptr_type(0));
        for (wanted, plane) in [(access.reads, 0), (access.writes, 1)] {
            if wanted {
                self.mark_plane(builder, address, access.bytes, self.context.int_type(64).constant(plane));
            }
        }
    }

    fn mark_plane(&self, builder: &Builder<'a>, address: Value<'a>, bytes: Bytes<'a>, plane: Value<'a>) {
        let i64 = self.context.int_type(64);
        match bytes {
            // Accesses of these sizes are aligned, so they lie in one block.
            Bytes::Known(bytes) if bytes.is_power_of_two() && bytes <= 16 => {
                self.mark_one(builder, address, plane)
            }
            Bytes::Known(bytes) if bytes <= SMALL_COPY_BYTES => {
                self.mark_one(builder, address, plane);
                let last = builder.offset(address, i64.constant(bytes.saturating_sub(1)));
                self.mark_one(builder, last, plane);
            }
            Bytes::Known(bytes) => self.mark_range(builder, address, i64.constant(bytes), plane),
            Bytes::Computed(bytes) => self.mark_range(builder, address, bytes, plane),
        }
    }

    fn mark_one(&self, builder: &Builder<'a>, address: Value<'a>, plane: Value<'a>) {
        if self.marks_out_of_line {
            let number = builder.cast(Opcode::LLVMPtrToInt, address, self.context.int_type(64));
            builder.call(self.helper(runtime::MARK_OUT_OF_LINE), &[self.thread.block_context, number, plane]);
            return;
        }
        let mark = builder.call(self.helper("eager.mark"), &[self.thread.block_context, address, plane]);
        let store = builder.store(self.context.int_type(8).constant(1), mark);
        if let Some(scope) = self.touch_scope() {
            store.set_metadata(self.context.metadata_kind("alias.scope"), scope);
        }
    }

    fn mark_range(&self, builder: &Builder<'a>, address: Value<'a>, bytes: Value<'a>, plane: Value<'a>) {
        let bytes = builder.cast_integer(bytes, self.context.int_type(64));
        builder.call(self.helper("eager.touch_range"), &[self.thread.block_context, address, bytes, plane]);
    }

    fn count(&self, block: Block<'a>, cost: &Cost<'a>) {
        let i64 = self.context.int_type(64);
        let builder = self.context.builder();
        builder.before(block.terminator());
        let count = self.helper("eager.count");
        if cost.bytes + cost.flops32 + cost.flops64 > 0 {
            let sums = [cost.bytes, cost.flops32, cost.flops64].map(|n| i64.constant(n));
            builder.call(count, &[self.counters, sums[0], sums[1], sums[2]]);
        }
        for &bytes in &cost.computed_bytes {
            let bytes = builder.cast_integer(bytes, i64);
            builder.call(count, &[self.counters, bytes, i64.constant(0), i64.constant(0)]);
        }
    }
}

fn accesses<'m>(instruction: Value<'m>, machine: &Machine) -> Vec<Access<'m>> {
    let sized = |address: Value<'m>, ty: Type<'m>, reads: bool, writes: bool| {
        vec![Access { address, bytes: Bytes::Known(machine.size_of(ty)), reads, writes }]
    };
    match instruction.opcode() {
        Some(Opcode::LLVMLoad) => sized(instruction.operand(0), instruction.ty(), true, false),
        Some(Opcode::LLVMStore) => sized(instruction.operand(1), instruction.operand(0).ty(), false, true),
        Some(Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg) => {
            sized(instruction.operand(0), instruction.operand(1).ty(), true, true)
        }
        Some(Opcode::LLVMCall) => accesses_of_call(instruction, machine),
        _ => Vec::new(),
    }
}

fn accesses_of_call<'m>(call: Value<'m>, machine: &Machine) -> Vec<Access<'m>> {
    let Some(name) = call.callee().map(Value::name) else { return Vec::new() };
    let bytes = |value: Value<'m>| value.constant_integer().map_or(Bytes::Computed(value), Bytes::Known);
    let writes_to =
        |length| Access { address: call.operand(0), bytes: bytes(length), reads: false, writes: true };
    if name.starts_with("llvm.memset.") {
        vec![writes_to(call.operand(2))]
    } else if name.starts_with("llvm.memcpy.") || name.starts_with("llvm.memmove.") {
        let length = call.operand(2);
        vec![
            Access { address: call.operand(1), bytes: bytes(length), reads: true, writes: false },
            writes_to(length),
        ]
    } else if name.starts_with("llvm.nvvm.atomic.") {
        let ty = call.operand(1).ty();
        vec![Access {
            address: call.operand(0),
            bytes: Bytes::Known(machine.size_of(ty)),
            reads: true,
            writes: true,
        }]
    } else {
        Vec::new()
    }
}

/// Floating-point operations in single (or half) and in double precision. A fused multiply-add counts two, a square
/// root one, a call of the C library's mathematics the number that a GPU needs for it.
fn flops(instruction: Value) -> (u64, u64) {
    let operations = match instruction.opcode() {
        Some(
            Opcode::LLVMFAdd | Opcode::LLVMFSub | Opcode::LLVMFMul | Opcode::LLVMFDiv | Opcode::LLVMFRem,
        ) => 1,
        Some(Opcode::LLVMCall) => match instruction.callee().map(Value::name) {
            Some(name) if name.starts_with("llvm.fma.") || name.starts_with("llvm.fmuladd.") => 2,
            Some(name) if name.starts_with("llvm.sqrt.") => 1,
            Some(name) => math::c_library_flops(&name).unwrap_or(0),
            None => 0,
        },
        _ => 0,
    };
    let ty = instruction.ty();
    let (scalar, lanes) = match ty.kind() {
        TypeKind::LLVMVectorTypeKind => (ty.element(), u64::from(ty.vector_length())),
        _ => (ty, 1),
    };
    match scalar.kind() {
        // Extended precision replaces `double` where the C library's function is not accurate enough.
        TypeKind::LLVMDoubleTypeKind | TypeKind::LLVMX86_FP80TypeKind => (0, operations * lanes),
        TypeKind::LLVMFloatTypeKind | TypeKind::LLVMHalfTypeKind | TypeKind::LLVMBFloatTypeKind => {
            (operations * lanes, 0)
        }
        _ => (0, 0),
    }
}

/// Instruments all `blocks`.
pub(crate) fn instrument(instrument: &Instrument, blocks: &[Block]) {
    for &block in blocks {
        instrument.block(block);
    }
}
