//! What is too large to be planned is left to run time, and says so.

use eager_tasks::names::PointerId;
use eager_tasks::program::{Action, ActionKind, Block, Function, Leave, PointerDef, Program};
use eager_tasks::{BlockId, Expr, LazyReason, Placement, Point, plan_program};

/// One function with a block for each buffer, which allocates it and launches a kernel with it.
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
