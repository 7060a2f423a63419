//! Runs device code as one thread and records which buffers it accesses: the oracle for the promises.
//!
//! The machine behaves as badly as real code can: numbers made from addresses still lead there, unknown code accesses
//! everything that it was ever given, and one buffer holds the address of another from the start.

use std::collections::BTreeMap;

use eager_kernel_facts::access::code::{
    Arithmetic, BlockId, FunctionId, Kind, Memory, Operand, Param, Program, Relation, ValueId,
};

/// Number of buffers behind the kernel's pointer parameters. The by-value parameter holds the addresses of two more.
pub const POINTERS: usize = 3;
const STEPS_MAX: usize = 400;
const DEPTH_MAX: usize = 6;

/// Accesses to one buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub read: bool,
    pub written: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Buffer(usize),
    /// The private copy of the by-value parameter of one call.
    Copy(usize),
    Made(usize),
    Global(Memory),
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Number(i64),
    Address(Object, i64),
}

pub struct Machine<'p> {
    program: &'p Program,
    memory: BTreeMap<(Object, i64), Value>,
    /// Addresses that unknown code has seen.
    leaked: Vec<Value>,
    done: [Done; POINTERS],
    steps: usize,
    made: usize,
}

impl<'p> Machine<'p> {
    /// Runs function 0 and returns the accesses to the buffers of its pointer parameters.
    pub fn run(program: &'p Program) -> [Done; POINTERS] {
        let mut machine = Self {
            program,
            memory: BTreeMap::new(),
            leaked: Vec::new(),
            done: [Done::default(); POINTERS],
            steps: 0,
            made: 0,
        };
        let copy = Object::Copy(0);
        machine.memory.insert((copy, 0), Value::Address(Object::Buffer(POINTERS), 0));
        machine.memory.insert((copy, 8), Value::Address(Object::Buffer(POINTERS + 1), 0));
        machine.memory.insert((Object::Buffer(2), 0), Value::Address(Object::Buffer(0), 0));
        let buffers = (0..POINTERS).map(|index| Value::Address(Object::Buffer(index), 0));
        let args: Vec<Value> = buffers.chain([Value::Address(copy, 0), Value::Number(3)]).collect();
        machine.call(FunctionId(0), &args, 0);
        machine.done
    }

    fn call(&mut self, callee: FunctionId, args: &[Value], depth: usize) -> Value {
        let program = self.program;
        let Some(function) = program.functions.get(callee.index()).filter(|_| depth < DEPTH_MAX) else {
            return Value::Number(0);
        };
        let mut frame = vec![Value::Number(0); function.values as usize];
        frame[..args.len()].copy_from_slice(args);
        let (mut at, mut before) = (BlockId(0), BlockId(0));
        while let Some(block) = function.blocks.get(at.index()) {
            for instruction in &block.instructions {
                self.steps += 1;
                if self.steps > STEPS_MAX {
                    return Value::Number(0);
                }
                if let Kind::Return { value } = instruction.kind {
                    return read(&frame, value);
                }
                let result = self.step(&frame, &instruction.kind, before, depth);
                if let Some(ValueId(id)) = instruction.result {
                    frame[id as usize] = result;
                }
            }
            before = at;
            at = match block.successors[..] {
                [] => break,
                [only] => only,
                [if_true, if_false, ..] => {
                    let condition = block.condition.map_or(Value::Number(0), |operand| read(&frame, operand));
                    if is_true(condition) { if_true } else { if_false }
                }
            };
        }
        Value::Number(0)
    }

    fn step(&mut self, frame: &[Value], kind: &Kind, before: BlockId, depth: usize) -> Value {
        let of = |operand: &Operand| read(frame, *operand);
        match kind {
            Kind::Arithmetic { op, left, right } => arithmetic(*op, of(left), of(right)),
            Kind::Convert { from } => of(from),
            Kind::Choose { condition, if_true, if_false } => {
                if is_true(of(condition)) {
                    of(if_true)
                } else {
                    of(if_false)
                }
            }
            Kind::Merge { incoming } => {
                let edge = incoming.iter().find(|(block, _)| *block == before).or(incoming.first());
                edge.map_or(Value::Number(0), |(_, operand)| of(operand))
            }
            Kind::Offset { base, constant, terms } => {
                let index = terms.iter().map(|(scale, index)| scale.wrapping_mul(number(of(index))));
                moved(of(base), index.fold(*constant, i64::wrapping_add))
            }
            Kind::Compare { relation, left, right } => {
                let equal = number(of(left)) == number(of(right));
                Value::Number(i64::from(equal == (*relation == Relation::Equal)))
            }
            Kind::Read(_) => Value::Number(1),
            Kind::Object(memory) => {
                self.made += 1;
                let object = if *memory == Memory::Private {
                    Object::Made(self.made)
                } else {
                    Object::Global(*memory)
                };
                Value::Address(object, 0)
            }
            Kind::Load { from, .. } => self.load(of(from)),
            Kind::Store { to, value, .. } => self.store(of(to), of(value)),
            Kind::Update { at, operands, .. } => {
                let old = self.load(of(at));
                self.store(of(at), operands.first().map_or(Value::Number(0), of));
                old
            }
            Kind::Copy { to, from } => {
                for offset in [0, 8] {
                    let value = self.load(moved(of(from), offset));
                    self.store(moved(of(to), offset), value);
                }
                Value::Number(0)
            }
            Kind::Fill { to } => self.store(of(to), Value::Number(0)),
            Kind::Call { callee: Some(callee), args } => {
                let args: Vec<Value> = args.iter().map(of).collect();
                let args = self.with_copies(*callee, args);
                self.call(*callee, &args, depth + 1)
            }
            Kind::Call { callee: None, args } => self.unknown_code(args.iter().map(of).collect()),
            Kind::Opaque { operands } => {
                let mut values = operands.iter().map(of);
                values.find(|value| matches!(value, Value::Address(..))).unwrap_or(Value::Number(7))
            }
            Kind::Return { .. } => Value::Number(0),
        }
    }

