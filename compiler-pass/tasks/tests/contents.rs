//! Checks that no buffer is used after a plan declared it dead, in random programs on a machine where everything
//! outside the program does its worst.
//!
//! `EAGER_TEST_SEED=N` and `EAGER_TEST_PROGRAMS=N` choose other and more programs; both are printed.

#[path = "support/contents_machine.rs"]
mod contents_machine;
#[path = "support/drawing.rs"]
mod drawing;

use contents_machine::{Counts, Machine};
use drawing::config;
use eager_tasks::names::{FunctionId, GlobalId, PointerId};
use eager_tasks::program::{Action, ActionKind, Actual, Block, Function, Global, Leave, PointerDef, Program};
use eager_tasks::{BlockId, Expr, Point, plan_program};
use proptest::prelude::*;

/// Number of steps of a block; each is a load at an even position and an action at the odd position behind it.
const STEPS: u32 = 3;
/// Null, three variables, two globals (the second visible), a parameter that is an address, and one that is a device
/// pointer.
const POINTERS: [PointerDef; 8] = [
    PointerDef::Nothing,
    PointerDef::Local,
    PointerDef::Local,
    PointerDef::Local,
    PointerDef::Global(GlobalId(0)),
    PointerDef::Global(GlobalId(1)),
    PointerDef::Argument(0),
    PointerDef::Argument(1),
];
const NULL: PointerId = PointerId(0);

/// Draws numbers from a list, then zeros.
struct Source<'a>(std::slice::Iter<'a, u8>);

impl Source<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % bound
    }

    fn holds(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Writes one function of a program.
struct Writer<'s, 'b> {
    source: &'s mut Source<'b>,
    function: Function,
    index: usize,
    functions: usize,
    /// Draw few kinds of statements: more can be proven of such programs.
    is_plain: bool,
}

fn program(bytes: &[u8]) -> Program {
    let mut source = Source(bytes.iter());
    let functions = 1 + source.below(4);
    let is_plain = source.holds(50);
    let write = |index| Writer::new(&mut source, index, functions, is_plain).write();
    let global = |name: &str, visible| Global { name: name.to_owned(), visible, in_data: false };
    Program {
        functions: (0..functions).map(write).collect(),
        globals: vec![global("hidden", false), global("visible", true)],
    }
}

impl<'s, 'b> Writer<'s, 'b> {
    fn new(source: &'s mut Source<'b>, index: usize, functions: usize, is_plain: bool) -> Self {
        let name = if index == 0 { "main".to_owned() } else { format!("f{index}") };
        let function = Function { name, pointers: POINTERS.to_vec(), ..Function::default() };
        Self { source, function, index, functions, is_plain }
    }

    fn write(mut self) -> Function {
        let blocks = 1 + self.source.below(5);
        for block in 0..blocks {
            let mut successors: Vec<_> = (block + 1..blocks).filter(|_| self.source.holds(45)).collect();
            if successors.is_empty() && block + 1 < blocks && self.source.holds(80) {
                successors.push(block + 1);
            }
            if block > 0 && self.source.holds(25) {
                successors.push(1 + self.source.below(block));
            }
            let ends = [Leave::Never, Leave::Unwind, Leave::Return, Leave::Return, Leave::Return];
            let leave = ends[if block + 1 == blocks { 4 } else { self.source.below(5) }];
            let leaves = successors.is_empty().then_some(leave);
            let id = BlockId::from_index(block);
            let begins = block == 0 && self.source.holds(60);
            if begins {
                self.allocate(Point { block: id, position: 1 });
            }
            for step in u32::from(begins)..STEPS {
                self.step(Point { block: id, position: 2 * step + 1 });
            }
            let terminator = Point { block: id, position: 2 * STEPS + 1 };
            if successors.len() == 2 && successors[0] != successors[1] && self.source.holds(30) {
                self.call(terminator);
            }
            if leaves == Some(Leave::Return) && self.source.holds(30) {
                let value = self.device(terminator);
                self.function.returns.push((terminator, value));
            }
            let successors = successors.into_iter().map(BlockId::from_index).collect();
            self.function.blocks.push(Block { successors, leaves, len: 2 * STEPS + 2 });
        }
        self.function
    }

    fn add(&mut self, def: PointerDef) -> PointerId {
        self.function.pointers.push(def);
        PointerId(u32::try_from(self.function.pointers.len() - 1).unwrap())
    }

    fn place(&mut self) -> PointerId {
        let is_global = self.source.holds(if self.is_plain { 15 } else { 30 });
        // `main` has no parameters.
        let has_parameter = self.index > 0 && self.source.holds(30);
        let id = match (is_global, has_parameter) {
            (true, _) => 4 + u32::from(self.source.holds(20)),
            (_, true) => 6,
            // Mostly one variable, so that allocated buffers are also used.
            _ if self.source.holds(60) => 1,
            _ => 2 + u32::from(self.source.holds(50)),
        };
        PointerId(id)
    }

    /// A device pointer: the value that a place holds just before, the parameter, or the result of a call.
    fn device(&mut self, at: Point) -> PointerId {
        if self.index > 0 && self.source.holds(20) {
            return PointerId(7);
        }
        let results = |def: &PointerDef| matches!(def, PointerDef::Result(from) if from.block == at.block);
        if self.source.holds(20)
            && let Some(found) = self.function.pointers.iter().rposition(results)
        {
            return PointerId(u32::try_from(found).unwrap());
        }
        let from = self.place();
        self.add(PointerDef::Load { from, at: Point { position: at.position - 1, ..at } })
    }

    fn step(&mut self, at: Point) {
        let kinds = if self.is_plain { 13 } else { 20 };
        let kind = match self.source.below(kinds) {
            0 | 1 => return self.allocate(at),
            2..=4 => {
                let mut operands = vec![self.device(at)];
                if self.source.holds(40) {
                    operands.push(self.device(at));
                }
                let keeps_pointers = !self.is_plain && self.source.holds(10);
                let (structs, geometry) = (Vec::new(), None);
                ActionKind::Launch { kernel: None, operands, structs, geometry, keeps_pointers }
            }
            5 | 6 => {
                let pointer = self.device(at);
                ActionKind::Free { pointer }
            }
            7 => ActionKind::Store { value: NULL, to: self.place() },
            8 | 9 => return self.call(at),
            10 => {
                // A copy to a buffer from a variable, whatever the variable holds.
                let mut operands = vec![self.device(at)];
                if !self.is_plain && self.source.holds(30) {
                    operands.push(self.place());
                }
                ActionKind::Use { call: "cudaMemcpy".to_owned(), operands }
            }
            11 | 13 => ActionKind::Store { value: self.device(at), to: self.place() },
            14 => {
                let operands = if self.source.holds(40) { vec![self.device(at)] } else { Vec::new() };
                ActionKind::Opaque { callee: "unknown".to_owned(), operands }
            }
            15 => ActionKind::Opaque { callee: "unknown".to_owned(), operands: vec![self.place()] },
            16 => ActionKind::WriteSymbol { operands: vec![self.place()] },
            _ => return,
        };
        self.function.actions.push(Action { at, place: None, kind });
    }

    fn allocate(&mut self, at: Point) {
        let size = Some(Expr::Const { value: 1 + self.source.below(100) as u64, bits: 64 });
        let call = if self.source.holds(4) { "cudaMallocManaged" } else { "cudaMalloc" };
        let kind = ActionKind::Allocate { call: call.to_owned(), into: self.place(), size };
        self.function.actions.push(Action { at, place: None, kind });
    }

    fn call(&mut self, at: Point) {
        let callee = if self.source.holds(85) { self.index + 1 } else { 1 + self.source.below(3) };
        if callee >= self.functions {
            return;
        }
        let address = Actual { pointer: Some(self.place()), integer: None };
        let value = Actual { pointer: Some(self.device(at)), integer: None };
        let kind = ActionKind::Call { callee: FunctionId::from_index(callee), actuals: vec![address, value] };
        self.function.actions.push(Action { at, place: None, kind });
        // The result of a call that ends its block is known at one successor only.
        if at.position < 2 * STEPS {
            self.add(PointerDef::Result(at));
        }
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 20..400)
}

proptest! {
    #![proptest_config(config(600))]
    #[test]
    fn what_is_declared_dead_is_not_used_again(
        bytes in bytes(),
        walks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 8),
    ) {
        let program = program(&bytes);
        let plans = plan_program(&program);
        for choices in &walks {
            Machine::new(&program, &plans, choices).run();
        }
    }
}

