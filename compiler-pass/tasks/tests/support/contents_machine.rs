//! Runs a program on a machine that tracks buffer contents: which buffers are declared dead, and which are used after
//! that.
//!
//! Everything outside the program does its worst: allocations fail or reuse addresses, uninitialised variables and
//! freed pointers equal addresses in use, kernels use every pointer that they can find, and unknown code uses anything
//! it was ever given at any later time. What the program itself does with an invalid pointer is undefined and no fault
//! of the analysis, so only valid pointers are checked.

use std::collections::{BTreeMap, BTreeSet};

use eager_tasks::contents::Capture;
use eager_tasks::deaths::Outcome;
use eager_tasks::names::{FunctionId, PointerId};
use eager_tasks::program::{ActionKind, Actual, Leave, PointerDef, Program};
use eager_tasks::{BlockId, BufferId, FunctionPlan, Point, ReloadBase, Spot};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Value {
    #[default]
    Null,
    Cell(usize),
    /// Valid as long as the address has this generation.
    Device(usize, u32),
}

#[derive(Clone, Debug, Default)]
struct Memory {
    generation: u32,
    is_there: bool,
    is_dead: bool,
    is_used: bool,
    /// Pointers that were put into the buffer.
    holds: BTreeSet<Value>,
}

#[derive(Debug)]
struct Activation {
    function: FunctionId,
    args: Vec<Value>,
    locals: BTreeMap<PointerId, usize>,
    values: BTreeMap<PointerId, Value>,
    captured: BTreeMap<BufferId, Value>,
}

enum Ending {
    Returned(Value),
    Unwound,
    Stopped,
}

/// Counts of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Lives of buffers that were used and then freed, or left behind by a program that returned.
    pub lives: usize,
    /// Those of `lives` that were declared dead before their end.
    pub declared: usize,
}

#[derive(Debug)]
pub struct Machine<'a> {
    program: &'a Program,
    plans: BTreeMap<FunctionId, &'a FunctionPlan>,
    cells: Vec<Value>,
    memory: Vec<Memory>,
    /// Pointers that unknown code was given. `symbols`: pointers that device variables hold.
    known: BTreeSet<Value>,
    symbols: BTreeSet<Value>,
    stack: Vec<Activation>,
    choices: &'a [u8],
    drawn: usize,
    steps: usize,
    pub counts: Counts,
}

const STEPS_MAX: usize = 200;
const DEPTH_MAX: usize = 6;
const ADDRESSES: usize = 6;

impl<'a> Machine<'a> {
    pub fn new(program: &'a Program, plans: &'a [FunctionPlan], choices: &'a [u8]) -> Self {
        Self {
            program,
            plans: plans.iter().map(|plan| (plan.function, plan)).collect(),
            cells: vec![Value::Null; program.globals.len()],
            memory: vec![Memory::default(); ADDRESSES],
            known: BTreeSet::new(),
            symbols: BTreeSet::new(),
            stack: Vec::new(),
            choices,
            drawn: 0,
            steps: 0,
            counts: Counts::default(),
        }
    }

    /// Runs `main`, the first function.
    pub fn run(&mut self) {
        let ending = self.enter(FunctionId(0), Vec::new());
        if matches!(ending, Ending::Returned(_)) {
            (0..ADDRESSES).for_each(|address| self.end_life(address));
        }
    }

    fn draw(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        usize::from(self.choices[self.drawn % self.choices.len()]) % bound
    }

    fn enter(&mut self, function: FunctionId, args: Vec<Value>) -> Ending {
        let mut locals = BTreeMap::new();
        for (id, def) in (0_u32..).map(PointerId).zip(&self.program.function(function).pointers) {
            if *def == PointerDef::Local {
                locals.insert(id, self.cells.len());
                // An uninitialised variable holds whatever the stack held before.
                let address = self.draw(ADDRESSES);
                self.cells.push(Value::Device(address, u32::MAX));
            }
        }
        let (values, captured) = (BTreeMap::new(), BTreeMap::new());
        self.stack.push(Activation { function, args, locals, values, captured });
        let ending = self.walk(function);
        self.stack.pop();
        ending
    }

