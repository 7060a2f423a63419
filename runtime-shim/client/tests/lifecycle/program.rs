//! A program of several threads, each of which enters the client and waits as the shim's threads do.

use crate::books::{Books, Place};
use crate::daemon::{Daemon, ROOM};
use eager_client::account::{Announced, Requirement};
use eager_client::cell::{Cell, State};
use eager_client::ledger::BufferId;
use eager_client::sites::{Beginning, Begun, OpenSite, Sites};
use eager_client::task::{Geometry, Kind, Slot, TaskKey, lazy_slot};
use eager_client::way::{ByName, Form};
use eager_client::{AllocationAsked, Client, Coming, Counted, Decided, Extended, Extension, Step};
use eager_units::{Bytes, DeviceId, Habits, Terms};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Mistakes that a user of the client could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    ForgottenShrink,
    ForgottenEnd,
    /// Two requests of a slot reach the daemon in the other order.
    SwappedRequests,
    /// What was counted for memory that is not made stays counted.
    ForgottenUndo,
    /// What was granted for memory that is not made is not returned.
    ForgottenGrant,
    FreedTwice,
    /// What the slot showed of its last task is taken for the answer.
    StaleCell,
}

/// What a thread is about.
#[derive(Debug, Clone, Copy)]
pub enum Doing {
    Nothing,
    Begins(Beginning),
    /// Waits for the decision on the task of the site.
    Opens(Beginning, TaskKey),
    /// Needs the task's device, and then goes on with the rest.
    Needs(TaskKey, Then),
    Allocates(u64, Form),
    /// Waits for the decision on a request for this buffer.
    AllocatesAsked(u64, AllocationAsked),
    /// Waits for the answer to an extension for this buffer, of which the site had announced this much, and makes it.
    Makes(u64, u64, Counted),
    /// The same for memory behind the address of a buffer whose memory was there.
    Brings(u64, Place, Coming),
    /// Has this many bytes for a task, to which it hands a buffer over.
    HandsOver(u64, BufferId, TaskKey, u64),
    NeedsFoothold,
}

#[derive(Debug, Clone, Copy)]
pub enum Then {
    Nothing,
    Begin(Beginning),
    Allocate(u64, Form),
    /// Makes a stream on the task's device.
    Pin,
    /// A copy that is kept on the host as long as the task waits.
    Keep,
    /// Asks for this task, after another one.
    Need(TaskKey),
}

#[derive(Debug)]
pub struct Thread {
    pub sites: Sites,
    pub doing: Doing,
}

const SITES: u64 = 5;

fn is_same_function(one: u64, other: u64) -> bool {
    one % 3 == other % 3
}

pub struct Program {
    pub rng: ChaCha8Rng,
    pub fault: Fault,
    pub client: Client<DeviceId, ()>,
    pub daemon: Daemon,
    pub books: Books,
    pub threads: Vec<Thread>,
    /// The script is over: threads only finish what they do, and what is open and allocated goes.
    is_ending: bool,
}

impl Program {
    pub fn new(seed: u64, fault: Fault) -> Program {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let threads = rng.random_range(1..5);
        let thread = |_| Thread { sites: Sites::default(), doing: Doing::Nothing };
        let mut daemon = Daemon::default();
        daemon.drops_shrinks = fault == Fault::ForgottenShrink;
        daemon.drops_ends = fault == Fault::ForgottenEnd;
        let late_reservation = rng.random();
        let mut client = Client::default();
        client.habits = Habits { late_reservation, live_requirement: rng.random(), ..Habits::PLAIN };
        Program {
            fault,
            client,
            daemon,
            books: Books::default(),
            threads: (0..threads).map(thread).collect(),
            is_ending: false,
            rng,
        }
    }

    /// Lets the daemon or one thread go on.
    pub fn step(&mut self) -> Result<(), String> {
        if self.fault == Fault::SwappedRequests && self.rng.random_bool(0.1) {
            self.daemon.swap();
        }
        if self.rng.random_bool(0.4) {
            self.daemon.step(&mut self.rng, self.is_ending);
        } else {
            let thread = self.rng.random_range(0..self.threads.len());
            self.enter(thread)?;
        }
        self.check()
    }

    /// Lets all threads finish, ends all sites, frees all memory, and checks that nothing is left.
    pub fn finish(mut self) -> Result<(), String> {
        self.is_ending = true;
        for _ in 0..4000 {
            self.step()?;
            let is_done = |thread: &Thread| {
                matches!(thread.doing, Doing::Nothing)
                    && !thread.sites.open.iter().any(|open| self.books.is_open(open))
            };
            if self.threads.iter().all(is_done) && self.books.buffers.is_empty() && self.daemon.is_idle() {
                return self.check_end();
            }
        }
        Err(format!("the program does not end: {:?}, with {:?}", self.threads, self.books))
    }