/// Runs the program given by `EAGER_TEST_BYTES` and `EAGER_TEST_CHOICES`, as the property prints them, and shows its
/// plans.
#[test]
fn one_program_by_its_bytes() {
    let list = |variable: &str| -> Option<Vec<u8>> {
        let text = std::env::var(variable).ok()?;
        Some(text.split([',', ' ', '[', ']', '\n']).filter_map(|word| word.parse().ok()).collect())
    };
    let (Some(bytes), Some(choices)) = (list("EAGER_TEST_BYTES"), list("EAGER_TEST_CHOICES")) else { return };
    let program = program(&bytes);
    let plans = plan_program(&program);
    for function in &program.functions {
        eprintln!("{}: {:?}, returns {:?}", function.name, function.pointers, function.returns);
        for (index, block) in function.blocks.iter().enumerate() {
            eprintln!("  block {index} -> {:?} {:?}", block.successors, block.leaves);
            for action in function.actions.iter().filter(|action| action.at.block.index() == index) {
                eprintln!("    {}: {:?}", action.at.position, action.kind);
            }
        }
    }
    for plan in &plans {
        for task in &plan.plan.tasks {
            eprintln!("{:?}: {:#?}", plan.function, task.buffers);
        }
    }
    Machine::new(&program, &plans, &choices).run();
}

#[test]
fn random_programs_have_buffers_that_are_shown_to_be_dead() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = Counts::default();
    for _ in 0..400 {
        let bytes = bytes().new_tree(&mut runner).unwrap().current();
        let program = program(&bytes);
        let plans = plan_program(&program);
        let mut machine = Machine::new(&program, &plans, &bytes);
        machine.run();
        seen.lives += machine.counts.lives;
        seen.declared += machine.counts.declared;
    }
    eprintln!(
        "{} of {} lives of used buffers were declared dead before their end",
        seen.declared, seen.lives
    );
    assert!(seen.declared >= 20, "the property above tests little");
}