    fn top(&mut self) -> &mut Activation {
        self.stack.last_mut().expect("running")
    }

    fn walk(&mut self, function: FunctionId) -> Ending {
        let facts = self.program.function(function);
        let mut block = BlockId(0);
        loop {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Ending::Stopped;
            }
            let current = &facts.blocks[block.index()];
            let mut way = None;
            for position in 0..current.len {
                let at = Point { block, position };
                self.pass(function, Spot::Before(at));
                self.load(function, at);
                let before = self.places(function, at);
                let mut succeeded = false;
                for action in facts.actions.iter().filter(|action| action.at == at) {
                    let is_last = position + 1 == current.len;
                    match self.act(at, &action.kind, &mut succeeded) {
                        Ending::Unwound if is_last && current.successors.len() == 2 => way = Some(1),
                        Ending::Returned(value) => {
                            if let ActionKind::Call { .. } = action.kind {
                                self.set_result(function, at, value);
                                way = way.or((is_last && current.successors.len() == 2).then_some(0));
                            }
                        }
                        other => return other,
                    }
                    self.watch();
                }
                if way != Some(1) {
                    self.capture(function, at, succeeded, &before);
                }
            }
            match current.leaves {
                Some(Leave::Return) => {
                    let at = Point { block, position: current.len - 1 };
                    let value = facts.returns.iter().find(|(point, _)| *point == at);
                    return Ending::Returned(value.map(|&(_, id)| self.value(id)).unwrap_or_default());
                }
                Some(Leave::Unwind) => return Ending::Unwound,
                Some(Leave::Never) => return Ending::Stopped,
                None => {}
            }
            let choice = self.draw(256);
            let next = current.successors[way.unwrap_or(choice % current.successors.len())];
            self.pass(function, Spot::OnEdge { from: block, to: next });
            block = next;
        }
    }

    fn deaths(&self, function: FunctionId) -> Vec<(BufferId, &'a eager_tasks::deaths::Dead)> {
        let plan = self.plans.get(&function).map(|plan| &plan.plan);
        let of_tasks = plan.into_iter().flat_map(|plan| &plan.tasks).flat_map(|task| &task.buffers);
        let buffers = of_tasks.chain(plan.into_iter().flat_map(|plan| &plan.dead));
        buffers
            .filter_map(|plan| match &plan.outcome {
                Outcome::Dead(dead) => Some((plan.buffer, dead)),
                Outcome::Alive { .. } | Outcome::DeadInside { .. } => None,
            })
            .collect()
    }

    /// Values before a call of the places whose captures compare them with their values after the call.
    fn places(&mut self, function: FunctionId, at: Point) -> BTreeMap<BufferId, Value> {
        let mut found = BTreeMap::new();
        for (buffer, dead) in self.deaths(function) {
            for capture in dead.captures.iter().filter(|capture| capture.at() == at) {
                if let Capture::Place { base, .. } = capture {
                    found.insert(buffer, self.place(*base));
                }
            }
        }
        found
    }

    fn place(&mut self, base: ReloadBase) -> Value {
        let cell = match base {
            ReloadBase::Global(global) => global.index(),
            ReloadBase::Pointer(id) => self.top().locals[&id],
        };
        self.cells[cell]
    }

    fn capture(
        &mut self,
        function: FunctionId,
        at: Point,
        succeeded: bool,
        before: &BTreeMap<BufferId, Value>,
    ) {
        for (buffer, dead) in self.deaths(function) {
            for capture in dead.captures.iter().filter(|capture| capture.at() == at) {
                let value = match *capture {
                    Capture::Returned { .. } => self.result(function, at),
                    Capture::Allocation { into, .. } => match self.value(into) {
                        Value::Cell(cell) if succeeded => self.cells[cell],
                        _ => Value::Null,
                    },
                    Capture::Place { base, .. } => {
                        let now = self.place(base);
                        // Only device addresses can be compared.
                        let same = matches!((now, before[&buffer]), (Value::Device(a, _), Value::Device(b, _)) if a == b);
                        if same { Value::Null } else { now }
                    }
                };
                self.top().captured.insert(buffer, value);
            }
        }
    }

    fn pass(&mut self, function: FunctionId, spot: Spot) {
        for (buffer, dead) in self.deaths(function) {
            if dead.spots.contains(&spot)
                && let Some(&Value::Device(address, _)) = self.top().captured.get(&buffer)
                && self.memory[address].is_there
            {
                self.memory[address].is_dead = true;
            }
        }
        self.watch();
    }

    /// Fails if a dead buffer can be reached by unknown code, which may use everything that it was given at any time.
    fn watch(&mut self) {
        let globals = self.program.globals.iter().zip(&self.cells);
        let visible: Vec<Value> = globals.filter(|(g, _)| g.visible).map(|(_, &value)| value).collect();
        let all: Vec<Value> = self.known.iter().copied().chain(visible).collect();
        for value in self.closure(all) {
            self.check(value, "code that is not known");
        }
    }

    fn check(&self, value: Value, user: &str) {
        if let Value::Device(address, generation) = value {
            let memory = &self.memory[address];
            let is_valid = memory.is_there && memory.generation == generation;
            assert!(!is_valid || !memory.is_dead, "address {address} is dead and used by {user}");
        }
    }

    fn use_all(&mut self, values: Vec<Value>, user: &str) {
        for value in self.closure(values) {
            self.check(value, user);
            if let Value::Device(address, generation) = value
                && self.memory[address].generation == generation
            {
                self.memory[address].is_used = true;
            }
        }
    }

    /// The values and everything that can be reached from them.
    fn closure(&self, values: Vec<Value>) -> BTreeSet<Value> {
        let mut found = BTreeSet::new();
        let mut pending = values;
        while let Some(value) = pending.pop() {
            if !found.insert(value) {
                continue;
            }
            match value {
                Value::Cell(cell) => pending.push(self.cells[cell]),
                Value::Device(address, generation) if self.memory[address].generation == generation => {
                    pending.extend(&self.memory[address].holds);
                }
                _ => {}
            }
        }
        found
    }

    fn end_life(&mut self, address: usize) {
        let memory = &mut self.memory[address];
        if memory.is_there {
            self.counts.lives += usize::from(memory.is_used);
            self.counts.declared += usize::from(memory.is_used && memory.is_dead);
        }
        memory.is_there = false;
    }

    fn load(&mut self, function: FunctionId, at: Point) {
        for (id, def) in (0_u32..).map(PointerId).zip(&self.program.function(function).pointers) {
            if let PointerDef::Load { from, at: point } = def
                && *point == at
            {
                let value = match self.value(*from) {
                    Value::Cell(cell) => self.cells[cell],
                    _ => Value::Null,
                };
                self.top().values.insert(id, value);
            }
        }
    }

    /// Whether the pass sets a variable to null before the allocation that fills it, for the benefit of a caller's
    /// capture.
    fn is_cleared(&self, at: Point, into: PointerId) -> bool {
        let running = self.stack.last().expect("running").function;
        let clears = |capture: &Capture| {
            matches!(*capture, Capture::Returned { function, made, variable, .. }
                if (function, made, variable) == (running, at, into))
        };
        self.plans
            .keys()
            .any(|&user| self.deaths(user).iter().any(|(_, dead)| dead.captures.iter().any(clears)))
    }

    fn result(&mut self, function: FunctionId, at: Point) -> Value {
        let defs = &self.program.function(function).pointers;
        let result = defs.iter().position(|def| *def == PointerDef::Result(at));
        let id = result.map(|index| PointerId(u32::try_from(index).expect("few pointers")));
        id.and_then(|id| self.top().values.get(&id).copied()).unwrap_or_default()
    }

    fn set_result(&mut self, function: FunctionId, at: Point, value: Value) {
        for (id, def) in (0_u32..).map(PointerId).zip(&self.program.function(function).pointers) {
            if *def == PointerDef::Result(at) {
                self.top().values.insert(id, value);
            }
        }
    }

    fn value(&self, pointer: PointerId) -> Value {
        let top = self.stack.last().expect("running");
        match self.program.function(top.function).pointer(pointer) {
            PointerDef::Nothing => Value::Null,
            PointerDef::Local => Value::Cell(top.locals[&pointer]),
            PointerDef::Global(global) => Value::Cell(global.index()),
            PointerDef::Argument(index) => top.args.get(*index as usize).copied().unwrap_or_default(),
            PointerDef::Load { .. } | PointerDef::Result(_) => {
                top.values.get(&pointer).copied().unwrap_or_default()
            }
            other => panic!("the generator makes no {other:?}"),
        }
    }

    fn allocate(&mut self, into: PointerId) -> bool {
        let Value::Cell(cell) = self.value(into) else { return false };
        let first = self.draw(ADDRESSES);
        let free = (0..ADDRESSES).map(|i| (first + i) % ADDRESSES).find(|&i| !self.memory[i].is_there);
        let Some(address) = free.filter(|_| self.draw(8) > 0) else { return false };
        let generation = self.memory[address].generation + 1;
        self.memory[address] = Memory { generation, is_there: true, ..Memory::default() };
        self.cells[cell] = Value::Device(address, generation);
        true
    }

    fn act(&mut self, at: Point, kind: &ActionKind, succeeded: &mut bool) -> Ending {
        match kind {
            ActionKind::Allocate { into, .. } => {
                if let (true, Value::Cell(cell)) = (self.is_cleared(at, *into), self.value(*into)) {
                    self.cells[cell] = Value::Null;
                }
                *succeeded = self.allocate(*into);
            }
            ActionKind::Free { pointer } => {
                if let Value::Device(address, generation) = self.value(*pointer)
                    && self.memory[address].generation == generation
                {
                    self.end_life(address);
                }
            }
            ActionKind::Store { value, to } => {
                if let Value::Cell(cell) = self.value(*to) {
                    self.cells[cell] = self.value(*value);
                }
            }
            ActionKind::Use { operands, .. } => {
                let values: Vec<_> = operands.iter().map(|&operand| self.value(operand)).collect();
                let devices = values.iter().copied().filter(|value| matches!(value, Value::Device(..)));
                for device in devices.collect::<Vec<_>>() {
                    self.check(device, &format!("a copy at {at:?}"));
                    self.put(device, &values);
                }
            }
            ActionKind::WriteSymbol { operands } => {
                let values = operands.iter().map(|&operand| self.value(operand)).collect();
                self.symbols.extend(self.closure(values));
            }
            ActionKind::Launch { operands, keeps_pointers, .. } => {
                let mut values: Vec<_> = operands.iter().map(|&operand| self.value(operand)).collect();
                values.extend(&self.symbols);
                self.use_all(values.clone(), &format!("a launch at {at:?}"));
                if *keeps_pointers {
                    values.iter().for_each(|&holder| self.put(holder, &values));
                    self.symbols.extend(values);
                } else {
                    // Kernels may still copy pointers that they find in memory.
                    let found: BTreeSet<Value> = values.iter().flat_map(|value| self.held(*value)).collect();
                    let found: Vec<_> = found.into_iter().collect();
                    values.iter().for_each(|&holder| self.put(holder, &found));
                }
            }
            ActionKind::Opaque { operands, .. } => {
                let values = operands.iter().map(|&operand| self.value(operand)).collect();
                self.known.extend(self.closure(values));
            }
            ActionKind::Call { callee, actuals } if self.stack.len() < DEPTH_MAX => {
                let value = |actual: &Actual| actual.pointer.map(|p| self.value(p)).unwrap_or_default();
                let args = actuals.iter().map(value).collect();
                return self.enter(*callee, args);
            }
            ActionKind::Call { .. } => return Ending::Stopped,
            other => panic!("the generator makes no {other:?}"),
        }
        Ending::Returned(Value::Null)
    }

    fn held(&self, holder: Value) -> BTreeSet<Value> {
        match holder {
            Value::Device(address, generation) if self.memory[address].generation == generation => {
                self.memory[address].holds.clone()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Puts `values`, and the pointers reachable from them through host memory, into a buffer.
    fn put(&mut self, holder: Value, values: &[Value]) {
        let found = self.closure(values.to_vec());
        if let Value::Device(address, generation) = holder
            && self.memory[address].generation == generation
        {
            self.memory[address].is_used = true;
            self.memory[address].holds.extend(found.into_iter().filter(|&value| value != holder));
        }
    }
}
