//! Checks the planner's decisions on small functions, one reason each.

mod support;

use eager_tasks::program::Geometry;
use eager_tasks::{
    BlockId, BufferId, BufferKind, EscapeKind, Exit, Expr, Facts, ForeignBuffer, LazyReason, LeafId,
    LeafSource, Placement, Plan, Report, SiteKind, Spot, plan,
};
use support::{allocation, at, blocks, bytes, free, function, launch, leaf, site};

fn only(plan: Plan) -> Placement {
    let [task] = plan.tasks.try_into().expect("one task");
    task.placement
}

fn lazy_reason(facts: &Facts) -> LazyReason {
    match only(plan(facts)) {
        Placement::Lazy { reason, .. } => reason,
        Placement::Static(task) => panic!("expected a lazy task, got {task:?}"),
    }
}

#[test]
fn straight_line_is_static() {
    let sites = vec![allocation(at(0, 1), 0, bytes(8)), launch(at(0, 3), &[0]), free(at(0, 5), 0)];
    let Placement::Static(task) = only(plan(&function(blocks(&[&[]]), 1, sites))) else { panic!("lazy") };
    assert_eq!(task.begin, at(0, 1));
    assert_eq!(task.all_launched, [Spot::Before(at(0, 4))]);
    assert_eq!(task.ends, [Spot::Before(at(0, 6))]);
    assert!(task.exact && !task.ends_at_return);
}

#[test]
fn kernels_that_share_a_buffer_are_one_task() {
    let sites = vec![
        allocation(at(0, 0), 0, bytes(1)),
        allocation(at(0, 1), 1, bytes(2)),
        allocation(at(0, 2), 2, bytes(4)),
        launch(at(0, 3), &[0, 1]),
        launch(at(0, 4), &[1, 2]),
    ];
    let Placement::Static(task) = only(plan(&function(blocks(&[&[]]), 3, sites))) else { panic!("lazy") };
    assert_eq!(task.sums, [[bytes(1), bytes(2), bytes(4)]]);
}

#[test]
fn allocation_after_the_first_kernel_counts_from_the_begin() {
    let sites = vec![
        allocation(at(0, 0), 0, bytes(1)),
        launch(at(0, 1), &[0]),
        allocation(at(0, 2), 1, bytes(2)),
        launch(at(0, 3), &[0, 1]),
        free(at(0, 4), 0),
        free(at(0, 5), 1),
    ];
    let Placement::Static(task) = only(plan(&function(blocks(&[&[]]), 2, sites))) else { panic!("lazy") };
    assert_eq!((task.begin, task.sums[0].len()), (at(0, 0), 2));
    assert_eq!(task.ends, [Spot::Before(at(0, 6))]);
}

#[test]
fn buffer_that_is_never_freed_ends_at_the_return() {
    let sites = vec![allocation(at(0, 0), 0, bytes(1)), launch(at(0, 1), &[0])];
    let Placement::Static(task) = only(plan(&function(blocks(&[&[]]), 1, sites))) else { panic!("lazy") };
    assert_eq!(task.ends, [Spot::Before(at(0, 9))]);
    assert!(task.ends_at_return);
}

#[test]
fn second_allocation_into_one_variable_leaks_the_first() {
    let sites = vec![
        allocation(at(0, 0), 0, bytes(1)),
        allocation(at(0, 1), 0, bytes(2)),
        launch(at(0, 2), &[0]),
        free(at(0, 3), 0),
    ];
    let Placement::Static(task) = only(plan(&function(blocks(&[&[]]), 1, sites))) else { panic!("lazy") };
    assert_eq!(task.sums, [[bytes(1), bytes(2)]]);
    assert!(task.ends_at_return, "the first pointer is lost, so one free does not free all");
}

#[test]
fn allocation_into_a_place_of_two_names_leaks_what_the_other_name_held() {
    let sites = vec![
        allocation(at(0, 0), 0, bytes(8)),
        allocation(at(0, 1), 1, bytes(1)),
        launch(at(0, 2), &[0, 1]),
        free(at(0, 3), 0),
        allocation(at(0, 4), 2, bytes(4)),
        launch(at(0, 5), &[1, 2]),
    ];
    let mut facts = function(blocks(&[&[]]), 3, sites);
    (facts.buffers[0].aliases, facts.buffers[1].aliases) = (vec![BufferId(1)], vec![BufferId(0)]);
    let Placement::Static(task) = only(plan(&facts)) else { panic!("lazy") };
    assert_eq!(task.sums, [[bytes(8), bytes(1), bytes(4)]], "the free may have freed the second buffer");
}

#[test]
fn launch_in_a_loop_is_all_launched_on_the_way_out() {
    let blocks = blocks(&[&[1], &[1, 2], &[]]);
    let sites = vec![allocation(at(0, 0), 0, bytes(1)), launch(at(1, 3), &[0]), free(at(2, 2), 0)];
    let Placement::Static(task) = only(plan(&function(blocks, 1, sites))) else { panic!("lazy") };
    assert_eq!(task.all_launched, [Spot::OnEdge { from: BlockId(1), to: BlockId(2) }]);
}

