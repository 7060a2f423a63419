//! Plans of random programs of several functions hold on every path: random calls, random walks, and a machine that
//! watches.

#[path = "support/machine.rs"]
mod machine;

use eager_tasks::program::{
    Action, ActionKind, Actual, Block, Function, FunctionId, Global, GlobalId, Leave, PointerDef, PointerId,
    Program,
};
use eager_tasks::{BlockId, Expr, FunctionPlan, Placement, Point, plan_program};
use machine::Machine;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Steps of a block: each a load at an even position and an action at the odd one behind it; then a load and the
/// terminator.
const STEPS: u32 = 3;
const FUNCTIONS_MAX: usize = 4;
/// Pointers that every function has: two variables, a global, a parameter that is an address, one that is a device
/// pointer.
const PLACES: [PointerDef; 5] = [
    PointerDef::Local,
    PointerDef::Local,
    PointerDef::Global(GlobalId(0)),
    PointerDef::Argument(0),
    PointerDef::Argument(1),
];

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

fn program(bytes: &[u8]) -> Program {
    let mut source = Source(bytes.iter());
    let count = 1 + source.below(FUNCTIONS_MAX);
    let functions = (0..count).map(|index| function(&mut source, index, count)).collect();
    Program { functions, globals: vec![Global { name: "g".to_owned(), visible: false }] }
}

fn function(source: &mut Source<'_>, index: usize, functions: usize) -> Function {
    let name = if index == 0 { "main".to_owned() } else { format!("f{index}") };
    let mut function = Function { name, pointers: PLACES.to_vec(), ..Function::default() };
    let blocks = 1 + source.below(5);
    for block in 0..blocks {
        let mut successors: Vec<_> = (block + 1..blocks).filter(|_| source.holds(45)).collect();
        if successors.is_empty() && block + 1 < blocks && source.holds(80) {
            successors.push(block + 1);
        }
        if block > 0 && source.holds(12) {
            successors.push(1 + source.below(block));
        }
        let leaves = successors.is_empty().then(|| match source.below(10) {
            0 => Leave::Never,
            1 => Leave::Unwind,
            _ => Leave::Return,
        });
        // The last block is the one that most paths come to.
        let leaves = leaves.map(|leave| if block + 1 == blocks { Leave::Return } else { leave });
        let id = BlockId::from_index(block);
        for step in 0..STEPS {
            step_of(source, &mut function, Point { block: id, position: 2 * step + 1 }, index, functions);
        }
        let terminator = Point { block: id, position: 2 * STEPS + 1 };
        if successors.len() == 2 && successors[0] != successors[1] && source.holds(30) {
            call(source, &mut function, terminator, index, functions);
        }
        let successors = successors.into_iter().map(BlockId::from_index).collect();
        function.blocks.push(Block { successors, leaves, len: 2 * STEPS + 2 });
    }
    function
}

fn place(source: &mut Source<'_>, index: usize) -> PointerId {
    // `main` has no parameters.
    PointerId(u32::try_from(source.below(if index == 0 { 3 } else { 4 })).unwrap())
}

/// A device pointer: what a place holds just before, or the parameter.
fn device(source: &mut Source<'_>, function: &mut Function, at: Point, index: usize) -> PointerId {
    if index > 0 && source.holds(20) {
        return PointerId(4);
    }
    let from = place(source, index);
    let load = Point { position: at.position - 1, ..at };
    function.pointers.push(PointerDef::Load { from, at: load });
    PointerId(u32::try_from(function.pointers.len() - 1).unwrap())
}

fn step_of(source: &mut Source<'_>, function: &mut Function, at: Point, index: usize, functions: usize) {
    let kind = match source.below(12) {
        0 | 1 => {
            let size = Expr::Const { value: 1 + source.below(100) as u64, bits: 64 };
            ActionKind::Allocate {
                call: "cudaMalloc".to_owned(),
                into: place(source, index),
                size: Some(size),
            }
        }
        2..=4 => {
            let operands = vec![device(source, function, at, index)];
            ActionKind::Launch {
                kernel: None,
                operands,
                structs: Vec::new(),
                geometry: None,
                keeps_pointers: false,
            }
        }
        5 | 6 => ActionKind::Free { pointer: device(source, function, at, index) },
        7 => ActionKind::Store { value: device(source, function, at, index), to: place(source, index) },
        8 | 9 => return call(source, function, at, index, functions),
        _ => return,
    };
    function.actions.push(Action { at, place: None, kind });
}

