//! The daemon holds for a program exactly what the program has: nothing twice, nothing missed, in any order of calls.

use super::fakes::{Decision, first_slot, lazy_slot};
use super::{Bench, SITE};
use crate::outcome::Outcome;
use crate::runtime::CudaError;
use crate::state::Thread;
use eager_client::task::Geometry;
use eager_proto::request::{BeginFlags, RequestBody};
use proptest::prelude::*;

#[test]
fn every_task_asks_for_the_managed_variables_too() {
    let mut bench = Bench::new();
    bench.shim.program.write().add_managed_variable(30);
    bench.begin(SITE, 100);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(130));
    bench.end(SITE);
    assert_eq!(bench.daemon.requirement(first_slot()), None);
    let a = bench.malloc(10);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(40));
}

#[test]
fn a_static_task_is_told_once_and_ends_with_its_site() {
    let mut bench = Bench::new();
    bench.daemon.bind_on(2);
    bench.shim.task_begin(&mut bench.thread, SITE, 100, Geometry::UNKNOWN);
    let (a, b) = (bench.malloc(60), bench.malloc(40));
    assert_eq!(bench.daemon.requirement(first_slot()), Some(100));
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    bench.shim.all_launched(&bench.thread, SITE);
    assert_eq!(bench.shim.free(&mut bench.thread, a), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(first_slot()), Some(40));
    assert_eq!(bench.shim.free(&mut bench.thread, b), Outcome::Handled(()));
    bench.shim.task_end(&mut bench.thread, SITE);
    let requests = bench.daemon.requests();
    let begin = RequestBody::TaskBegin {
        requirement: 100,
        site: SITE,
        blocks: 0,
        threads_per_block: 0,
        flags: BeginFlags::NONE,
        function: "main".into(),
    };
    let shrink = |bytes| RequestBody::TaskShrink { bytes };
    assert_eq!(requests, [begin, RequestBody::AllLaunched, shrink(60), shrink(40), RequestBody::TaskEnd]);
    assert_eq!(bench.daemon.violations(), [""; 0]);
    let log = bench.cuda.log();
    assert_eq!(
        log[..3],
        ["device 2", "malloc 60 on 2", "malloc 40 on 2"],
        "plain memory on the daemon's device"
    );
    assert!(bench.daemon.counters().0 == bench.daemon.counters().1, "nothing of an ended task is in flight");
}

#[test]
fn buffers_that_outlive_their_site_keep_the_task_at_their_size() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 100, Geometry::UNKNOWN);
    let a = bench.malloc(30);
    bench.shim.task_end(&mut bench.thread, SITE);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(30));
    let other = bench.malloc(5);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(30), "later allocations are not its");
    assert_eq!(bench.shim.free(&mut bench.thread, a), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(first_slot()), None);
    assert_eq!(bench.shim.free(&mut bench.thread, other), Outcome::Handled(()));
    assert_eq!(bench.daemon.violations(), [""; 0]);
}

#[test]
fn a_refused_task_is_asked_for_once_and_all_that_is_its_own_fails() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Refuse);
    bench.begin(SITE, 5 << 30);
    let refused =
        "the task in main (5 GiB) is refused: too much is wanted. Its CUDA calls return out-of-memory errors";
    assert_eq!(*bench.reported.lock(), [refused]);
    bench.daemon.requests();
    for bytes in [4 << 30, 10] {
        assert_eq!(bench.shim.malloc(&mut bench.thread, bytes), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    }
    let provoked = ["provoke out of memory"; 2];
    assert_eq!(bench.cuda.log(), provoked, "cudaGetLastError says it too");
    assert_eq!(bench.launch(&[]), Outcome::Fail(CudaError::MEMORY_ALLOCATION), "with null pointers");
    assert_eq!(bench.daemon.requests(), [], "nothing comes back as another task");
    bench.shim.all_launched(&bench.thread, SITE);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskEnd]);
    bench.begin(SITE, 10);
    bench.malloc(10);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(10), "the next time it is a task again");
    assert_eq!((bench.reported.lock().len(), bench.daemon.violations().len()), (1, 0));
}

