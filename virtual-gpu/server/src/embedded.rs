//! Virtual GPUs of a single process: the service behind a lock, without server, socket or thread.
//!
//! Trap: only the callers drive the clock. Each waits until the next event, advances time, and wakes the others. So a
//! new operation must wake them as well, since it may have made the next event earlier.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use eager_gpu_model::{CardsError, Nanos, Options, parse_cards};
use eager_vgpu_link::{
    Backend, ClientFrame, LinkError, PROTOCOL_VERSION, Refusal, Reply, Request, RequestId,
};

use crate::sleep::{LOOK, SleepWatch};
use crate::{Answer, Clock, ProcessId, RealNanos, Scale, Service};

/// Which devices to serve, and how.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig<'a> {
    /// List of cards, such as `2xV100-16GB,1xH200`.
    pub cards: &'a str,
    pub time_scale: f64,
    pub memory_scale: u64,
    pub clock: Clock,
}

/// A service inside the calling process.
#[derive(Debug)]
pub struct Embedded {
    started: Instant,
    process: ProcessId,
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    service: Service,
    watch: SleepWatch,
    next_id: u64,
    /// Number of callers that sleep until something changes; at zero, the system call that wakes them is skipped.
    asleep: usize,
    replies: BTreeMap<RequestId, Result<Reply, Refusal>>,
}

impl State {
    fn deliver(&mut self, answers: Vec<Answer>) {
        self.replies.extend(answers.into_iter().map(|answer| (answer.frame.id, answer.frame.reply)));
    }
}

impl Embedded {
    /// # Errors
    /// The list of cards cannot be parsed.
    pub fn new(config: &EmbeddedConfig<'_>) -> Result<Embedded, CardsError> {
        let scale = Scale { memory: config.memory_scale, time: config.time_scale };
        // These devices are not shared, so no other process waits for the creation of a context; a slowed-down program
        // would only wait for its own.
        let options = Options { context_create: Nanos(0), ..Options::default() };
        let mut service = Service::new(parse_cards(config.cards)?, options, scale, config.clock);
        let process = service.connect();
        let hello = Request::Hello { version: PROTOCOL_VERSION, pid: std::process::id() };
        let greeting = ClientFrame { id: RequestId(0), request: hello };
        service.handle(RealNanos(0), process, greeting, &mut Vec::new());
        let state =
            State { service, watch: SleepWatch::default(), next_id: 1, asleep: 0, replies: BTreeMap::new() };
        Ok(Embedded {
            started: Instant::now(),
            process,
            clock: config.clock,
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    fn wake(&self, state: &State) {
        if state.asleep > 0 {
            self.changed.notify_all();
        }
    }

    fn now(&self) -> RealNanos {
        RealNanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Backend for Embedded {
    fn send(&self, request: Request) -> Result<RequestId, LinkError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let id = RequestId(state.next_id);
        state.next_id += 1;
        let mut answers = Vec::new();
        state.service.handle(self.now(), self.process, ClientFrame { id, request }, &mut answers);
        state.deliver(answers);
        self.wake(&state);
        Ok(id)
    }

    fn wait(&self, id: RequestId) -> Result<Reply, LinkError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(reply) = state.replies.remove(&id) {
                return Ok(reply?);
            }
            let wait = match (self.clock, state.service.deadline()) {
                (Clock::Virtual { .. }, _) => LOOK,
                (Clock::Real, Some(at)) => Duration::from_nanos(at.0.saturating_sub(self.now().0)),
                (Clock::Real, None) => {
                    return Err(LinkError::Lost("the model forgot an operation".to_owned()));
                }
            };
            state.asleep += 1;
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            state.asleep -= 1;
            let mut answers = Vec::new();
            let State { service, watch, .. } = &mut *state;
            service.advance(self.now(), &mut answers);
            watch.look(service, &mut answers);
            if !answers.is_empty() {
                state.deliver(answers);
                self.wake(&state);
            }
        }
    }
}