#[test]
fn path_into_exit_needs_no_end() {
    let mut blocks = blocks(&[&[1, 2], &[], &[]]);
    blocks[1].exit = Some(Exit::NoReturn);
    let sites = vec![allocation(at(0, 0), 0, bytes(1)), launch(at(2, 1), &[0]), free(at(2, 2), 0)];
    let Placement::Static(task) = only(plan(&function(blocks, 1, sites))) else { panic!("lazy") };
    assert!(task.exact, "a path into exit() constrains nothing");
    assert_eq!(task.ends, [Spot::Before(at(2, 3))]);
    assert_eq!(task.all_launched, [Spot::Before(at(2, 2))]);
}

#[test]
fn allocation_in_a_loop_is_lazy() {
    let blocks = blocks(&[&[1], &[1, 2], &[]]);
    let sites = vec![allocation(at(1, 0), 0, bytes(1)), launch(at(1, 3), &[0])];
    assert_eq!(lazy_reason(&function(blocks, 1, sites)), LazyReason::AllocationInLoop);
}

#[test]
fn buffers_on_paths_that_exclude_each_other_need_the_larger_of_the_two() {
    let blocks = blocks(&[&[1, 2], &[3], &[3], &[]]);
    let sites = vec![
        allocation(at(0, 1), 1, bytes(4)),
        allocation(at(1, 0), 0, bytes(1)),
        allocation(at(2, 0), 0, bytes(2)),
        launch(at(3, 3), &[0, 1]),
        free(at(3, 4), 0),
        free(at(3, 5), 1),
    ];
    let Placement::Static(task) = only(plan(&function(blocks, 2, sites))) else { panic!("lazy") };
    assert_eq!(task.sums, [[bytes(4), bytes(1)], [bytes(4), bytes(2)]]);
    assert!(!task.exact && !task.reuses && !task.ends_at_return);
}

#[test]
fn memory_that_is_freed_before_more_is_allocated_counts_once() {
    let sites = vec![
        allocation(at(0, 0), 0, bytes(1)),
        allocation(at(0, 1), 1, bytes(2)),
        launch(at(0, 2), &[0, 1]),
        free(at(0, 3), 1),
        allocation(at(0, 4), 1, bytes(8)),
        launch(at(0, 5), &[0, 1]),
        free(at(0, 6), 1),
        free(at(0, 7), 0),
    ];
    let Placement::Static(task) = only(plan(&function(blocks(&[&[]]), 2, sites))) else { panic!("lazy") };
    assert_eq!(task.sums, [[bytes(1), bytes(2)], [bytes(1), bytes(8)]]);
    assert!(task.reuses && task.allocations == 3);
}

#[test]
fn buffer_of_each_round_of_a_loop_is_allocated_once_at_a_time() {
    let blocks = blocks(&[&[1], &[1, 2], &[]]);
    let sites = vec![
        allocation(at(0, 0), 0, bytes(1)),
        allocation(at(1, 0), 1, bytes(2)),
        launch(at(1, 3), &[0, 1]),
        free(at(1, 4), 1),
        free(at(2, 0), 0),
    ];
    let Placement::Static(task) = only(plan(&function(blocks, 2, sites))) else { panic!("lazy") };
    assert_eq!(task.sums, [[bytes(1), bytes(2)]]);
    assert!(task.reuses, "the second round allocates what the first freed");
}

#[test]
fn size_that_cannot_be_computed_is_lazy() {
    let kind = SiteKind::Allocation { call: "cudaMallocArray".to_owned(), buffer: BufferId(0), size: None };
    let sites = vec![site(at(0, 0), kind), launch(at(0, 1), &[0])];
    let reason = lazy_reason(&function(blocks(&[&[]]), 1, sites));
    assert_eq!(reason, LazyReason::SizeUnknown { call: "cudaMallocArray".to_owned() });
}

#[test]
fn stream_of_a_launch_belongs_to_its_task() {
    let sites = vec![
        allocation(at(0, 0), 1, bytes(0)),
        allocation(at(0, 3), 0, bytes(1)),
        launch(at(0, 4), &[0, 1]),
        free(at(0, 5), 0),
    ];
    let mut facts = function(blocks(&[&[]]), 2, sites);
    facts.buffers[1] = support::buffer(BufferKind::Handle);
    let Placement::Static(task) = only(plan(&facts)) else { panic!("lazy") };
    assert_eq!((task.begin, task.sums), (at(0, 0), vec![vec![bytes(1)]]));
    assert_eq!(task.ends, [Spot::Before(at(0, 6))]);
}

