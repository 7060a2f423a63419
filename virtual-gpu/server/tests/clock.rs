//! The virtual clock: when requests are handled and which process holds which, independent of real time.

use eager_gpu_model::{AllocId, AllocKind, Nanos, Op, Options, Range, parse_cards};
use eager_vgpu_link::{
    ClientFrame, Earliest, Joined, PROTOCOL_VERSION, Reply, Request, RequestId, RunReport, Settle, Settled,
    Sleeper, Stamp,
};
use eager_vgpud::{Answer, Clock, ProcessId, RealNanos, Scale, Service};

struct Bench {
    service: Service,
    next_id: u64,
}

/// Replies to one message, by process, in order.
type Replies = Vec<(ProcessId, Reply)>;

impl Bench {
    fn new() -> Bench {
        let options = Options { context_create: Nanos(0), ..Options::default() };
        let clock = Clock::Virtual { host_factor: 1.0 };
        let cards = parse_cards("1xV100-16GB").unwrap();
        Bench { service: Service::new(cards, options, Scale { memory: 1, time: 0.0 }, clock), next_id: 0 }
    }

    fn say(&mut self, process: ProcessId, request: Request) -> Replies {
        self.next_id += 1;
        let frame = ClientFrame { id: RequestId(self.next_id), request };
        let mut answers = Vec::new();
        self.service.handle(RealNanos(0), process, frame, &mut answers);
        answers.into_iter().map(|Answer { process, frame }| (process, frame.reply.unwrap())).collect()
    }

    /// Sends a request of an agent at `at`; `taken`: replies it had before; `running_at`: time of another running agent.
    fn ask(
        &mut self,
        process: ProcessId,
        at: u64,
        taken: &[u64],
        running_at: Option<u64>,
        request: Request,
    ) -> Replies {
        let stamp = Stamp {
            at: Nanos(at),
            agent: 0,
            bound: running_at.map(|at| Earliest { at: Nanos(at), thread: None }),
            taken: taken.iter().map(|&id| RequestId(id)).collect(),
        };
        self.say(process, Request::Stamped { stamp, request: Some(Box::new(request)) })
    }

    /// A process that takes part, and the id of the reply to its join.
    fn join(&mut self, seat: Option<u64>) -> (ProcessId, u64, Nanos) {
        let process = self.service.connect();
        self.say(process, Request::Hello { version: PROTOCOL_VERSION, pid: 7 });
        let joined = self.say(process, Request::Join { seat });
        let [(_, Reply::Joined(Some(Joined { began, .. })))] = joined[..] else { panic!("{joined:?}") };
        (process, self.next_id, began)
    }

    /// Connects the daemon.
    fn daemon(&mut self) -> ProcessId {
        let daemon = self.service.connect();
        self.say(daemon, Request::Hello { version: PROTOCOL_VERSION, pid: 8 });
        assert_eq!(self.say(daemon, Request::Settled(Settled::default())), []);
        daemon
    }
}