#[test]
fn a_task_larger_than_every_device_asks_for_each_allocation_and_only_what_never_fits_fails() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::TooLarge);
    bench.begin(SITE, 5 << 30);
    let refused = "the task in main (5 GiB) is refused as a whole: too much is wanted. Each of its allocations is requested by itself";
    assert_eq!(*bench.reported.lock(), [refused]);
    bench.daemon.requests();
    bench.daemon.decide(Decision::Refuse);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 4 << 30), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    assert_eq!(bench.cuda.log(), ["provoke out of memory"], "cudaGetLastError says it too");
    assert!(bench.reported.lock()[1].starts_with("an allocation of 4 GiB is refused: too much is wanted"));
    let a = bench.malloc(10);
    let begin = RequestBody::lazy_begin;
    let asked = bench.daemon.requests();
    assert_eq!(asked, [begin(4 << 30), RequestBody::TaskEnd, begin(10)], "which may wait: nothing is held");
    bench.daemon.refuse_extensions(true);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 4 << 30), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    bench.daemon.refuse_extensions(false);
    let b = bench.malloc(5);
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(15));
    let log = bench.cuda.log();
    assert!(["malloc 10 on 0", "malloc 5 on 0"].iter().all(|line| log.iter().any(|l| l == line)), "{log:?}");
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    bench.free(a);
    bench.free(b);
    bench.daemon.requests();
    bench.shim.all_launched(&bench.thread, SITE);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskEnd]);
    bench.begin(SITE, 10);
    bench.malloc(10);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(10), "the next time it is a task again");
    assert_eq!(bench.daemon.violations(), [""; 0]);
}

#[test]
fn an_allocation_of_a_task_too_large_that_cuda_fails_gives_its_room_back() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::TooLarge);
    bench.begin(SITE, 100);
    bench.cuda.fail_malloc(true);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 60), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    assert_eq!(bench.daemon.held(), 0);
    bench.end(SITE);
    assert_eq!((bench.daemon.requirement(lazy_slot()), bench.daemon.violations().len()), (None, 0));
}

#[test]
fn a_task_too_large_whose_thread_has_lazy_memory_is_bound_with_it() {
    let mut bench = Bench::new();
    let early = bench.malloc(50);
    bench.daemon.decide(Decision::TooLarge);
    bench.begin(SITE, 100);
    assert_eq!(bench.daemon.held(), 0);
    let own = bench.malloc(30);
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(80));
    assert_eq!(bench.launch(&[early, own]), Outcome::Handled(()), "one device");
    bench.end(SITE);
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(80), "buffers outlive their site");
    bench.free(early);
    bench.free(own);
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
}

#[test]
fn a_refused_task_leaves_the_threads_lazy_memory_alone() {
    let mut bench = Bench::new();
    let early = bench.malloc(50);
    bench.daemon.decide(Decision::Refuse);
    bench.begin(SITE, 100);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 30), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    bench.end(SITE);
    assert_eq!(bench.launch(&[early]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(50));
    bench.free(early);
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
}

