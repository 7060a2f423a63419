//! Runs a program on a machine that checks its static tasks: what is allocated, launched and freed, and when.
//!
//! One action may be in tasks of several functions on the stack, and a function called twice may be in a task the first
//! time only. A task is checked against an action only if no other task of its function has that action too.

use std::collections::BTreeMap;

use eager_tasks::names::{FunctionId, PointerId};
use eager_tasks::program::{ActionKind, Actual, Leave, PointerDef, Program};
use eager_tasks::{BlockId, Expr, FunctionPlan, Placement, Point, SiteOrigin, Spot, StaticTask};

/// Value of a pointer at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Value {
    #[default]
    Null,
    /// A cell of host memory.
    Cell(usize),
    /// A device buffer.
    Device(usize),
}

#[derive(Debug, Default)]
struct Watch {
    begun: u32,
    all_launched: u32,
    ended: u32,
    /// Buffers that sites of the task allocated.
    buffers: Vec<usize>,
    /// Buffers allocated by sites that belong to the task only for some of the calls that lead to them.
    possible: Vec<usize>,
}

impl Watch {
    fn is_active(&self) -> bool {
        (self.begun, self.ended) == (1, 0)
    }
}

#[derive(Debug)]
struct Activation {
    function: FunctionId,
    args: Vec<Value>,
    locals: BTreeMap<PointerId, usize>,
    loaded: BTreeMap<PointerId, Value>,
    /// By position of the task in the function's plan.
    watches: BTreeMap<usize, Watch>,
}

/// Points at which the address of an element with an unknown index is computed.
pub type Elements = BTreeMap<(FunctionId, PointerId), Point>;

/// How a function ended.
enum Ending {
    Returned,
    Unwound,
    /// The process ended, or the walk became too long.
    Stopped,
}

#[derive(Debug)]
pub struct Machine<'a> {
    program: &'a Program,
    elements: &'a Elements,
    plans: BTreeMap<FunctionId, &'a FunctionPlan>,
    cells: Vec<Value>,
    /// Bytes of each device buffer; 0 once it is freed.
    devices: Vec<u64>,
    stack: Vec<Activation>,
    choices: &'a [u8],
    steps: usize,
    /// How often a static task was seen to begin.
    pub begins: usize,
}

/// A variable is an array of this many pointers.
const LOCAL_CELLS: usize = 2;
const STEPS_MAX: usize = 150;
const DEPTH_MAX: usize = 6;

impl<'a> Machine<'a> {
    pub fn new(
        (program, elements): &'a (Program, Elements),
        plans: &'a [FunctionPlan],
        choices: &'a [u8],
    ) -> Self {
        Self {
            program,
            elements,
            plans: plans.iter().map(|plan| (plan.function, plan)).collect(),
            cells: vec![Value::Null; program.globals.len()],
            devices: Vec::new(),
            stack: Vec::new(),
            choices,
            steps: 0,
            begins: 0,
        }
    }

    /// Whether an exception may leave the function through the call at `at`.
    fn throws_at(&self, function: FunctionId, at: Point) -> bool {
        self.program.function(function).throws.contains(&at)
    }

    fn choice(&self, salt: u32) -> usize {
        usize::from(self.choices[(self.steps + salt as usize) % self.choices.len()])
    }

    /// Runs `main`, the first function.
    pub fn run(&mut self) {
        self.enter(FunctionId(0), Vec::new());
    }

    fn enter(&mut self, function: FunctionId, args: Vec<Value>) -> Ending {
        let mut locals = BTreeMap::new();
        for (id, def) in (0_u32..).map(PointerId).zip(&self.program.function(function).pointers) {
            if *def == PointerDef::Local {
                locals.insert(id, self.cells.len());
                self.cells.extend([Value::Null; LOCAL_CELLS]);
            }
        }
        let tasks = self.statics(function).map(|(ordinal, _)| (ordinal, Watch::default())).collect();
        self.stack.push(Activation { function, args, locals, loaded: BTreeMap::new(), watches: tasks });
        let ending = self.walk(function);
        let activation = self.stack.pop().expect("entered above");
        if !matches!(ending, Ending::Stopped) {
            for (ordinal, watch) in &activation.watches {
                let seen = (watch.all_launched, watch.ended);
                assert_eq!(seen, (watch.begun, watch.begun), "task {ordinal} of {function:?} left");
                assert!(watch.begun <= 1, "task {ordinal} of {function:?} begins twice");
            }
        }
        ending
    }

