//! The hooks over a recording CUDA runtime and a scripted daemon.

mod accounting;
mod believed;
mod calls;
mod dead;
mod declared;
mod fakes;
mod foothold;
mod host_memory;
mod late;
mod launches;
mod mapping;
mod measuring;
mod memory;
mod nesting;
mod ring;
mod standing;
mod threads;
mod variables;

use crate::config::Config;
use crate::profile::Profile;
use crate::program::{Kernel, Program, Site};
use crate::reporter::Reporter;
use crate::runtime::{Copy, CopyKind, How, Launch, Order, Rows, StreamId};
use crate::shim::Shim;
use crate::state::Thread;
use eager_abi::ARG_POINTER;
use eager_client::loss::{Loss, OnLoss};
use eager_client::task::Geometry;
use fakes::Habits;
use fakes::{FakeCuda, FakeDaemon};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

type TestShim = Shim<Arc<FakeCuda>, Arc<FakeDaemon>>;

/// A shim with its fake runtime, fake daemon and settings.
struct Bench {
    shim: Arc<TestShim>,
    cuda: Arc<FakeCuda>,
    daemon: Arc<FakeDaemon>,
    reported: Arc<Mutex<Vec<String>>>,
    thread: Thread,
}

/// The only kernel of the tests: two pointers and a number.
const STUB: usize = 0x51;
const SITE: u64 = 7;

impl Bench {
    fn new() -> Bench {
        Bench::with(true, OnLoss::Open, Profile::default())
    }

    fn with(daemon_is_there: bool, on_loss: OnLoss, profile: Profile) -> Bench {
        Bench::over(FakeDaemon::default(), daemon_is_there, on_loss, profile)
    }

    /// A bench whose daemon's policy wants these habits.
    fn with_habits(habits: Habits) -> Bench {
        let daemon = FakeDaemon::default();
        daemon.set_habits(habits);
        Bench::over(daemon, true, OnLoss::Open, Profile::default())
    }

    fn over(daemon: FakeDaemon, daemon_is_there: bool, on_loss: OnLoss, profile: Profile) -> Bench {
        let (cuda, daemon) = (Arc::new(FakeCuda::default()), Arc::new(daemon));
        let reported = Arc::new(Mutex::new(Vec::new()));
        let sink = {
            let reported = Arc::clone(&reported);
            Reporter::new(Box::new(move |line: &str| reported.lock().push(line.to_owned())))
        };
        let mut program = Program::new();
        let (argument_sizes, argument_flags) = (vec![8, 8, 4], vec![ARG_POINTER, ARG_POINTER, 0]);
        program.add_kernel(STUB, Kernel { name: "_Z1kPfS_i".into(), argument_sizes, argument_flags });
        program.add_site(SITE, Site { function: "main".into(), ..Site::default() });
        let config = Config {
            disabled: false,
            socket: "/run/test.sock".into(),
            is_socket_given: false,
            loss: Loss {
                on_loss,
                is_closed_at_start: on_loss == OnLoss::Closed,
                connect_max: std::time::Duration::ZERO,
            },
            trusted: None,
            shows_waits: false,
            label: "test".into(),
            priority: 0,
            declared: None,
            profile: None,
            staging_bytes: 1 << 20,
            ring: crate::ring::Wanted { bytes: 1 << 20, after: 0 },
            fill_piece_bytes: 32 << 20,
            learn: None,
            measure: None,
            beliefs_seed: None,
        };
        let scheduler = daemon_is_there.then(|| Arc::clone(&daemon));
        let program = Box::leak(Box::new(RwLock::new(program)));
        let shim = Arc::new(Shim::new(Arc::clone(&cuda), scheduler, config, profile, sink, program));
        Bench { shim, cuda, daemon, reported, thread: Thread::default() }
    }

    fn add_site(&self, site: u64, function: &str, covered: &[u64], flags: u32) {
        let (covered, reuses) = (covered.iter().copied().collect(), flags & eager_abi::TASK_REUSES != 0);
        let named = flags & eager_abi::TASK_NAMED != 0;
        self.shim.program.write().add_site(site, Site { function: function.into(), covered, reuses, named });
    }

    /// Mutable access to the shim, before other threads of the program use it.
    fn own(&mut self) -> &mut TestShim {
        Arc::get_mut(&mut self.shim).expect("no other thread uses it")
    }

    /// A function that lets another thread of the program do `work`; when it returns, the work is done or waits for a
    /// lock of the caller's.
    fn other(
        &self,
        work: impl FnOnce(&TestShim, &mut Thread) + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let shim = Arc::clone(&self.shim);
        move || {
            let (done, is_done) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                work(&shim, &mut Thread::default());
                let _ = done.send(());
            });
            let _ = is_done.recv_timeout(std::time::Duration::from_millis(200));
        }
    }

    /// Acts as another thread of the program from here on.
    fn other_thread(&mut self) {
        self.thread = Thread::default();
    }

    fn begin(&mut self, site: u64, bytes: u64) {
        self.shim.task_begin(&mut self.thread, site, bytes, Geometry::UNKNOWN);
    }

    fn end(&mut self, site: u64) {
        self.shim.task_end(&mut self.thread, site);
    }

    fn dead(&mut self, address: u64) {
        self.shim.buffer_dead(&mut self.thread, address);
    }

    fn free(&mut self, address: u64) {
        assert_eq!(self.shim.free(&mut self.thread, address), crate::outcome::Outcome::Handled(()));
    }

    fn malloc(&mut self, bytes: u64) -> u64 {
        match self.shim.malloc(&mut self.thread, bytes) {
            crate::outcome::Outcome::Handled(address) => address,
            other => panic!("malloc of {bytes}: {other:?}"),
        }
    }

    fn launch_on(&mut self, stream: StreamId, arguments: &[u64]) -> crate::outcome::Outcome<()> {
        self.cuda.set_arguments(arguments);
        let launch = Launch {
            how: How::Plain,
            stub: STUB,
            grid: [2, 3, 1],
            block: [32, 1, 1],
            args: 0xa,
            shared_bytes: 0,
            stream,
        };
        self.shim.launch(&mut self.thread, &launch)
    }

    fn launch(&mut self, arguments: &[u64]) -> crate::outcome::Outcome<()> {
        self.launch_on(StreamId::LEGACY, arguments)
    }

    fn upload(&mut self, dst: u64, bytes: u64) -> crate::outcome::Outcome<()> {
        let copy = Copy {
            dst,
            src: HOST,
            bytes,
            rows: Rows::ONE,
            kind: CopyKind::HOST_TO_DEVICE,
            order: Order::Blocking,
        };
        self.shim.copy(&mut self.thread, &copy)
    }

    fn download(&mut self, src: u64, bytes: u64) -> crate::outcome::Outcome<()> {
        let copy = Copy {
            dst: HOST,
            src,
            bytes,
            rows: Rows::ONE,
            kind: CopyKind::DEVICE_TO_HOST,
            order: Order::Blocking,
        };
        self.shim.copy(&mut self.thread, &copy)
    }
}

/// Address of a host buffer.
const HOST: u64 = 0x7000_0000;