#[test]
fn a_kernel_of_a_refused_task_does_not_run_whosever_memory_it_names() {
    let mut bench = Bench::new();
    bench.begin(SITE, 100);
    let kept = bench.malloc(100);
    bench.end(SITE);
    bench.daemon.decide(Decision::Refuse);
    bench.begin(SITE, 100);
    assert_eq!(bench.launch(&[kept]), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    bench.end(SITE);
    assert_eq!(bench.launch(&[kept]), Outcome::Handled(()));
    assert_eq!((bench.daemon.requirement(lazy_slot()), bench.daemon.held()), (None, 100));
}

#[test]
fn a_lazy_task_is_asked_for_at_its_first_launch_with_all_it_has() {
    let mut bench = Bench::new();
    let (a, b) = (bench.malloc(60), bench.malloc(40));
    assert_eq!(bench.daemon.requests(), super::foothold::ASKED, "no memory is asked for before the launch");
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    let begin = RequestBody::TaskBegin {
        requirement: 100,
        site: 0,
        blocks: 6,
        threads_per_block: 32,
        flags: BeginFlags { managed: true, ..BeginFlags::LAZY },
        function: "_Z1kPfS_i".into(),
    };
    assert_eq!(bench.daemon.requests(), [begin]);
    let c = bench.malloc(7);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskExtend { bytes: 7 }]);
    for address in [a, b, c] {
        assert_eq!(bench.shim.free(&mut bench.thread, address), Outcome::Handled(()));
    }
    let shrink = |bytes| RequestBody::TaskShrink { bytes };
    assert_eq!(bench.daemon.requests(), [shrink(60), shrink(40), RequestBody::TaskEnd]);
    let again = bench.malloc(1);
    assert_eq!(bench.launch(&[again]), Outcome::Handled(()), "the next allocations are a new task");
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(1));
    assert_eq!(bench.daemon.violations(), [""; 0]);
}

#[test]
fn a_lazy_task_with_streams_keeps_its_device_when_its_last_buffer_goes() {
    let mut bench = Bench::new();
    let stream = bench.shim.stream_create(&mut bench.thread, crate::runtime::StreamFlags::NON_BLOCKING, None);
    assert!(matches!(stream, Outcome::Handled(_)));
    let a = bench.malloc(10);
    assert_eq!(bench.shim.free(&mut bench.thread, a), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(0));
}

#[test]
fn memory_that_nobody_owns_yet_goes_to_the_static_task_that_uses_it() {
    let mut bench = Bench::new();
    let early = bench.malloc(50);
    let unused = bench.malloc(9);
    bench.shim.task_begin(&mut bench.thread, SITE, 100, Geometry::UNKNOWN);
    let own = bench.malloc(100);
    assert_eq!(bench.launch(&[early, own]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(first_slot()), Some(150));
    assert_eq!(bench.daemon.requirement(lazy_slot()), None, "what no kernel uses is not asked for");
    for address in [early, own, unused] {
        assert_eq!(bench.shim.free(&mut bench.thread, address), Outcome::Handled(()));
    }
    bench.shim.task_end(&mut bench.thread, SITE);
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
}

#[test]
fn a_refused_extension_fails_the_allocation_and_changes_nothing() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    bench.daemon.refuse_extensions(true);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 11), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    assert_eq!(bench.daemon.requirement(first_slot()), Some(10));
    bench.malloc(10);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(10), "the promise is still there");
}

#[test]
fn a_failed_allocation_gives_its_room_back() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    bench.cuda.fail_malloc(true);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 15), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    assert_eq!(bench.daemon.requirement(first_slot()), Some(10));
}

#[test]
fn more_static_tasks_than_slots_fall_back_to_the_lazy_one() {
    let bench = Bench::new();
    let mut threads: Vec<Thread> = (0..20).map(|_| Thread::default()).collect();
    for (site, thread) in (0..).zip(&mut threads) {
        bench.shim.task_begin(thread, site, 1, Geometry::UNKNOWN);
    }
    assert_eq!(bench.reported.lock().len(), 1);
    for (site, thread) in (0..).zip(&mut threads) {
        bench.shim.task_end(thread, site);
    }
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
}

#[derive(Debug, Clone)]
enum Step {
    Begin { site: u64, bytes: u64, refuse: bool },
    End { site: u64 },
    Malloc { bytes: u64, extension_refused: bool, fails: bool },
    Free { index: usize },
    Launch { first: usize, second: usize },
    Synchronize,
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0u64..4, 0u64..100, prop::bool::weighted(0.1)).prop_map(|(site, bytes, refuse)| Step::Begin { site, bytes, refuse }),
        2 => (0u64..4).prop_map(|site| Step::End { site }),
        6 => (1u64..100, prop::bool::weighted(0.1), prop::bool::weighted(0.1))
            .prop_map(|(bytes, extension_refused, fails)| Step::Malloc { bytes, extension_refused, fails }),
        4 => any::<usize>().prop_map(|index| Step::Free { index }),
        4 => (any::<usize>(), any::<usize>()).prop_map(|(first, second)| Step::Launch { first, second }),
        1 => Just(Step::Synchronize),
        1 => Just(Step::Reset),
    ]
}

