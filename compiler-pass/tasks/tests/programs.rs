//! Checks that plans of random programs of several functions hold on every path: random calls and random walks, checked
//! by a machine.

#[path = "support/drawing.rs"]
mod drawing;
#[path = "support/machine.rs"]
mod machine;

use drawing::config;
use eager_tasks::names::{FunctionId, GlobalId, PointerId};
use eager_tasks::program::{Action, ActionKind, Actual, Block, Function, Global, Leave, PointerDef, Program};
use eager_tasks::{BlockId, Expr, FunctionPlan, Placement, Point, plan_program};
use machine::{Elements, Machine};
use proptest::prelude::*;

/// Number of steps of a block; each is a load at an even position and an action at the odd position behind it. A load
/// and the terminator follow.
const STEPS: u32 = 3;
const FUNCTIONS_MAX: usize = 4;
/// Pointers of every function: two variables, a global, a parameter that is an address, one that is a device pointer,
/// another address, and the second element of the first variable.
const PLACES: [PointerDef; 7] = [
    PointerDef::Local,
    PointerDef::Local,
    PointerDef::Global(GlobalId(0)),
    PointerDef::Argument(0),
    PointerDef::Argument(1),
    PointerDef::Argument(2),
    PointerDef::Offset { of: PointerId(0), by: Some(8) },
];
/// A parameter that is a device pointer.
const DEVICE: PointerId = PointerId(4);

/// Draws numbers from a list, then zeros.
struct Source<'a> {
    bytes: std::slice::Iter<'a, u8>,
    shapes: Shapes,
    elements: Elements,
}

/// Features that a program may have besides variables and calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shapes {
    /// One address parameter.
    Plain,
    /// Two address parameters, which may be the same; elements of arrays; calls that throw.
    All,
}

impl Source<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.bytes.next().copied().unwrap_or(0)) % bound
    }

    fn holds(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn program(bytes: &[u8], shapes: Shapes) -> (Program, Elements) {
    let mut source = Source { bytes: bytes.iter(), shapes, elements: Elements::new() };
    let count = 1 + source.below(FUNCTIONS_MAX);
    let functions = (0..count).map(|index| function(&mut source, index, count)).collect();
    let globals = vec![Global { name: "g".to_owned(), visible: false, in_data: false }];
    let mut program = Program { functions, globals };
    while add_throws(&mut program) {}
    (program, source.elements)
}

/// Records plain calls of functions that throw. Returns whether it found new ones.
fn add_throws(program: &mut Program) -> bool {
    let unwinds = |block: &Block| block.leaves == Some(Leave::Unwind);
    let throwing: Vec<bool> =
        program.functions.iter().map(|f| !f.throws.is_empty() || f.blocks.iter().any(unwinds)).collect();
    let mut found = false;
    for Function { throws, actions, blocks, .. } in &mut program.functions {
        for Action { at, kind, .. } in actions {
            let ActionKind::Call { callee, .. } = kind else { continue };
            let is_last = at.position + 1 == blocks[at.block.index()].len;
            if !is_last && throwing[callee.index()] && !throws.contains(at) {
                throws.push(*at);
                throws.sort_unstable();
                found = true;
            }
        }
    }
    found
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
        // Most paths lead to the last block, so it returns.
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

fn place(source: &mut Source<'_>, function: &mut Function, at: Point, index: usize) -> PointerId {
    // `main` has no parameters.
    if source.shapes == Shapes::Plain {
        return PointerId(u32::try_from(source.below(if index == 0 { 3 } else { 4 })).unwrap());
    }
    match source.below(if index == 0 { 6 } else { 9 }) {
        3 => PointerId(6),
        4 | 5 => element(source, function, at, index),
        6 => PointerId(5),
        7 | 8 => PointerId(3),
        plain => PointerId(u32::try_from(plain).unwrap()),
    }
}

/// An element of the first variable: a new one, or the same as before.
fn element(source: &mut Source<'_>, function: &mut Function, at: Point, index: usize) -> PointerId {
    let this = FunctionId::from_index(index);
    let is_known = |&&((of, _), made): &&(&(FunctionId, PointerId), &Point)| {
        *of == this && (made.block == at.block || made.block.index() == 0)
    };
    let known: Vec<PointerId> =
        source.elements.iter().collect::<Vec<_>>().iter().filter(is_known).map(|((_, id), _)| *id).collect();
    if !known.is_empty() && source.holds(60) {
        return known[source.below(known.len())];
    }
    function.pointers.push(PointerDef::Offset { of: PointerId(0), by: None });
    let id = PointerId(u32::try_from(function.pointers.len() - 1).unwrap());
    source.elements.insert((this, id), Point { position: at.position - 1, ..at });
    id
}

/// A device pointer: the value that a place holds just before, or the parameter.
fn device(source: &mut Source<'_>, function: &mut Function, at: Point, index: usize) -> PointerId {
    if index > 0 && source.holds(20) {
        return DEVICE;
    }
    let from = place(source, function, at, index);
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
                into: place(source, function, at, index),
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
        7 => {
            let value = device(source, function, at, index);
            ActionKind::Store { value, to: place(source, function, at, index) }
        }
        8 | 9 => return call(source, function, at, index, functions),
        10 if source.shapes == Shapes::All => return function.throws.push(at),
        _ => return,
    };
    function.actions.push(Action { at, place: None, kind });
}

fn call(source: &mut Source<'_>, function: &mut Function, at: Point, index: usize, functions: usize) {
    // Mostly calls the next function; nothing calls `main`.
    let callee = if source.holds(85) { index + 1 } else { 1 + source.below(FUNCTIONS_MAX) };
    if callee >= functions {
        return;
    }
    let pass = |pointer| Actual { pointer: Some(pointer), integer: None };
    let address = pass(place(source, function, at, index));
    let mut actuals = vec![address, pass(device(source, function, at, index))];
    if source.shapes == Shapes::All {
        actuals.push(pass(place(source, function, at, index)));
    }
    let kind = ActionKind::Call { callee: FunctionId::from_index(callee), actuals };
    function.actions.push(Action { at, place: None, kind });
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 20..400)
}