    fn check_end(&self) -> Result<(), String> {
        for slot in Slot::all() {
            let sent = self.daemon.sent[slot.index()];
            // The lazy task stays refused if its last memory could not be made.
            let is_refused = slot == lazy_slot() && self.daemon.cell(slot).state == State::Refused;
            if (sent.bytes > 0 || sent.is_begun && slot != lazy_slot()) && !is_refused {
                return Err(format!("slot {} is left with {sent:?}", slot.index()));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if let Some(wrong) = &self.daemon.wrong {
            return Err(wrong.clone());
        }
        for &key in &self.books.bound {
            let (sent, needed) = (self.daemon.sent[key.slot.index()], self.books.needed(key));
            let reserved = self.reserved(key);
            // A task that asked for its live requirement may have less than all that it can hold, and what it holds.
            let least = if self.client.habits.live_requirement { self.books.held(key) } else { needed };
            if !sent.is_begun || !(i128::from(least)..=i128::from(needed)).contains(&reserved) {
                let books = &self.books;
                return Err(format!(
                    "{key:?} needs {least} to {needed} and has {reserved}: {sent:?}, {books:?}"
                ));
            }
        }
        Ok(())
    }

    /// What the daemon holds for a task once it has answered the extensions on their way.
    pub fn reserved(&self, key: TaskKey) -> i128 {
        let on_its_way = self.threads.iter().map(|thread| match thread.doing {
            Doing::Makes(_, _, counted) if counted.key == key => i128::from(counted.more),
            Doing::Brings(_, _, coming) if coming.owner == key => i128::from(coming.more),
            Doing::HandsOver(_, _, to, bytes) if to == key => -i128::from(bytes),
            _ => 0,
        });
        i128::from(self.daemon.sent[key.slot.index()].bytes) + on_its_way.sum::<i128>()
    }

    pub fn cell(&mut self, key: TaskKey) -> Cell {
        let cell = self.daemon.cell(key.slot);
        if self.fault == Fault::StaleCell && self.rng.random_bool(0.05) {
            let terms = Terms { grant: Bytes(0), ..Terms::none(DeviceId(0)) };
            let state = State::Bound { terms, extend_refused: false };
            return Cell { answered: u32::MAX / 4, state, ..cell };
        }
        cell
    }

    fn enter(&mut self, thread: usize) -> Result<(), String> {
        self.daemon.begun.clear();
        let held = self.held_by(thread);
        let doing = std::mem::replace(&mut self.threads[thread].doing, Doing::Nothing);
        let next = match doing {
            Doing::Nothing if self.is_ending => self.wind_up(thread),
            Doing::Nothing => self.draw(thread),
            Doing::Begins(beginning) => self.begin(thread, beginning),
            Doing::Opens(beginning, key) => self.open(thread, beginning, key),
            Doing::Needs(key, then) => self.need(thread, key, then),
            Doing::Allocates(bytes, form) => self.allocate(thread, bytes, form),
            Doing::AllocatesAsked(number, asked) => self.allocate_asked(number, asked),
            Doing::Makes(number, kept, counted) => self.make(number, kept, counted),
            Doing::Brings(number, before, coming) => self.bring(number, before, coming),
            Doing::HandsOver(number, id, to, bytes) => self.hand_over(number, id, to, bytes),
            Doing::NeedsFoothold => self.need_foothold(),
        };
        self.threads[thread].doing = next;
        self.check_begun(thread, held)
    }

    /// Checks a request for a task that was just sent. It may wait for memory that others hold, so the thread must
    /// hold none.
    fn check_begun(&self, thread: usize, is_holding: bool) -> Result<(), String> {
        let Thread { sites, doing } = &self.threads[thread];
        for &slot in &self.daemon.begun {
            let sent = self.daemon.sent[slot.index()];
            let key = self.client.tasks().map(|task| task.key).find(|key| key.slot == slot);
            let needed = match doing {
                Doing::NeedsFoothold => Some(0),
                _ => key.map(|key| self.books.needed(key)),
            };
            let is_less =
                self.client.habits.live_requirement && needed.is_some_and(|needed| sent.bytes < needed);
            if is_holding || needed != Some(sent.bytes) && !is_less {
                return Err(format!(
                    "{sent:?} for {needed:?}, held: {is_holding}, {sites:?}, {:?}",
                    self.books
                ));
            }
        }
        Ok(())
    }

    /// True if a bound task has memory in which the thread has a site open, or the lazy task that the thread has used.
    fn held_by(&self, thread: usize) -> bool {
        let sites = &self.threads[thread].sites;
        let open = sites.open.iter().filter(|open| self.books.is_open(open)).map(|open| open.key);
        let mut own = open.chain(sites.lazy);
        own.any(|key| self.books.bound.contains(&key) && self.books.live(key) > 0)
    }

    /// Records what the client did to its tasks, which the program learns by what it returned.
    pub fn note(&mut self, key: TaskKey, decided: &Decided<DeviceId>) {
        match decided {
            Decided::Bound(_) | Decided::Apart => self.books.bound.push(key),
            Decided::RefusedAllocation { .. } => {
                self.books.buffers.retain(|buffer| buffer.key != key || buffer.place != Place::Asked);
            }
            Decided::Refused { .. } | Decided::TooLarge { .. } | Decided::Foothold => {}
        }
        self.forget_over();
    }

    pub fn forget_over(&mut self) {
        let mut bound = std::mem::take(&mut self.books.bound);
        bound.retain(|&key| self.client.task(key).is_some() || !self.books.is_over(key));
        self.books.bound = bound;
    }

    fn draw(&mut self, thread: usize) -> Doing {
        let own = self.threads[thread].sites.open.last().map_or(0, |open| open.site);
        let site = self.rng.random_range(1..SITES);
        match self.rng.random_range(0..30) {
            0..4 => Doing::Begins(self.beginning(site)),
            4 => self.end(thread, own),
            5 => self.end(thread, site),
            6..11 => Doing::Allocates(self.rng.random_range(1..100), Form::Linear),
            11..14 => self.free(),
            14 => {
                self.client.all_launched(&self.threads[thread].sites, own, &mut self.daemon);
                Doing::Nothing
            }
            15 if self.client.bound_of(&self.threads[thread].sites).is_none() => Doing::NeedsFoothold,
            16 => self.launch(thread, Then::Pin),
            17 => self.launch(thread, Then::Keep),
            18..21 => self.use_any(),
            21 => self.declare_dead(),
            22 => self.give_up(),
            23 => self.send_away(),
            24..28 => self.take_over(thread),
            _ => self.launch(thread, Then::Nothing),
        }
    }

    fn wind_up(&mut self, thread: usize) -> Doing {
        match self.threads[thread].sites.open.iter().rfind(|open| self.books.is_open(open)) {
            Some(open) if self.rng.random() => self.end(thread, open.site),
            _ => self.free(),
        }
    }

    fn beginning(&mut self, site: u64) -> Beginning {
        let bytes = self.rng.random_range(0..200);
        Beginning {
            site,
            requirement: Requirement { bytes, live_bytes: self.rng.random_range(0..=bytes) },
            geometry: Geometry::UNKNOWN,
            reuses: site == 3,
            by_name: self.rng.random_bool(0.6).then_some(ByName { piece: 16, room: ROOM }),
        }
    }

    fn begin(&mut self, thread: usize, beginning: Beginning) -> Doing {
        let sites = &mut self.threads[thread].sites;
        sites.open.retain(|open| self.books.is_open(open));
        let before = sites.open.len();
        let (site, cells) = (beginning.site, self.daemon.cells());
        let covers = |outer: u64| outer == 1 && site == 2;
        let answered = |slot: Slot, end| cells[slot.index()].answers(end);
        let begun = self.client.begin(sites, &beginning, covers, answered, &mut self.daemon);
        match begun {
            Begun::Asked(key) => {
                let frame = self.client.task(key).and_then(|task| task.account.frame_of(site));
                if let Some(frame) = frame {
                    let open = OpenSite { site, key, frame, covered: false };
                    self.books.open(&open, beginning.announced());
                }
                Doing::Opens(beginning, key)
            }
            Begun::Extends(key) => self.extend_for(thread, beginning, key),
            Begun::Waits(key) => Doing::Needs(key, Then::Begin(beginning)),
            Begun::Unanswered(..) => Doing::Begins(beginning),
            Begun::Open => {
                self.note_opened(thread, before, beginning.announced());
                Doing::Nothing
            }
            Begun::Full => Doing::Nothing,
        }
    }

    fn note_opened(&mut self, thread: usize, before: usize, announced: Announced) {
        if let Some(open) = self.threads[thread].sites.open.get(before).copied() {
            self.books.open(&open, announced);
        }
    }

    fn open(&mut self, thread: usize, beginning: Beginning, key: TaskKey) -> Doing {
        if self.look(key) {
            return Doing::Opens(beginning, key);
        }
        let frame = self.client.task(key).and_then(|task| task.account.frame_of(beginning.site));
        let sites = &mut self.threads[thread].sites;
        let before = sites.open.len();
        let apart = self.client.open(sites, key, &mut self.daemon);
        if let Some(frame) = frame.filter(|_| self.client.task(key).is_none()) {
            // The task is not the site's, which goes on in another.
            self.books.close(key, frame);
            self.forget_over();
            match apart {
                Some(other) => return self.extend_for(thread, beginning, other),
                None => {
                    let announced = Announced { site: beginning.site, bytes: 0, reuses: false };
                    self.note_opened(thread, before, announced);
                }
            }
        }
        Doing::Nothing
    }

    fn extend_for(&mut self, thread: usize, beginning: Beginning, key: TaskKey) -> Doing {
        let mut announced = beginning.announced();
        if !self.extend(key, announced.bytes) {
            announced.bytes = 0;
        }
        let before = self.threads[thread].sites.open.len();
        self.client.open_inside(&mut self.threads[thread].sites, key, announced);
        self.note_opened(thread, before, announced);
        Doing::Nothing
    }

    /// Asks for more for a bound task, which is answered at once.
    pub fn extend(&mut self, key: TaskKey, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let mut extension = Extension::new(key, bytes);
        loop {
            let cell = self.cell(key);
            match self.client.extend(&mut extension, &cell, &mut self.daemon) {
                Extended::Wait => self.daemon.step(&mut self.rng, true),
                Extended::Granted(_) => return true,
                Extended::Refused(_) => return false,
                Extended::Gone => {
                    self.daemon.wrong = Some(format!("{extension:?} of a task that is over"));
                    return false;
                }
            }
        }
    }

    /// Enters the decision on a task, if there is one. True: it is not decided on.
    pub fn look(&mut self, key: TaskKey) -> bool {
        let cell = self.cell(key);
        match self.client.look(key, &cell, &mut self.daemon) {
            Step::Wait => true,
            Step::Decided(decided, _) => {
                self.note(key, &decided);
                true
            }
            _ => false,
        }
    }

    fn launch(&mut self, thread: usize, then: Then) -> Doing {
        let sites = &mut self.threads[thread].sites;
        let (key, _) = self.client.owner_of_new(sites);
        if self.client.task(key).is_some_and(|task| task.kind == Kind::Lazy) {
            sites.lazy = Some(key);
        }
        Doing::Needs(key, then)
    }

    fn need(&mut self, thread: usize, key: TaskKey, then: Then) -> Doing {
        let cell = self.cell(key);
        match (self.client.need(key, &cell, Geometry::UNKNOWN, &mut self.daemon), then) {
            (Step::Decided(decided, _), _) => {
                self.note(key, &decided);
                Doing::Needs(key, then)
            }
            (Step::First(first), _) => Doing::Needs(first, Then::Need(key)),
            (Step::Wait, Then::Keep) if cell.is_waiting() && key.slot != lazy_slot() => Doing::Nothing,
            (Step::Wait, _) => Doing::Needs(key, then),
            (_, Then::Need(key)) => Doing::Needs(key, Then::Nothing),
            (_, Then::Begin(beginning)) => self.begin(thread, beginning),
            (_, Then::Allocate(bytes, form)) => self.allocate(thread, bytes, form),
            (Step::Ready, Then::Pin) => {
                self.client.pinned |= key.slot == lazy_slot();
                Doing::Nothing
            }
            _ => Doing::Nothing,
        }
    }

    fn need_foothold(&mut self) -> Doing {
        let key = self.client.lazy();
        let cell = self.cell(key);
        match self.client.need_foothold(key, &cell, &mut self.daemon) {
            Step::Wait => Doing::NeedsFoothold,
            Step::Decided(decided, _) => {
                self.note(key, &decided);
                Doing::NeedsFoothold
            }
            _ => Doing::Nothing,
        }
    }

    fn end(&mut self, thread: usize, site: u64) -> Doing {
        let open = self.threads[thread].sites.open.clone();
        let own = open.iter().rposition(|open| open.site == site && self.books.is_open(open));
        if let Some(own) = own {
            let is_ended = |later: &&OpenSite| !is_same_function(later.site, site);
            let ended = open[own + 1..].iter().filter(is_ended).chain([&open[own]]);
            ended.filter(|open| !open.covered).for_each(|open| self.books.close(open.key, open.frame));
        } else if let Some((key, frame)) = self.books.others(site) {
            self.books.close(key, frame);
        }
        let sites = &mut self.threads[thread].sites;
        self.client.end_site(sites, site, is_same_function, &mut self.daemon);
        self.forget_over();
        Doing::Nothing
    }
}