impl Bench {
    fn carry_out(&mut self, step: &Step, live: &mut Vec<u64>) {
        let Bench { shim, thread, .. } = self;
        match *step {
            Step::Begin { site, bytes, refuse } => {
                self.daemon.decide(if refuse { Decision::Refuse } else { Decision::Normal });
                shim.task_begin(thread, site, bytes, Geometry::UNKNOWN);
            }
            Step::End { site } => shim.task_end(thread, site),
            Step::Malloc { bytes, extension_refused, fails } => {
                self.daemon.refuse_extensions(extension_refused);
                self.cuda.fail_malloc(fails);
                if let Outcome::Handled(address) = shim.malloc(thread, bytes) {
                    live.push(address);
                }
                self.daemon.refuse_extensions(false);
                self.cuda.fail_malloc(false);
            }
            Step::Free { index } if !live.is_empty() => {
                let address = live.swap_remove(index % live.len());
                assert_eq!(shim.free(thread, address), Outcome::Handled(()));
            }
            Step::Launch { first, second } if !live.is_empty() => {
                let arguments = [live[first % live.len()], live[second % live.len()]];
                let _ = self.launch(&arguments);
            }
            Step::Synchronize => {
                let _ = shim.device_synchronize(thread);
                let (launched, retired) = self.daemon.counters();
                assert_eq!(launched, retired);
            }
            Step::Reset => {
                if shim.device_reset(thread) == Outcome::Handled(()) {
                    live.clear();
                }
            }
            Step::Free { .. } | Step::Launch { .. } => {}
        }
    }

    /// Checks that the daemon holds what the tasks have and may still allocate, and that the ledger equals the
    /// runtime.
    fn check_books(&self) {
        let state = self.shim.state.lock();
        for task in state.client.bound() {
            let live = state.client.ledger.bytes_of(task.key);
            assert_eq!(task.account.live(), live, "live bytes of {:?}", task.key);
            assert_eq!(
                self.daemon.requirement(task.key.slot),
                Some(task.account.reserved()),
                "{:?}",
                task.key
            );
        }
        let bound: u64 = state.client.bound().map(|task| task.account.reserved()).sum();
        assert_eq!(self.daemon.held(), bound, "the daemon holds something for a task that is gone");
        let counted: u64 = state.client.tasks().map(|task| task.account.live()).sum();
        assert_eq!(counted, self.cuda.live_bytes(), "each live byte is counted in exactly one task");
        assert_eq!(self.daemon.violations(), [""; 0]);
    }
}

proptest! {
    #[test]
    fn nothing_is_counted_twice_or_missed(steps in prop::collection::vec(step(), 1..60)) {
        let mut bench = Bench::new();
        bench.add_site(0, "outer", &[1], 0);
        bench.add_site(1, "callee", &[], 0);
        bench.add_site(2, "callee", &[], eager_abi::TASK_REUSES);
        bench.add_site(3, "outer", &[0], eager_abi::TASK_REUSES);
        let mut live = Vec::new();
        for step in &steps {
            bench.carry_out(step, &mut live);
            bench.check_books();
        }
        for address in live {
            prop_assert_eq!(bench.shim.free(&mut bench.thread, address), Outcome::Handled(()));
        }
        while let Some(open) = bench.thread.sites.open.last().copied() {
            bench.shim.task_end(&mut bench.thread, open.site);
        }
        bench.check_books();
        let (launched, retired) = bench.daemon.counters();
        prop_assert!(retired <= launched);
        prop_assert_eq!(bench.cuda.live_bytes(), 0);
    }
}
