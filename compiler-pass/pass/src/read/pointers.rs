//! Reads pointer values of one function into [`PointerDef`]s, on demand.
//!
//! Trap: values refer to each other in cycles (a pointer that a loop advances), so a value must get its id before it is
//! read. And a chain of values may be too long for recursion, so values at great depth are queued and read later.

use std::collections::BTreeMap;

use eager_llvm::{Module, Opcode, Value};
use eager_tasks::names::{FunctionId, GlobalId, PointerId};
use eager_tasks::program::PointerDef;
use eager_tasks::{ForeignBuffer, Point};

use super::calls::Wrappers;
use super::library;

/// Limit on the successive offsets that are added to a pointer in one iteration of a loop.
const STEPS_MAX: usize = 8;

/// Globals that any function refers to, in the order of first reference.
#[derive(Debug, Default)]
pub struct Globals<'m> {
    pub values: Vec<Value<'m>>,
    ids: BTreeMap<Value<'m>, GlobalId>,
}

impl<'m> Globals<'m> {
    fn id(&mut self, value: Value<'m>) -> GlobalId {
        *self.ids.entry(value).or_insert_with(|| {
            self.values.push(value);
            GlobalId(u32::try_from(self.values.len() - 1).expect("fewer than 2^32 globals"))
        })
    }
}

/// Limit on nested reading of values; deeper values wait until the outer ones are done.
const DEPTH_MAX: usize = 200;

/// Reads the pointers of one function.
#[derive(Debug)]
pub struct PointerReader<'a, 'm> {
    pub module: &'m Module<'m>,
    pub wrappers: &'a Wrappers<'m>,
    pub functions: &'a BTreeMap<Value<'m>, FunctionId>,
    pub globals: &'a mut Globals<'m>,
    /// Point of every instruction of the function.
    pub points: &'a BTreeMap<Value<'m>, Point>,
    pub defs: Vec<PointerDef>,
    /// IR value of each pointer; `None` for pointers that the reader added.
    pub values: Vec<Option<Value<'m>>>,
    ids: BTreeMap<Value<'m>, PointerId>,
    depth: usize,
    waiting: Vec<(PointerId, Value<'m>)>,
}

impl<'a, 'm> PointerReader<'a, 'm> {
    #[must_use]
    pub fn new(
        module: &'m Module<'m>,
        wrappers: &'a Wrappers<'m>,
        functions: &'a BTreeMap<Value<'m>, FunctionId>,
        globals: &'a mut Globals<'m>,
        points: &'a BTreeMap<Value<'m>, Point>,
    ) -> Self {
        Self {
            module,
            wrappers,
            functions,
            globals,
            points,
            defs: Vec::new(),
            values: Vec::new(),
            ids: BTreeMap::new(),
            depth: 0,
            waiting: Vec::new(),
        }
    }

    /// Adds a pointer that is not a value of the function.
    pub fn add(&mut self, def: PointerDef) -> PointerId {
        self.defs.push(def);
        self.values.push(None);
        PointerId(u32::try_from(self.defs.len() - 1).expect("fewer than 2^32 pointers"))
    }

    /// Adds the pointer `by` bytes behind another.
    pub fn offset(&mut self, of: PointerId, by: i64) -> PointerId {
        self.add(PointerDef::Offset { of, by: Some(by) })
    }

    /// Id of a pointer, or of a struct that holds pointers.
    pub fn id(&mut self, value: Value<'m>) -> PointerId {
        if let Some(&known) = self.ids.get(&value) {
            return known;
        }
        // Until the value is read, the pointer may be anything.
        let id = self.add(PointerDef::Unknown(ForeignBuffer::Memory));
        self.ids.insert(value, id);
        self.values[id.index()] = Some(value);
        if self.depth == DEPTH_MAX {
            self.waiting.push((id, value));
            return id;
        }
        self.look_into(id, value);
        while self.depth == 0
            && let Some((id, value)) = self.waiting.pop()
        {
            self.look_into(id, value);
        }
        id
    }

    fn look_into(&mut self, id: PointerId, value: Value<'m>) {
        self.depth += 1;
        let def = self.def(value);
        self.defs[id.index()] = def;
        self.depth -= 1;
    }