/// The time of a stamped reply.
fn now(reply: &Reply) -> u64 {
    match reply {
        Reply::Stamped { now, .. } => now.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_later_request_waits_until_nobody_can_come_before_it() {
    let mut bench = Bench::new();
    let (one, one_joined, _) = bench.join(None);
    let (other, other_joined, _) = bench.join(None);
    assert_eq!(bench.ask(one, 500, &[one_joined], None, Request::Turn), [], "the other is still at 0");
    let replies = bench.ask(other, 200, &[other_joined], None, Request::Turn);
    assert!(matches!(&replies[..], [(who, reply)] if *who == other && now(reply) == 200), "{replies:?}");
    let turn = bench.next_id;
    // `other` goes on until it asks again, later than `one`.
    let replies = bench.ask(other, 900, &[turn], None, Request::Turn);
    assert!(matches!(&replies[..], [(who, reply)] if *who == one && now(reply) == 500), "{replies:?}");
}

#[test]
fn at_one_time_seats_decide_the_order_and_one_goes_on_at_once() {
    let mut bench = Bench::new();
    let launcher = bench.service.connect();
    bench.say(launcher, Request::Hello { version: PROTOCOL_VERSION, pid: 1 });
    assert_eq!(bench.say(launcher, Request::Reserve { seats: 2 }), [(launcher, Reply::Seats { first: 0 })]);
    let (second, second_joined, _) = bench.join(Some(1));
    assert_eq!(bench.ask(second, 0, &[second_joined], None, Request::Turn), [], "seat 0 is not taken yet");
    let (first, first_joined, began) = bench.join(Some(0));
    assert_eq!(began, Nanos(0));
    let replies = bench.ask(first, 0, &[first_joined], None, Request::Turn);
    assert!(matches!(&replies[..], [(who, _)] if *who == first), "{replies:?}");
    let turn = bench.next_id;
    let replies = bench.ask(first, 1, &[turn], None, Request::Turn);
    assert!(matches!(&replies[..], [(who, _)] if *who == second), "{replies:?}");
}

#[test]
fn whoever_is_gone_or_gives_up_its_seat_holds_nobody() {
    let mut bench = Bench::new();
    let launcher = bench.service.connect();
    bench.say(launcher, Request::Hello { version: PROTOCOL_VERSION, pid: 1 });
    bench.say(launcher, Request::Reserve { seats: 2 });
    let (killed, ..) = bench.join(None);
    let (waits, joined, _) = bench.join(None);
    assert_eq!(bench.ask(waits, 10, &[joined], None, Request::Turn), []);
    bench.service.disconnect(RealNanos(0), killed);
    assert_eq!(bench.say(launcher, Request::GiveUp { seat: 0 }).len(), 1, "seat 1 is left");
    bench.service.disconnect(RealNanos(0), launcher);
    let mut answers = Vec::new();
    bench.service.advance(RealNanos(0), &mut answers);
    assert!(matches!(&answers[..], [Answer { process, .. }] if *process == waits), "{answers:?}");
}

#[test]
fn an_operation_ends_at_its_modelled_time_and_no_other_process_is_before_it() {
    let mut bench = Bench::new();
    let (one, joined, _) = bench.join(None);
    bench.ask(one, 0, &[joined], None, Request::OpenContext { device: 0 });
    let opened = bench.next_id;
    let allocate = Request::Allocate { device: 0, bytes: 1 << 30, kind: AllocKind::Device };
    let made = bench.ask(one, 0, &[opened], None, allocate);
    let [(_, Reply::Stamped { reply, .. })] = &made[..] else { panic!("{made:?}") };
    let Ok(Reply::Allocated(alloc)) = **reply else { panic!("{made:?}") };
    let allocated = bench.next_id;
    let (other, other_joined, _) = bench.join(None);
    let range = Range { offset: 0, bytes: 1 << 30 };
    let op = Op::CopyToDevice { alloc: AllocId(alloc.0), range, pinned: true };
    assert_eq!(bench.ask(one, 5, &[allocated], None, Request::Run { device: 0, op }), []);
    // 1 GiB over PCIe 3 at 12 GB/s takes 89 ms; `other` asks half way, and again at the end.
    let replies = bench.ask(other, 40_000_000, &[other_joined], None, Request::Turn);
    assert!(
        matches!(&replies[..], [(who, reply)] if *who == other && now(reply) == 40_000_000),
        "{replies:?}"
    );
    let turn = bench.next_id;
    let replies = bench.ask(other, 400_000_000, &[turn], None, Request::Turn);
    let [(who, Reply::Stamped { now, reply })] = &replies[..] else { panic!("{replies:?}") };
    let Ok(Reply::Ran(RunReport { duration_ns, .. })) = **reply else { panic!("{replies:?}") };
    assert_eq!((*who, now.0), (one, 5 + duration_ns));
    assert!((80_000_000..100_000_000).contains(&duration_ns), "{duration_ns}");
}

#[test]
fn the_daemon_is_asked_before_time_goes_on_and_wakes_who_it_answered() {
    let mut bench = Bench::new();
    let daemon = bench.daemon();
    let (one, joined, _) = bench.join(None);
    let (other, other_joined, _) = bench.join(None);
    bench.ask(other, 1_000, &[other_joined], None, Request::Turn);
    // A turn: the daemon must be given the time first.
    let asked = bench.ask(one, 100, &[joined], None, Request::Turn);
    let settle = |now, sleepers, gone| Reply::Settle(Settle { now: Nanos(now), sleepers, gone });
    assert_eq!(asked, [(daemon, settle(100, vec![], vec![]))]);
    let replies = bench.say(daemon, Request::Settled(Settled::default()));
    assert!(matches!(&replies[..], [(who, reply)] if *who == one && now(reply) == 100), "{replies:?}");
    let turn = bench.next_id - 1;
    let asked = bench.ask(one, 100, &[turn], None, Request::AwaitDaemon { slot: 3, seen: 4 });
    let sleeper = Sleeper { pid: 7, slot: 3, seen: 4 };
    assert_eq!(asked, [(daemon, settle(100, vec![sleeper], vec![]))]);
    // Answered: the process is awake at 100, and the turn at 1000 waits for it.
    let settled = Settled { awake: vec![0], deadline: Some(Nanos(700)) };
    assert_eq!(bench.say(daemon, Request::Settled(settled)), []);
    let replies = bench.ask(one, 100, &[], None, Request::Awake);
    assert!(matches!(&replies[..], [(who, reply)] if *who == one && now(reply) == 100), "{replies:?}");
    let awake = bench.next_id;
    // The daemon is told of the process's end before its deadline, and of the deadline before the turn.
    assert_eq!(bench.ask(one, 600, &[awake], None, Request::Leave), [(daemon, settle(600, vec![], vec![]))]);
    let left = bench.next_id;
    let replies = bench.say(daemon, Request::Settled(Settled { awake: vec![], deadline: Some(Nanos(700)) }));
    assert!(matches!(&replies[..], [(who, reply)] if *who == one && now(reply) == 600), "{left} {replies:?}");
    bench.service.disconnect(RealNanos(0), one);
    let mut answers = Vec::new();
    bench.service.advance(RealNanos(0), &mut answers);
    let [Answer { frame, .. }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(frame.reply, Ok(settle(600, vec![], vec![7])));
    let asked = bench.say(daemon, Request::Settled(Settled { awake: vec![], deadline: Some(Nanos(700)) }));
    assert_eq!(asked, [(daemon, settle(700, vec![], vec![]))]);
    let asked = bench.say(daemon, Request::Settled(Settled::default()));
    assert_eq!(asked, [(daemon, settle(1_000, vec![], vec![]))]);
}

#[test]
fn sleep_counts_as_host_time_of_who_holds_the_clock() {
    let mut bench = Bench::new();
    let (_sleeper, ..) = bench.join(None);
    let (waits, joined, _) = bench.join(None);
    assert_eq!(bench.ask(waits, 1_000, &[joined], None, Request::Turn), []);
    let holder = bench.service.holder().expect("the sleeper");
    let mut answers = Vec::new();
    bench.service.slept(holder, 1_000, &mut answers);
    assert_eq!(answers, [], "at 1000 it may still come");
    bench.service.slept(holder, 1, &mut answers);
    assert!(matches!(&answers[..], [Answer { process, .. }] if *process == waits), "{answers:?}");
}