fn call(source: &mut Source<'_>, function: &mut Function, at: Point, index: usize, functions: usize) {
    // Mostly downwards; `main` is called by nobody.
    let callee = if source.holds(85) { index + 1 } else { 1 + source.below(FUNCTIONS_MAX) };
    if callee >= functions {
        return;
    }
    let address = Actual { pointer: Some(place(source, index)), integer: None };
    let value = Actual { pointer: Some(device(source, function, at, index)), integer: None };
    let kind = ActionKind::Call { callee: FunctionId::from_index(callee), actuals: vec![address, value] };
    function.actions.push(Action { at, place: None, kind });
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 20..400)
}

fn statics(plans: &[FunctionPlan]) -> usize {
    let tasks = plans.iter().flat_map(|plan| &plan.plan.tasks);
    tasks.filter(|task| matches!(task.placement, Placement::Static(_))).count()
}

/// `EAGER_TEST_SEED=N` and `EAGER_TEST_PROGRAMS=N` look at other and more programs; both are printed.
fn config() -> ProptestConfig {
    let number = |variable: &str, default| {
        std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
    };
    let (seed, cases) = (number("EAGER_TEST_SEED", 1), number("EAGER_TEST_PROGRAMS", 400));
    eprintln!("EAGER_TEST_SEED={seed} EAGER_TEST_PROGRAMS={cases}");
    let cases = u32::try_from(cases).expect("a count");
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn every_path_keeps_what_the_plans_say(
        bytes in bytes(),
        walks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 8),
    ) {
        let program = program(&bytes);
        let plans = plan_program(&program);
        for choices in &walks {
            Machine::new(&program, &plans, choices).run();
        }
    }
}

#[test]
fn generator_makes_static_tasks_often_and_walks_begin_them() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut with_static, mut with_inner, mut begins) = (0, 0, 0);
    for _ in 0..300 {
        let bytes = bytes().new_tree(&mut runner).unwrap().current();
        let program = program(&bytes);
        let plans = plan_program(&program);
        with_static += usize::from(statics(&plans) > 0);
        let crosses = |plan: &FunctionPlan| {
            plan.plan.tasks.iter().any(|task| {
                let is_inner = |&site: &usize| plan.facts.frame(plan.facts.sites[site].at).0 > 0;
                matches!(task.placement, Placement::Static(_)) && task.sites.iter().any(is_inner)
            })
        };
        with_inner += usize::from(plans.iter().any(crosses));
        let mut machine = Machine::new(&program, &plans, &bytes);
        machine.run();
        begins += machine.begins;
    }
    eprintln!("{with_static} with a static task, {with_inner} with one across functions, {begins} begins");
    assert!(with_static >= 60 && with_inner >= 30 && begins >= 60, "the property above tests little");
}

/// Holds a program that was found at random to its plans.
fn check(bytes: &[u8], choices: &[u8]) {
    let program = program(bytes);
    let plans = plan_program(&program);
    let mut machine = Machine::new(&program, &plans, choices);
    machine.run();
    assert!(program.functions.iter().any(|function| function.callees().count() > 0), "nothing is called");
}

/// A local of each run of a recursive function holds a buffer; freeing what the outer one holds frees none of them.
#[test]
fn variables_of_each_run_of_a_recursion_are_told_apart() {
    let bytes = [
        149, 26, 100, 82, 104, 0, 25, 0, 182, 0, 0, 0, 182, 190, 34, 146, 0, 64, 100, 100, 45, 45, 151, 20,
        124, 19, 8, 0, 92, 0, 30, 100, 0, 100, 12, 8, 0, 80, 0, 178, 45, 100, 12, 226, 12, 0, 0, 62, 0, 100,
        12, 8, 85, 56, 0, 0, 2, 0, 211, 20, 0, 101, 12, 0, 233, 20, 32, 0, 0, 252, 50,
    ];
    check(&bytes, &[0, 0, 30, 43]);
}

/// A global is stored into itself before a buffer's pointer is stored there: what is freed through it is null at first.
#[test]
fn copy_of_a_place_that_held_nothing_yet_is_no_copy_of_a_buffer() {
    let bytes = [
        122, 24, 100, 0, 0, 0, 67, 29, 32, 190, 12, 0, 232, 0, 0, 0, 0, 0, 34, 2, 0, 26, 0, 0, 0, 12, 146, 0,
        7, 16, 8, 94, 30, 0, 12, 166, 10, 74, 0, 0, 0, 8, 0, 78, 0, 58, 26, 0, 127, 45, 45, 0, 140, 0, 0,
        120, 134, 250, 173, 20, 171, 0, 12, 36, 0, 11, 250, 190, 12, 0, 12, 0, 104, 34, 122, 0, 15, 0, 185,
        100, 0, 0, 23,
    ];
    for choices in [&[0][..], &[0, 10]] {
        check(&bytes, choices);
    }
}