    /// Replaces by-value arguments by the addresses of copies that the call makes.
    fn with_copies(&mut self, callee: FunctionId, mut args: Vec<Value>) -> Vec<Value> {
        let params = self.program.functions.get(callee.index()).map_or(&[][..], |function| &function.params);
        for (arg, _) in args.iter_mut().zip(params).filter(|(_, param)| **param == Param::ByValue) {
            self.made += 1;
            let copy = Value::Address(Object::Made(self.made), 0);
            for offset in [0, 8] {
                let value = self.load(moved(*arg, offset));
                self.store(moved(copy, offset), value);
            }
            *arg = copy;
        }
        args
    }

    /// Accesses everything that unknown code was ever given and the targets of addresses stored there; returns one of
    /// them.
    fn unknown_code(&mut self, args: Vec<Value>) -> Value {
        self.leaked.extend(args);
        for known in self.leaked.clone() {
            let held = self.load(known);
            self.store(known, held);
            self.load(held);
            self.store(held, held);
        }
        self.leaked.last().copied().unwrap_or(Value::Number(0))
    }

    fn load(&mut self, from: Value) -> Value {
        let Value::Address(object, offset) = from else { return Value::Number(0) };
        if let Object::Buffer(index) = object
            && let Some(done) = self.done.get_mut(index)
        {
            done.read = true;
        }
        self.memory.get(&(object, offset)).copied().unwrap_or(Value::Number(offset & 7))
    }

    fn store(&mut self, to: Value, value: Value) -> Value {
        if let Value::Address(object, offset) = to {
            if let Object::Buffer(index) = object
                && let Some(done) = self.done.get_mut(index)
            {
                done.written = true;
            }
            self.memory.insert((object, offset), value);
        }
        Value::Number(0)
    }
}

fn read(frame: &[Value], operand: Operand) -> Value {
    match operand {
        Operand::Value(value) => frame.get(value.index()).copied().unwrap_or(Value::Number(0)),
        Operand::Integer(value) => Value::Number(value),
        Operand::Address(memory) => Value::Address(Object::Global(memory), 0),
        Operand::Constant => Value::Number(0),
    }
}

fn number(value: Value) -> i64 {
    match value {
        Value::Number(value) => value,
        Value::Address(_, offset) => offset.wrapping_add(1 << 40),
    }
}

fn is_true(value: Value) -> bool {
    number(value) != 0
}

fn moved(value: Value, by: i64) -> Value {
    match value {
        Value::Number(value) => Value::Number(value.wrapping_add(by)),
        // Stays within the object: moving from one object into another is undefined behaviour.
        Value::Address(object, offset) => Value::Address(object, offset.wrapping_add(by) & 31),
    }
}

/// A number made from an address still leads to the address's object.
fn arithmetic(op: Arithmetic, left: Value, right: Value) -> Value {
    if let Value::Address(..) = left {
        return moved(left, number(right) & 31);
    }
    if let Value::Address(..) = right {
        return moved(right, number(left) & 31);
    }
    let (left, right) = (number(left), number(right));
    Value::Number(match op {
        Arithmetic::Add => left.wrapping_add(right),
        Arithmetic::Subtract => left.wrapping_sub(right),
        Arithmetic::Multiply => left.wrapping_mul(right),
        Arithmetic::ShiftLeft => left.wrapping_shl(right as u32),
        Arithmetic::ShiftRight => left.wrapping_shr(right as u32),
        Arithmetic::Divide => left.checked_div(right).unwrap_or(0),
        Arithmetic::Remainder => left.checked_rem(right).unwrap_or(0),
        Arithmetic::And => left & right,
        Arithmetic::Or => left | right,
        Arithmetic::Xor => left ^ right,
    })
}