    fn def(&mut self, value: Value<'m>) -> PointerDef {
        if let Some(index) = value.argument_index() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let by_value = value.own_byval_type().is_some();
            return if by_value { PointerDef::Copied(index) } else { PointerDef::Argument(index) };
        }
        if value.is_global() {
            let is_data = value.is_global_variable() && !value.is_global_constant();
            return if is_data { PointerDef::Global(self.globals.id(value)) } else { PointerDef::Nothing };
        }
        let Some(opcode) = value.opcode() else { return PointerDef::Nothing };
        let operands = value.operands();
        let at = self.points.get(&value).copied();
        match (opcode, at) {
            (Opcode::LLVMAlloca, Some(at)) => {
                let in_entry = at.block.index() == 0;
                if in_entry { PointerDef::Local } else { PointerDef::Fresh(at) }
            }
            // `stdin`, `stdout` and `stderr` point to the C library's own memory.
            (Opcode::LLVMLoad, _) if library::is_stream_variable(operands[0]) => PointerDef::Nothing,
            (Opcode::LLVMLoad, Some(at)) => PointerDef::Load { from: self.id(operands[0]), at },
            (Opcode::LLVMGetElementPtr, _) => {
                PointerDef::Offset { of: self.id(operands[0]), by: self.module.constant_offset(value) }
            }
            (Opcode::LLVMBitCast | Opcode::LLVMAddrSpaceCast | Opcode::LLVMFreeze, _) => {
                PointerDef::Choice(operands.into_iter().map(|operand| self.id(operand)).collect())
            }
            (Opcode::LLVMPHI, _) => self.choice(value, operands),
            (Opcode::LLVMSelect, _) => {
                PointerDef::Choice(operands.into_iter().skip(1).map(|operand| self.id(operand)).collect())
            }
            (Opcode::LLVMExtractValue, _) => match self.module.field_offset(value) {
                Some(offset) => PointerDef::Field { of: self.id(operands[0]), offset },
                None => PointerDef::Unknown(ForeignBuffer::Memory),
            },
            (Opcode::LLVMInsertValue, _) => self.fields(value),
            (Opcode::LLVMCall | Opcode::LLVMInvoke, Some(at)) => self.result(value, at),
            (Opcode::LLVMLandingPad, _) => PointerDef::Nothing,
            _ => PointerDef::Unknown(ForeignBuffer::Memory),
        }
    }

    /// A pointer from several sources. A pointer that a loop advances (`for (auto &x : array)`) is somewhere in the
    /// object that it started in. So it becomes a single unknown offset, and not a separate location for each
    /// iteration.
    fn choice(&mut self, phi: Value<'m>, operands: Vec<Value<'m>>) -> PointerDef {
        let is_step = |operand: &Value<'m>| {
            let moved = std::iter::successors(Some(*operand), |value| {
                let is_offset = value.opcode() == Some(Opcode::LLVMGetElementPtr);
                if is_offset { value.operand_at(0) } else { None }
            });
            moved.skip(1).take(STEPS_MAX).any(|from| from == phi)
        };
        let (steps, begins): (Vec<_>, Vec<_>) = operands.into_iter().partition(is_step);
        let begins = begins.into_iter().map(|begin| self.id(begin)).collect();
        if steps.is_empty() {
            return PointerDef::Choice(begins);
        }
        PointerDef::Offset { of: self.add(PointerDef::Choice(begins)), by: None }
    }

    /// Reads a struct that is built field by field.
    fn fields(&mut self, value: Value<'m>) -> PointerDef {
        let operands = value.operands();
        let [base, field] = operands[..] else { return PointerDef::Unknown(ForeignBuffer::Memory) };
        let base = self.id(base);
        let mut fields = match &self.defs[base.index()] {
            PointerDef::Fields(fields) => fields.clone(),
            PointerDef::Nothing => Vec::new(),
            _ => return PointerDef::Unknown(ForeignBuffer::Memory),
        };
        if field.ty().holds_pointer() {
            let Some(offset) = self.module.field_offset(value) else {
                return PointerDef::Unknown(ForeignBuffer::Memory);
            };
            let field = self.id(field);
            fields.retain(|&(at, _)| at != offset);
            fields.push((offset, field));
        }
        PointerDef::Fields(fields)
    }

    fn result(&mut self, call: Value<'m>, at: Point) -> PointerDef {
        if self.wrappers.runtime_call(call).is_some() || library::intrinsic_writes(call).is_some() {
            return PointerDef::Nothing;
        }
        let Some(callee) = call.call_target().filter(|callee| callee.is_function()) else {
            return PointerDef::Unknown(ForeignBuffer::CallResult);
        };
        if self.functions.contains_key(&callee) {
            return PointerDef::Result(at);
        }
        let name = callee.name();
        if library::is_allocator(&name) {
            return PointerDef::Fresh(at);
        }
        if name == "realloc" {
            return PointerDef::Choice(
                call.call_args().first().map(|&old| self.id(old)).into_iter().collect(),
            );
        }
        let is_library = library::is_library(self.module, callee);
        let is_plain =
            is_library && !call.call_args().iter().any(|arg| arg.is_pointer() && !arg.is_constant());
        if is_plain { PointerDef::Nothing } else { PointerDef::Unknown(ForeignBuffer::CallResult) }
    }
}