fn statics(plans: &[FunctionPlan]) -> usize {
    let tasks = plans.iter().flat_map(|plan| &plan.plan.tasks);
    tasks.filter(|task| matches!(task.placement, Placement::Static(_))).count()
}

proptest! {
    #![proptest_config(config(400))]
    #[test]
    fn every_path_keeps_what_the_plans_say(
        bytes in bytes(),
        walks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 8),
    ) {
        let program = program(&bytes, Shapes::All);
        let plans = plan_program(&program.0);
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
        let program = program(&bytes, Shapes::All);
        let plans = plan_program(&program.0);
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

/// Checks the plans of one random program on random walks.
fn check(bytes: &[u8], choices: &[u8], shapes: Shapes) {
    let program = program(bytes, shapes);
    let plans = plan_program(&program.0);
    let mut machine = Machine::new(&program, &plans, choices);
    machine.run();
    assert!(program.0.functions.iter().any(|function| function.callees().count() > 0), "nothing is called");
}

/// A local of each activation of a recursive function holds a buffer; freeing the outer activation's buffer frees no
/// other.
#[test]
fn variables_of_each_run_of_a_recursion_are_told_apart() {
    let bytes = [
        149, 26, 100, 82, 104, 0, 25, 0, 182, 0, 0, 0, 182, 190, 34, 146, 0, 64, 100, 100, 45, 45, 151, 20,
        124, 19, 8, 0, 92, 0, 30, 100, 0, 100, 12, 8, 0, 80, 0, 178, 45, 100, 12, 226, 12, 0, 0, 62, 0, 100,
        12, 8, 85, 56, 0, 0, 2, 0, 211, 20, 0, 101, 12, 0, 233, 20, 32, 0, 0, 252, 50,
    ];
    check(&bytes, &[0, 0, 30, 43], Shapes::Plain);
}

/// A global is stored into itself before a buffer's pointer is stored there, so the first free through it frees null.
#[test]
fn copy_of_a_place_that_held_nothing_yet_is_no_copy_of_a_buffer() {
    let bytes = [
        122, 24, 100, 0, 0, 0, 67, 29, 32, 190, 12, 0, 232, 0, 0, 0, 0, 0, 34, 2, 0, 26, 0, 0, 0, 12, 146, 0,
        7, 16, 8, 94, 30, 0, 12, 166, 10, 74, 0, 0, 0, 8, 0, 78, 0, 58, 26, 0, 127, 45, 45, 0, 140, 0, 0,
        120, 134, 250, 173, 20, 171, 0, 12, 36, 0, 11, 250, 190, 12, 0, 12, 0, 104, 34, 122, 0, 15, 0, 185,
        100, 0, 0, 23,
    ];
    for choices in [&[0][..], &[0, 10]] {
        check(&bytes, choices, Shapes::Plain);
    }
}

/// A called function throws or returns, and a launch follows only one of the two: all-launched is announced on the
/// other path out of the call.
#[test]
fn exception_and_return_part_inside_a_called_function() {
    let bytes = [
        61, 47, 100, 100, 158, 0, 132, 0, 134, 58, 100, 0, 6, 30, 60, 45, 80, 12, 1, 108, 0, 4, 108, 0, 4,
        60, 43, 0, 40, 0, 0, 0, 0, 34, 98, 112, 180, 0, 16, 0, 0, 170, 0, 68, 0, 58, 113,
    ];
    check(&bytes, &[0, 0, 0, 0, 0, 37, 69], Shapes::All);
}

/// A buffer's pointer is stored in a global that the caller has also passed as a parameter, and launched from there.
#[test]
fn pointer_stored_under_another_name_is_of_the_same_task() {
    let bytes = [
        145, 181, 0, 26, 22, 62, 6, 62, 166, 100, 0, 0, 0, 0, 0, 6, 182, 0, 32, 0, 106, 60, 0, 68, 183, 0, 0,
        0, 12, 0, 204, 12, 0, 49, 32, 0, 0, 0, 12, 0, 0, 6, 50, 0, 11, 100, 0, 45, 0, 12, 163, 20, 184, 0, 0,
        83, 98, 20, 24, 12, 0, 126, 100, 109, 59, 0, 0, 27, 35, 0,
    ];
    check(&bytes, &[0], Shapes::All);
}
