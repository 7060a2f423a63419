//! Checks that programs too large to be planned are left to run time, with that reason.

use eager_tasks::names::PointerId;
use eager_tasks::program::{Action, ActionKind, Block, Function, Leave, PointerDef, Program};
use eager_tasks::{BlockId, Expr, LazyReason, Placement, Point, plan_program};

/// One function with a block for each buffer; the block allocates the buffer and launches a kernel with it.
fn wide(buffers: u32) -> Program {
    let mut function = Function { name: "main".to_owned(), ..Function::default() };
    for index in 0..buffers {
        let at = |position| Point { block: BlockId(index), position };
        let action = |position, kind| Action { at: at(position), place: None, kind };
        let (into, pointer) = (PointerId(2 * index), PointerId(2 * index + 1));
        function.pointers.extend([PointerDef::Local, PointerDef::Load { from: into, at: at(1) }]);
        let size = Some(Expr::Const { value: 8, bits: 64 });
        let (structs, operands) = (Vec::new(), vec![pointer]);
        function.actions.extend([
            action(0, ActionKind::Allocate { call: "cudaMalloc".to_owned(), into, size }),
            action(
                2,
                ActionKind::Launch { kernel: None, operands, structs, geometry: None, keeps_pointers: false },
            ),
            action(3, ActionKind::Free { pointer }),
        ]);
        let is_last = index + 1 == buffers;
        function.blocks.push(Block {
            successors: if is_last { Vec::new() } else { vec![BlockId(index + 1)] },
            leaves: is_last.then_some(Leave::Return),
            len: 5,
        });
    }
    Program { functions: vec![function], globals: Vec::new() }
}

fn placements(program: &Program) -> Vec<Placement> {
    let plans = plan_program(program);
    plans.into_iter().flat_map(|plan| plan.plan.tasks).map(|task| task.placement).collect()
}

#[test]
fn a_function_within_the_budget_is_planned() {
    let placements = placements(&wide(60));
    assert_eq!(placements.len(), 60);
    assert!(placements.iter().all(|placement| matches!(placement, Placement::Static(_))));
}

#[test]
fn a_function_beyond_the_budget_is_lazy_and_says_so() {
    let placements = placements(&wide(2100));
    assert_eq!(placements.len(), 2100);
    let is_told =
        |placement: &Placement| matches!(placement, Placement::Lazy { reason: LazyReason::TooLarge, .. });
    assert!(placements.iter().all(is_told));
}

/// `main` allocates into a local, runs `actions` on further pointers, launches with the buffer, and frees it.
fn with(pointers: Vec<PointerDef>, actions: Vec<ActionKind>) -> Program {
    let mut function = Function { name: "main".to_owned(), ..Function::default() };
    let at = |position| Point { block: BlockId(0), position };
    function.pointers = vec![PointerDef::Local, PointerDef::Load { from: PointerId(0), at: at(1) }];
    function.pointers.extend(pointers);
    let size = Some(Expr::Const { value: 8, bits: 64 });
    let allocate = ActionKind::Allocate { call: "cudaMalloc".to_owned(), into: PointerId(0), size };
    let launch = ActionKind::Launch {
        kernel: None,
        operands: vec![PointerId(1)],
        structs: Vec::new(),
        geometry: None,
        keeps_pointers: false,
    };
    let free = ActionKind::Free { pointer: PointerId(1) };
    let kinds = std::iter::once(allocate).chain(actions).chain([launch, free]);
    let place = |(number, kind): (u32, ActionKind)| Action { at: at(2 * number), place: None, kind };
    function.actions = (0..).zip(kinds).map(place).collect();
    let len = 2 * u32::try_from(function.actions.len()).unwrap() + 1;
    function.blocks.push(Block { successors: Vec::new(), leaves: Some(Leave::Return), len });
    Program { functions: vec![function], globals: Vec::new() }
}

fn copy(to: u32, from: u32) -> ActionKind {
    ActionKind::Copy { to: PointerId(to), from: PointerId(from) }
}

fn local(count: usize) -> Vec<PointerDef> {
    vec![PointerDef::Local; count]
}

fn offset(of: u32, by: i64) -> PointerDef {
    PointerDef::Offset { of: PointerId(of), by: Some(by) }
}

