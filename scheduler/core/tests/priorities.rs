//! Priorities of a user's own tasks: they change the order of those alone (specification S-124).

use eager_core::action::Action;
use eager_core::event::{DeviceProfile, Event, TaskRequest};
use eager_core::journal::JournalHeader;
use eager_core::options::QueueOrder;
use eager_core::{Options, PolicyName, Scheduler, invariants};
use eager_units::{Bytes, ClientId, DeviceId, Nanos, TaskId};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;
/// A device has room for four of these.
const TASK: Bytes = Bytes(4 * GIB);
const ANNA: u32 = 1000;
const BERT: u32 = 1001;

struct Run {
    scheduler: Scheduler,
    now: Nanos,
    next: u64,
    /// Tasks in the order in which they were granted, with the step of each.
    granted: Vec<(usize, TaskId)>,
    running: Vec<TaskId>,
    steps: usize,
}

impl Run {
    fn new(policy: PolicyName, queue: Option<QueueOrder>) -> Run {
        let options = Options { queue, ..Options::default() };
        let scheduler = Scheduler::new(policy, options);
        let (now, granted, running) = (Nanos(0), Vec::new(), Vec::new());
        let mut run = Run { scheduler, now, next: 0, granted, running, steps: 0 };
        let (name, capacity) = ("test".to_owned(), Bytes(16 * GIB));
        let (sms, warps_per_sm, blocks_per_sm, faults_stall) = (80, 64, 32, false);
        let profile = DeviceProfile { name, capacity, sms, warps_per_sm, blocks_per_sm, faults_stall };
        run.step(Event::DeviceAdded { device: DeviceId(0), profile });
        for (client, uid) in [(0, ANNA), (1, BERT)] {
            let label = "x".to_owned();
            run.step(Event::ClientConnected {
                client: ClientId(client),
                uid,
                label,
                informed: false,
                same_process: None,
                nice: 0,
            });
        }
        run
    }

    fn step(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.steps += 1;
        self.now = Nanos(self.now.0 + 1_000_000);
        self.scheduler.step(self.now, event, &mut actions);
        invariants::check(&self.scheduler).expect("invariants");
        for action in actions {
            if let Action::Bind { task, .. } = action {
                self.granted.push((self.steps, task));
                self.running.push(task);
            }
        }
    }

    fn begin(&mut self, uid: u32, requirement: Bytes, priority: i8) -> TaskId {
        let (task, client) = (TaskId(self.next), ClientId(u64::from(uid - ANNA)));
        self.next += 1;
        let request = TaskRequest { requirement, priority, whole: true, ..TaskRequest::default() };
        self.step(Event::TaskBegin { task, client, request });
        task
    }

    fn end_first(&mut self) {
        if !self.running.is_empty() {
            let task = self.running.remove(0);
            self.step(Event::TaskEnd { task });
        }
    }

    fn order(&self) -> Vec<TaskId> {
        self.scheduler.queue().iter().map(|standing| standing.task.task).collect()
    }
}

/// A run whose device is full of Bert's tasks.
fn full(policy: PolicyName) -> Run {
    let mut run = Run::new(policy, None);
    for _ in 0..4 {
        run.begin(BERT, TASK, 0);
    }
    run
}

const COUNT_MEMORY: [PolicyName; 5] = [
    PolicyName::Case,
    PolicyName::CaseFifo,
    PolicyName::SchedGpu,
    PolicyName::EagerOpt,
    PolicyName::EagerFair,
];

#[test]
fn own_tasks_change_places_and_others_keep_theirs() {
    for policy in COUNT_MEMORY {
        let mut run = full(policy);
        let low = run.begin(ANNA, TASK, 0);
        let other = run.begin(BERT, TASK, 0);
        let high = run.begin(ANNA, TASK, 5);
        let others = |run: &Run| run.order().iter().position(|id| *id == other);
        let mut plain = full(policy);
        plain.begin(ANNA, TASK, 0);
        plain.begin(BERT, TASK, 0);
        plain.begin(ANNA, TASK, 0);
        assert_eq!(others(&run), others(&plain), "{policy}: {:?}", run.order());
        let place = |id| run.order().iter().position(|at| *at == id);
        assert!(place(high) < place(low), "{policy}: {:?}", run.order());
        run.step(Event::PrioritySet { task: low, priority: 9 });
        let place = |id| run.order().iter().position(|at| *at == id);
        assert!(place(low) < place(high), "{policy}: {:?}", run.order());
        run.end_first();
        assert_eq!(run.granted.last().map(|(_, task)| *task), Some(low), "{policy}");
    }
}

#[test]
fn another_policy_and_an_image_keep_the_order() {
    let mut run = full(PolicyName::CaseFifo);
    let (low, high) = (run.begin(ANNA, TASK, -1), run.begin(ANNA, TASK, 1));
    assert_eq!(run.order(), [high, low]);
    let image = JournalHeader::of(&run.scheduler).image.expect("something happened");
    let raised = Scheduler::from_image(PolicyName::CaseFifo, Options::default(), *image).expect("an image");
    assert_eq!(raised.queue().iter().map(|standing| standing.task.task).collect::<Vec<_>>(), [high, low]);
    run.step(Event::PolicySet { policy: PolicyName::EagerFair });
    assert_eq!(run.order(), [high, low]);
}

#[test]
fn what_is_said_of_a_task_names_its_priority() {
    let mut run = full(PolicyName::Case);
    let task = run.begin(ANNA, TASK, 7);
    let text = run.scheduler.explain_task(task, run.now).expect("it is there").join("\n");
    assert!(text.contains("priority is 7") && text.contains("uid 1000 alone"), "{text}");
}

/// The next step of a user: begins a task, gives the last one a priority, or the oldest task of any user ends.
fn any_steps() -> impl Strategy<Value = Vec<(u8, bool, i8)>> {
    proptest::collection::vec((0u8..4, any::<bool>(), -3i8..4), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Anna gives her tasks priorities in one run and none in the other: Bert's tasks are granted at the same steps in
    /// both.
    #[test]
    fn grants_of_others_do_not_change(steps in any_steps(), policy in 0..PolicyName::ALL.len(), queue in 0..4usize) {
        let policy = PolicyName::ALL[policy];
        let orders = [QueueOrder::Fifo, QueueOrder::Backfill, QueueOrder::LargestFirst, QueueOrder::LongestRemaining];
        let granted = |with: bool| {
            let mut run = Run::new(policy, Some(orders[queue]));
            let mut annas = Vec::new();
            for &(what, is_anna, priority) in &steps {
                let priority = if with { priority } else { 0 };
                match what {
                    0 | 1 if is_anna => annas.push(run.begin(ANNA, TASK, priority)),
                    0 | 1 => {
                        run.begin(BERT, TASK, 0);
                    }
                    // A step in both runs, so that they can be compared.
                    2 => match annas.last() {
                        Some(&task) => run.step(Event::PrioritySet { task, priority }),
                        None => run.step(Event::Tick),
                    },
                    _ => run.end_first(),
                }
            }
            let of_bert = |task: TaskId| !annas.contains(&task);
            run.granted.iter().filter(|(_, task)| of_bert(*task)).copied().collect::<Vec<_>>()
        };
        prop_assert_eq!(granted(true), granted(false));
    }
}