#[test]
fn buffer_in_a_global_is_the_functions_own_if_it_does_not_outlive_it() {
    let sites = |end: bool| {
        let all = vec![allocation(at(0, 0), 0, bytes(1)), launch(at(0, 1), &[0]), free(at(0, 2), 0)];
        all.into_iter().take(if end { 3 } else { 2 }).collect()
    };
    let holder = ForeignBuffer::Global { name: "g".to_owned() };
    let shared = |end| {
        let mut facts = function(blocks(&[&[]]), 1, sites(end));
        facts.buffers[0].shared = Some(holder.clone());
        facts
    };
    assert!(matches!(only(plan(&shared(true))), Placement::Static(_)));
    assert_eq!(lazy_reason(&shared(false)), LazyReason::Outlives { holder: holder.clone() });
    let main = Facts { function: "main".to_owned(), ..shared(false) };
    assert!(matches!(only(plan(&main)), Placement::Static(_)), "main runs once");
}

#[test]
fn escaping_pointer_is_lazy_and_says_to_whom() {
    let kind = EscapeKind::Call { callee: "solve".to_owned() };
    let escape = SiteKind::Escape { buffers: vec![BufferId(0)], kind: kind.clone() };
    let sites = vec![allocation(at(0, 0), 0, bytes(1)), launch(at(0, 1), &[0]), site(at(0, 2), escape)];
    let reason = lazy_reason(&function(blocks(&[&[]]), 1, sites));
    assert_eq!(reason, LazyReason::Escape { kind });
    assert!(reason.to_string().contains("passed to solve"));
}

fn sized_by(source: LeafSource) -> Facts {
    let sites = vec![
        allocation(at(0, 2), 0, bytes(1)),
        allocation(at(0, 6), 1, Expr::Leaf(LeafId(0))),
        launch(at(0, 8), &[0, 1]),
    ];
    let mut facts = function(blocks(&[&[]]), 2, sites);
    facts.leaves.push(leaf(source));
    facts
}

#[test]
fn size_computed_after_the_first_allocation_is_lazy() {
    let facts = sized_by(LeafSource::Instruction(at(0, 4)));
    assert_eq!(lazy_reason(&facts), LazyReason::SizeKnownLate { leaf: "n".to_owned() });
    let Placement::Static(_) = only(plan(&sized_by(LeafSource::Instruction(at(0, 1))))) else {
        panic!("lazy")
    };
}

#[test]
fn memory_is_read_again_at_the_begin_unless_it_may_be_written_in_between() {
    let kept =
        sized_by(LeafSource::Memory { at: at(0, 5), clobbers: vec![at(0, 0), at(0, 7)], is_loaded: true });
    let Placement::Static(task) = only(plan(&kept)) else { panic!("lazy") };
    assert_eq!(task.reloads, [LeafId(0)]);
    let written = sized_by(LeafSource::Memory { at: at(0, 5), clobbers: vec![at(0, 3)], is_loaded: true });
    assert_eq!(lazy_reason(&written), LazyReason::SizeKnownLate { leaf: "n".to_owned() });
}

#[test]
fn tasks_that_overlap_are_one_and_tasks_that_do_not_are_two() {
    let sites = |second: u32| {
        vec![
            allocation(at(0, 0), 0, bytes(1)),
            launch(at(0, 1), &[0]),
            free(at(0, 3), 0),
            allocation(at(0, second), 1, bytes(2)),
            launch(at(0, 6), &[1]),
            free(at(0, 7), 1),
        ]
    };
    assert_eq!(plan(&function(blocks(&[&[]]), 2, sites(2))).tasks.len(), 1);
    assert_eq!(plan(&function(blocks(&[&[]]), 2, sites(4))).tasks.len(), 2);
}

#[test]
fn report_reads_back_and_words_one_remark_per_task() {
    let mut facts = sized_by(LeafSource::Argument);
    for site in &mut facts.sites {
        if let SiteKind::Launch { kernel, geometry, .. } = &mut site.kind {
            *kernel = Some("__device_stub__k".to_owned());
            *geometry = Some(Geometry { blocks: Expr::Leaf(LeafId(0)), threads: bytes(256) });
        }
    }
    let mut report = Report { source: "a.cu".to_owned(), ..Report::default() };
    report.add(&facts, &plan(&facts));
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    let [remark] = report.remarks().try_into().unwrap();
    assert!(remark.text.starts_with("static task in f: 2 allocations, 1 + [n] bytes"), "{remark:?}");
    assert_eq!((remark.symbol.as_str(), remark.missed), ("f", false));
    report.name_functions(|symbol| format!("{symbol}(int)"));
    assert!(report.remarks()[0].text.starts_with("static task in f(int): "));
    let launch = &report.tasks[0].launches[0];
    let said = [&launch.kernel, &launch.blocks, &launch.threads_per_block].map(|text| text.as_deref());
    assert_eq!(said, [Some("k(int)"), Some("[n]"), Some("256")]);
}