#[test]
fn copies_that_move_each_other_on_come_to_an_end() {
    // a = 2, b = 3, b + 8 = 4: `*a = d; memcpy(b + 8, a); memcpy(a, b)`.
    let mut pointers = local(2);
    pointers.push(offset(3, 8));
    let store = ActionKind::Store { value: PointerId(1), to: PointerId(2) };
    let program = with(pointers, vec![store, copy(4, 2), copy(2, 3)]);
    assert!(matches!(placements(&program)[..], [Placement::Static(_)]), "{:?}", placements(&program));
}

#[test]
fn many_copies_that_move_each_other_on_come_to_an_end() {
    // Twelve variables, each copied to every other at a different distance.
    let count = 12;
    let mut pointers = local(count);
    let mut actions = vec![ActionKind::Store { value: PointerId(1), to: PointerId(2) }];
    for (from, to) in (0..144).map(|n| (n / 12, n % 12)).filter(|(from, to)| from != to) {
        pointers.push(offset(2 + to, i64::from(8 * (1 + 3 * from + 5 * to))));
        actions.push(copy(u32::try_from(1 + pointers.len()).unwrap(), 2 + from));
    }
    assert_eq!(placements(&with(pointers, actions)).len(), 1);
}

#[test]
fn offsets_beyond_all_numbers_are_unknown() {
    let pointers = vec![
        PointerDef::Local,
        offset(2, i64::MAX),
        offset(3, i64::MAX),
        offset(2, i64::MIN),
        offset(5, -1),
        PointerDef::Load { from: PointerId(4), at: Point { block: BlockId(0), position: 1 } },
        PointerDef::Field { of: PointerId(7), offset: i64::MAX },
    ];
    let actions = vec![copy(3, 5), copy(5, 3), copy(0, 5), copy(6, 0)];
    assert_eq!(placements(&with(pointers, actions)).len(), 1);
}

#[test]
fn structs_chosen_from_each_other_in_circles_come_to_an_end() {
    // Forty struct values, each chosen from all forty: the paths among them are unlimited, the values are not.
    let all: Vec<PointerId> = (2..42).map(PointerId).collect();
    let mut pointers = vec![PointerDef::Choice(all); 40];
    pointers.push(PointerDef::Field { of: PointerId(2), offset: 8 });
    assert_eq!(placements(&with(pointers, Vec::new())).len(), 1);
}

#[test]
fn a_pointer_chosen_from_choices_of_choices_is_freed_in_time() {
    // Sixteen layers of eight choices, each among all of the layer before; the last choice is freed.
    let mut pointers =
        vec![PointerDef::Load { from: PointerId(0), at: Point { block: BlockId(0), position: 1 } }; 8];
    for layer in 1..16_u32 {
        let before: Vec<PointerId> = (0..8).map(|n| PointerId(2 + 8 * (layer - 1) + n)).collect();
        pointers.extend(vec![PointerDef::Choice(before); 8]);
    }
    let last = PointerId(u32::try_from(1 + pointers.len()).unwrap());
    assert_eq!(placements(&with(pointers, vec![ActionKind::Free { pointer: last }])).len(), 1);
}

#[test]
fn pointers_that_take_too_many_steps_are_lazy_and_say_so() {
    // Two hundred variables, each with eight pointers to other variables, and each copied to every other.
    let count = 200;
    let mut pointers = local(count as usize);
    let mut actions = Vec::new();
    for one in 0..count {
        for field in 0..8 {
            pointers.push(offset(2 + one, 8 * i64::from(field)));
            let to = PointerId(u32::try_from(1 + pointers.len()).unwrap());
            actions.push(ActionKind::Store { value: PointerId(2 + (one * 7 + field * 13) % count), to });
        }
        actions.extend((0..count).filter(|&other| other != one).map(|other| copy(2 + one, 2 + other)));
    }
    let placements = placements(&with(pointers, actions));
    assert!(
        matches!(placements[..], [Placement::Lazy { reason: LazyReason::TooLarge, .. }]),
        "{placements:?}"
    );
}

#[test]
fn pointers_that_are_found_last_to_first_are_no_reason_to_give_up() {
    const LENGTH: u32 = 5000;
    let next = |number: u32| PointerDef::Offset { of: PointerId(2 + number + 1), by: Some(0) };
    let chain: Vec<PointerDef> = (0..LENGTH).map(next).chain([PointerDef::Local]).collect();
    let placements = placements(&with(chain, Vec::new()));
    assert!(matches!(placements.as_slice(), [Placement::Static(_)]), "{placements:?}");
}