    fn statics(&self, function: FunctionId) -> impl Iterator<Item = (usize, &'a StaticTask)> + use<'a> {
        let tasks = self.plans.get(&function).map(|plan| plan.plan.tasks.as_slice()).unwrap_or_default();
        tasks.iter().enumerate().filter_map(|(ordinal, task)| match &task.placement {
            Placement::Static(task) => Some((ordinal, task)),
            Placement::Lazy { .. } => None,
        })
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
                let is_call = facts.actions.iter().any(|action| action.at == at);
                if !is_call && self.throws_at(function, at) && self.choice(position).is_multiple_of(4) {
                    self.unwind(function, at);
                    return Ending::Unwound;
                }
                for action in facts.actions.iter().filter(|action| action.at == at) {
                    match self.act(function, at, &action.kind) {
                        Ending::Returned => {}
                        Ending::Unwound if position + 1 == current.len && current.successors.len() == 2 => {
                            way = Some(1);
                        }
                        Ending::Unwound if self.throws_at(function, at) => {
                            self.unwind(function, at);
                            return Ending::Unwound;
                        }
                        // The function is marked as one that lets no exception out, so the process ends.
                        Ending::Unwound => return Ending::Stopped,
                        Ending::Stopped => return Ending::Stopped,
                    }
                    let is_call = matches!(action.kind, ActionKind::Call { .. });
                    if is_call && position + 1 == current.len && way.is_none() {
                        way = Some(0);
                    }
                }
            }
            match current.leaves {
                Some(Leave::Return) => return Ending::Returned,
                Some(Leave::Unwind) => return Ending::Unwound,
                Some(Leave::Never) => return Ending::Stopped,
                None => {}
            }
            let way = way.unwrap_or(self.choice(0) % current.successors.len());
            let next = current.successors[way];
            self.pass(function, Spot::OnEdge { from: block, to: next });
            block = next;
        }
    }

    /// Executes the plan's actions for an exception that leaves the function through a call.
    fn unwind(&mut self, function: FunctionId, at: Point) {
        for (ordinal, task) in self.statics(function) {
            let top = self.stack.last_mut().expect("running");
            let watch = top.watches.get_mut(&ordinal).expect("watched");
            for unwind in task.unwinds.iter().filter(|unwind| unwind.call == at) {
                watch.all_launched += u32::from(unwind.all_launched);
                watch.ended += 1;
            }
        }
    }

    /// Executes the plan's actions at a spot.
    fn pass(&mut self, function: FunctionId, spot: Spot) {
        for (ordinal, task) in self.statics(function) {
            let top = self.stack.last_mut().expect("running");
            let watch = top.watches.get_mut(&ordinal).expect("watched");
            let count = |spots: &[Spot]| u32::try_from(spots.iter().filter(|&&s| s == spot).count()).unwrap();
            watch.all_launched += count(&task.all_launched);
            watch.ended += count(&task.ends);
            if spot == Spot::Before(task.begin) {
                watch.begun += 1;
                self.begins += 1;
            }
        }
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
                self.stack.last_mut().expect("running").loaded.insert(id, value);
            }
            if let PointerDef::Offset { of, by: None } = def
                && self.elements.get(&(function, id)) == Some(&at)
                && let Value::Cell(array) = self.value(*of)
            {
                let element = Value::Cell(array + self.choice(id.0) % LOCAL_CELLS);
                self.stack.last_mut().expect("running").loaded.insert(id, element);
            }
        }
    }

    fn value(&self, pointer: PointerId) -> Value {
        let top = self.stack.last().expect("running");
        match self.program.function(top.function).pointer(pointer) {
            PointerDef::Local => Value::Cell(top.locals[&pointer]),
            PointerDef::Global(global) => Value::Cell(global.index()),
            PointerDef::Argument(index) => top.args.get(*index as usize).copied().unwrap_or_default(),
            PointerDef::Offset { of, by: Some(by) } => match self.value(*of) {
                Value::Cell(array) => Value::Cell(array + usize::try_from(by / 8).expect("an element")),
                other => other,
            },
            PointerDef::Load { .. } | PointerDef::Offset { .. } => {
                top.loaded.get(&pointer).copied().unwrap_or_default()
            }
            other => panic!("the generator makes no {other:?}"),
        }
    }

    fn act(&mut self, function: FunctionId, at: Point, kind: &ActionKind) -> Ending {
        let origin = SiteOrigin { function, at };
        match kind {
            ActionKind::Allocate { into, size, .. } => {
                let Some(Expr::Const { value: bytes, .. }) = size else { panic!("sizes are constants") };
                if let Value::Cell(cell) = self.value(*into) {
                    self.devices.push(*bytes);
                    self.cells[cell] = Value::Device(self.devices.len() - 1);
                    self.allocated(origin, self.devices.len() - 1);
                }
            }
            ActionKind::Free { pointer } => {
                if let Value::Device(device) = self.value(*pointer) {
                    self.devices[device] = 0;
                }
            }
            ActionKind::Store { value, to } => {
                if let Value::Cell(cell) = self.value(*to) {
                    self.cells[cell] = self.value(*value);
                }
            }
            ActionKind::Launch { operands, .. } => {
                let values = operands.iter().map(|&operand| self.value(operand)).collect::<Vec<_>>();
                self.launched(origin, &values);
            }
            ActionKind::Call { callee, actuals } if self.stack.len() < DEPTH_MAX => {
                let value = |actual: &Actual| actual.pointer.map(|p| self.value(p)).unwrap_or_default();
                let args = actuals.iter().map(value).collect();
                return self.enter(*callee, args);
            }
            ActionKind::Call { .. } => return Ending::Stopped,
            other => panic!("the generator makes no {other:?}"),
        }
        Ending::Returned
    }

    /// Static tasks on the stack that an action belongs to, unless another task of the same function has the action
    /// too.
    fn claims(&self, origin: SiteOrigin) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for (depth, activation) in self.stack.iter().enumerate() {
            let Some(plan) = self.plans.get(&activation.function) else { continue };
            let has = |task: &eager_tasks::TaskPlan| {
                task.sites.iter().any(|&site| plan.facts.sites[site].origin == origin)
            };
            let count = plan.facts.sites.iter().filter(|site| site.origin == origin).count();
            let all: Vec<_> =
                plan.plan.tasks.iter().enumerate().filter(|(_, task)| has(task)).map(|(o, _)| o).collect();
            if let [only] = all[..]
                && activation.watches.contains_key(&only)
                && count
                    == plan.plan.tasks[only]
                        .sites
                        .iter()
                        .filter(|&&s| plan.facts.sites[s].origin == origin)
                        .count()
            {
                found.push((depth, only));
            }
        }
        found
    }

    fn allocated(&mut self, origin: SiteOrigin, device: usize) {
        for activation in &mut self.stack {
            let Some(plan) = self.plans.get(&activation.function) else { continue };
            for (ordinal, watch) in &mut activation.watches {
                let sites = &plan.plan.tasks[*ordinal].sites;
                if watch.is_active() && sites.iter().any(|&site| plan.facts.sites[site].origin == origin) {
                    watch.possible.push(device);
                }
            }
        }
        for (depth, ordinal) in self.claims(origin) {
            let function = self.stack[depth].function;
            let watch = self.stack[depth].watches.get_mut(&ordinal).expect("watched");
            assert!(
                watch.is_active(),
                "an allocation of task {ordinal} of {function:?} outside of it: {origin:?}"
            );
            watch.buffers.push(device);
            let live: u64 = watch.buffers.iter().map(|&buffer| self.devices[buffer]).sum();
            let task = self.statics(function).find(|(o, _)| *o == ordinal).expect("static").1;
            assert!(live <= requirement(task), "task {ordinal} of {function:?} holds {live} bytes: {task:?}");
        }
    }

    fn launched(&self, origin: SiteOrigin, operands: &[Value]) {
        for (depth, ordinal) in self.claims(origin) {
            let activation = &self.stack[depth];
            let watch = &activation.watches[&ordinal];
            let name = format!("task {ordinal} of {:?}, launch {origin:?}", activation.function);
            assert!(watch.is_active(), "outside of it: {name}");
            assert_eq!(watch.all_launched, 0, "after all-launched: {name}");
            for operand in operands {
                if let Value::Device(device) = *operand
                    && self.devices[device] > 0
                {
                    assert!(watch.possible.contains(&device), "a buffer of another task: {name}");
                }
            }
        }
    }
}

/// The bytes that a task announces; all sizes are constants here.
fn requirement(task: &StaticTask) -> u64 {
    let bytes = |size: &Expr| match size {
        Expr::Const { value, .. } => *value,
        other => panic!("sizes are constants, not {other:?}"),
    };
    task.sums.iter().map(|sum| sum.iter().map(bytes).sum()).max().unwrap_or(0)
}
