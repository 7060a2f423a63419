//! Checks that every static plan holds on every path: random functions and random walks, checked by a machine.

mod support;

use eager_tasks::{BlockId, BufferId, Exit, Expr, Facts, Placement, Point, SiteKind, Spot, StaticTask, plan};
use proptest::prelude::*;

const BLOCK_LEN: u32 = 4;
const STEPS_MAX: usize = 60;

fn site_kind(choice: u8) -> Option<SiteKind> {
    let buffer = BufferId(u32::from(choice % 2));
    match choice / 2 {
        0 => Some(SiteKind::Allocation {
            call: "cudaMalloc".to_owned(),
            buffer,
            size: Some(Expr::Const { value: 64, bits: 64 }),
        }),
        1 => Some(SiteKind::Launch {
            kernel: None,
            buffers: vec![BufferId(0), BufferId(1)],
            foreign: None,
            geometry: None,
        }),
        2 => Some(SiteKind::Free { buffers: vec![buffer], exact: true }),
        3 => Some(SiteKind::Access { call: "cudaMemcpy".to_owned(), buffers: vec![buffer], joins: false }),
        _ => None,
    }
}

/// Edges mostly go forward, so that many plans are static; the first block allocates.
fn facts() -> impl Strategy<Value = Facts> {
    let block = (
        proptest::collection::vec(1_usize..4, 0..3),
        proptest::option::weighted(0.1, 0_usize..8),
        any::<bool>(),
    );
    let blocks =
        proptest::collection::vec((block, proptest::collection::vec(0_u8..14, BLOCK_LEN as usize)), 2..8);
    blocks.prop_map(|blocks| {
        let len = blocks.len();
        let mut facts = support::function(Vec::new(), 2, Vec::new());
        for (index, ((forward, back, returns), choices)) in blocks.into_iter().enumerate() {
            let forward = forward.into_iter().map(|by| index + by).filter(|&to| to < len);
            let back = back.filter(|&to| to > 0 && to <= index);
            let successors: Vec<_> = forward.chain(back).map(BlockId::from_index).collect();
            let exit = successors.is_empty().then_some(if returns { Exit::Return } else { Exit::NoReturn });
            facts.blocks.push(support::block(index, successors, exit, BLOCK_LEN));
            for (position, choice) in (0..).zip(choices) {
                let at = Point { block: BlockId::from_index(index), position };
                let is_first = index == 0 && position == 0;
                let kind = if is_first { site_kind(0) } else { site_kind(choice) };
                // A call is never the last instruction of a block that ends the function.
                let is_exit = exit.is_some() && position + 1 == BLOCK_LEN;
                let in_first_or_later = !matches!(kind, Some(SiteKind::Allocation { .. })) || index < 2;
                if let Some(kind) = kind.filter(|_| in_first_or_later && !is_exit) {
                    facts.sites.push(support::site(at, kind));
                }
            }
        }
        facts
    })
}

/// Events of one task on one walk.
#[derive(Default)]
struct Watch {
    begun: u32,
    all_launched: u32,
    ended: u32,
}

impl Watch {
    fn at_spot(&mut self, task: &StaticTask, spot: Spot) {
        let announced = task.all_launched.iter().filter(|&&s| s == spot).count();
        self.all_launched += u32::try_from(announced).unwrap();
        self.ended += u32::try_from(task.ends.iter().filter(|&&s| s == spot).count()).unwrap();
        if spot == Spot::Before(task.begin) {
            self.begun += 1;
        }
    }

    fn at_site(&self, kind: &SiteKind) {
        assert_eq!((self.begun, self.ended), (1, 0), "a site of the task outside of it: {kind:?}");
        if matches!(kind, SiteKind::Launch { .. }) {
            assert_eq!(self.all_launched, 0, "a launch after all-launched");
        }
    }
}

/// Walks until a return, an exit, or the step limit; `choices` picks among successors.
fn walk(facts: &Facts, sites: &[usize], task: &StaticTask, choices: &[u8]) {
    let mut watch = Watch::default();
    let mut block = BlockId(0);
    for step in 0..STEPS_MAX {
        let current = &facts.blocks[block.index()];
        for position in 0..current.end {
            let at = Point { block, position };
            watch.at_spot(task, Spot::Before(at));
            for &site in sites.iter().filter(|&&site| facts.sites[site].at == at) {
                watch.at_site(&facts.sites[site].kind);
            }
        }
        match current.exit {
            Some(Exit::Return) => {
                let expected = (watch.begun, watch.begun);
                assert_eq!(
                    (watch.ended, watch.all_launched),
                    expected,
                    "at a return of {facts:#?}\n{task:#?}"
                );
                return;
            }
            Some(Exit::NoReturn) => return,
            None => {}
        }
        let pick = usize::from(choices[step % choices.len()]) % current.successors.len();
        let next = current.successors[pick];
        watch.at_spot(task, Spot::OnEdge { from: block, to: next });
        block = next;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn each_path_begins_and_ends_a_static_task_once(
        facts in facts(),
        walks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 12),
    ) {
        for task in plan(&facts).tasks {
            if let Placement::Static(placed) = &task.placement {
                for choices in &walks {
                    walk(&facts, &task.sites, placed, choices);
                }
            }
        }
    }
}

#[test]
fn generator_makes_static_tasks_often() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = facts();
    let is_static =
        |facts: Facts| plan(&facts).tasks.iter().any(|t| matches!(t.placement, Placement::Static(_)));
    let hits = (0..200).filter(|_| is_static(strategy.new_tree(&mut runner).unwrap().current())).count();
    assert!(
        hits >= 20,
        "only {hits} of 200 random functions have a static task: the property above tests little"
    );
}
