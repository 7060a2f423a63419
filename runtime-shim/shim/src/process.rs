//! The single shim of this process: made at its first use, and inert in a child forked after that.
//!
//! Nothing happens before the first hooked call: no thread, no socket, no environment. The shim never starts a
//! thread. Traps:
//! - after `fork` a lock may be held for ever by a thread that the child does not have, and the connection acts for
//!   the parent. So the child must be recognised *before* any lock is taken, by a page that the kernel wipes in
//!   children (`MADV_WIPEONFORK`): one load. CUDA itself does not work in such a child;
//! - a child forked *before* the first use finds no shim and makes its own connection.

use crate::beliefs::{Beliefs, Sites};
use crate::config::Config;
use crate::learnt;
use crate::nvtx;
use crate::outcome::{Outcome, Why};
use crate::profile::Profile;
use crate::program::Program;
use crate::real::RealRuntime;
use crate::reporter::{Reporter, to_stderr};
use crate::shim::Shim;
use crate::state::Thread;
use crate::stats;
use crate::trace;
use crate::virtual_clock;
use eager_proto::ENV_ON_DAEMON_LOSS;
use eager_proto::hello::Hello;
use eager_proto::newcomer::ENV_ON_NO_DAEMON;
use eager_shm::client::{ClientConnection, ConnectError};
use parking_lot::{Mutex, RwLock};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};
use std::time::Duration;

/// The shim as it runs in programs.
pub type LiveShim = Shim<RealRuntime, ClientConnection>;

/// Bound on each step of connecting (specification S-701).
const CONNECT_STEP_MAX: Duration = Duration::from_secs(5);
/// A wait for a daemon that is longer than this is reported.
const SILENT_WAIT_MAX: Duration = Duration::from_secs(1);

/// The compiler pass's tables about the program; filled by constructors.
pub static PROGRAM: RwLock<Program> = RwLock::new(Program::new());

static SHIM: OnceLock<Option<LiveShim>> = OnceLock::new();
/// Held while the shim is made, so that two threads do not both connect.
static STARTING: Mutex<()> = Mutex::new(());
/// A byte that is 1 in the process that first used the shim and 0 in its forked children. Null before the first use.
static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static THREAD: RefCell<Thread> = RefCell::default();
}

/// Runs a hook: once per thread at a time, never in a forked child, and without letting a panic out.
pub fn guarded<T>(hook: impl FnOnce(&LiveShim, &mut Thread) -> Outcome<T>) -> Outcome<T> {
    if is_forked_child() {
        return Outcome::PassThrough(Why::ForkedChild);
    }
    let Some(_inside) = Inside::enter() else { return Outcome::PassThrough(Why::Reentrant) };
    let run = AssertUnwindSafe(|| {
        let Some(shim) = shim() else { return Outcome::PassThrough(Why::Disabled) };
        let in_thread = |thread: &mut Thread| {
            let outcome = hook(shim, thread);
            if matches!(outcome, Outcome::PassThrough(Why::NoDaemon)) {
                shim.enter_program_device(thread);
            }
            outcome
        };
        virtual_clock::in_call(|| with_thread(in_thread))
    });
    contained(run, to_stderr)
}

/// Calls a hook with the calling thread's state. At the end of a thread, and in `atexit` handlers and destructors of
/// the main thread, that state is gone; then a new one is used, which only lacks knowledge (such as the device set
/// last).
fn with_thread<T>(hook: impl FnOnce(&mut Thread) -> T) -> T {
    let mut hook = Some(hook);
    let ran = THREAD.try_with(|kept| {
        let mut thread = kept.try_borrow_mut().ok()?;
        hook.take().map(|hook| hook(&mut thread))
    });
    match (ran.ok().flatten(), hook) {
        (Some(result), _) => result,
        (None, Some(hook)) => hook(&mut Thread::default()),
        (None, None) => unreachable!("the hook has run or is still here"),
    }
}

/// Runs `hook`; a panic is reported once and becomes a pass-through. Unwinding into C would be undefined behaviour.
fn contained<T>(hook: impl FnOnce() -> Outcome<T>, report: impl FnOnce(&str)) -> Outcome<T> {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    catch_unwind(AssertUnwindSafe(hook)).unwrap_or_else(|_| {
        if !REPORTED.swap(true, Ordering::Relaxed) {
            report("an internal error was caught; the calls that cause it go to CUDA unscheduled. Please report it");
        }
        Outcome::PassThrough(Why::Panicked)
    })
}

unsafe extern "C" {
    /// POSIX; the crate libc does not declare it for Linux.
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// `PTHREAD_CANCEL_DISABLE`, the same in glibc and musl.
const CANCEL_DISABLE: libc::c_int = 1;

/// Set while a thread is in a hook: a signal handler or a nested call then goes straight to CUDA.
///
/// A cancelled thread ends when it has left the hook: unwinding it out of a hook would end the whole program, and
/// leave locks taken.
struct Inside {
    /// The thread's cancel state before it entered.
    cancel_state: libc::c_int,
}

impl Inside {
    /// `None`: the thread is inside already, or is ending and has no thread-local variables any more.
    fn enter() -> Option<Inside> {
        let was_inside = INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true);
        (!was_inside).then(|| Inside { cancel_state: set_cancel_state(CANCEL_DISABLE) })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
        set_cancel_state(self.cancel_state);
    }
}

/// Sets the thread's cancel state; returns the state before.
fn set_cancel_state(state: libc::c_int) -> libc::c_int {
    let mut before = 0;
    // SAFETY: libc has no safe form of it; it writes the old state to `before`, which lives, and fails only for an
    // invalid state, in which case nothing changes.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

fn shim() -> Option<&'static LiveShim> {
    if let Some(shim) = SHIM.get() {
        return shim.as_ref();
    }
    mark_process();
    let _starting = STARTING.lock();
    SHIM.get_or_init(start).as_ref()
}

fn is_forked_child() -> bool {
    // Acquire: pairs with the release in `mark_process`, so that the byte is seen as set.
    NonNull::new(MARK.load(Ordering::Acquire)).is_some_and(|mark| {
        // SAFETY: a non-null mark is a mapped page that is never unmapped, in this process and in its children.
        unsafe { mark.as_ref() }.load(Ordering::Relaxed) == 0
    })
}

/// Sets the mark. Where the kernel cannot wipe pages in children (before Linux 4.14) there is none: a child after
/// fork is then not recognised here, and only the connection itself refuses to act for the parent.
fn mark_process() {
    let bytes = 4096;
    // SAFETY: a new anonymous private mapping, at an address of the kernel's choice.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return;
    }
    // SAFETY: `page` is the mapping made above, of this size.
    let wiped = unsafe { libc::madvise(page, bytes, libc::MADV_WIPEONFORK) } == 0;
    let mark = page.cast::<AtomicU8>();
    // SAFETY: the page is mapped, writable and zeroed, which is a valid AtomicU8; no other thread knows it yet.
    unsafe { &*mark }.store(1, Ordering::Relaxed);
    // Release: pairs with the acquire in `is_forked_child`.
    let first =
        wiped && MARK.compare_exchange(ptr::null_mut(), mark, Ordering::Release, Ordering::Relaxed).is_ok();
    if !first {
        // SAFETY: the mapping made above, which was not published.
        unsafe { libc::munmap(page, bytes) };
    }
}

/// Makes the shim: reads the environment, connects. `None`: disabled.
fn start() -> Option<LiveShim> {
    let executable = std::env::current_exe().ok();
    let (config, complaints) = Config::read(|name| std::env::var_os(name), executable.as_deref());
    if config.disabled {
        return None;
    }
    complaints.iter().for_each(|complaint| to_stderr(complaint));
    if std::env::var_os(stats::ENV_STATS).is_some_and(|value| value == "1") {
        stats::print_at_exit();
    }
    if let Some(path) = std::env::var_os(trace::ENV_TRACE) {
        trace::start(path.as_ref());
    }
    if let Some(path) = std::env::var_os(nvtx::ENV_INJECTION).filter(|path| !path.is_empty()) {
        nvtx::start(&path);
    }
    let profile = config.profile.as_deref().map_or_else(Profile::default, |path| {
        Profile::load(path).unwrap_or_else(|error| {
            to_stderr(&format!(
                "profile {} is ignored: {error}; kernels count with their static size",
                path.display()
            ));
            Profile::default()
        })
    });
    let foreign = PROGRAM.read_recursive().foreign();
    let wants_daemon = config.measure.is_none() && foreign.is_none();
    let connection = match wants_daemon.then(|| connect(&config)).transpose() {
        Ok(connection) => connection,
        Err(error) => {
            to_stderr(&no_daemon_line(&error, config.loss.is_closed_at_start));
            None
        }
    };
    if let Some(foreign) = foreign {
        to_stderr(&format!("{foreign}; {}", fallback_text(config.loss.is_closed_at_start)));
    }
    if config.measure.is_some() {
        // SAFETY: as in `beliefs`.
        let _ = unsafe { libc::atexit(save_footprints) };
    }
    let reporter = Reporter::new(Box::new(to_stderr));
    let beliefs = connection.as_ref().and_then(|_| beliefs(&config));
    let mut shim = Shim::new(RealRuntime::open(), connection, config, profile, reporter, &PROGRAM);
    shim.state.get_mut().beliefs = beliefs;
    Some(shim)
}

/// Beliefs from what earlier runs have learnt; `None`: this run does not learn.
fn beliefs(config: &Config) -> Option<Beliefs> {
    if let Some(seed) = config.beliefs_seed {
        return Some(Beliefs::by_chance(seed));
    }
    let path = learnt::path(config.learn.as_deref()?, &config.label);
    let sites = learnt::load(&path).unwrap_or_else(|error| {
        to_stderr(&format!("{} is ignored: {error}; nothing is known of earlier runs", path.display()));
        Sites::new()
    });
    // SAFETY: the function lives as long as the library, which is never unloaded; it neither panics nor unwinds.
    let _ = unsafe { libc::atexit(save_learnt) };
    Some(Beliefs::of_runs(sites))
}

extern "C" fn save_learnt() {
    let _ = guarded(|shim, _| {
        let learnt = shim.state.lock().beliefs.as_ref().and_then(Beliefs::learnt);
        if let (Some(sites), Some(folder)) = (learnt, &shim.config.learn) {
            let path = learnt::path(folder, &shim.config.label);
            if let Err(error) = learnt::save(&path, sites) {
                to_stderr(&format!(
                    "cannot write {}: {error}; nothing is learnt from this run",
                    path.display()
                ));
            }
        }
        Outcome::Handled(())
    });
}

extern "C" fn save_footprints() {
    let _ = guarded(|shim, _| {
        let file = shim.measurement().and_then(|measurement| measurement.file());
        if let (Some(file), Some(path)) = (file, &shim.config.measure)
            && let Err(error) = file.save(path)
        {
            to_stderr(&format!("cannot write {}: {error}; this run's footprints are lost", path.display()));
        }
        Outcome::Handled(())
    });
}

fn connect(config: &Config) -> Result<ClientConnection, ConnectError> {
    let is_informed = PROGRAM.read().is_informed();
    let hello = if is_informed { Hello::new(&config.label) } else { Hello::uninformed(&config.label) };
    let hello = hello.with_priority(config.priority);
    let connect_wait = config.connect_wait();
    let mut is_reported = false;
    virtual_clock::turn();
    let waits = |waited: Duration, error: &ConnectError| {
        if waited >= SILENT_WAIT_MAX && !std::mem::replace(&mut is_reported, true) {
            to_stderr(&format!("{error}: waiting for one, {} s at most", connect_wait.as_secs_f32()));
        }
    };
    ClientConnection::connect_within(connect_wait, waits, || {
        ClientConnection::connect_trusting(&config.socket, &hello, CONNECT_STEP_MAX, config.trusted)
    })
}

/// The one line about a missing daemon.
fn no_daemon_line(error: &ConnectError, is_closed: bool) -> String {
    let what = match error {
        ConnectError::NoDaemon { path } => format!("no daemon at {}", path.display()),
        other => other.to_string(),
    };
    format!("{what}: {}", fallback_text(is_closed))
}

/// How a program that is not scheduled runs.
fn fallback_text(is_closed: bool) -> String {
    if is_closed {
        let by = format!("{ENV_ON_DAEMON_LOSS} or {ENV_ON_NO_DAEMON} is closed");
        format!("CUDA calls fail ({by}; `eager run --or-plain` runs unscheduled then)")
    } else {
        "running as plain CUDA".into()
    }
}

/// Handles a module of another version of the interface. If it registers late, with a library that the program has
/// loaded, the program is no longer scheduled, since the meaning of the module's calls is unknown. A module that
/// registers before the first call is handled by [`start`].
pub fn on_foreign_module() {
    if let Some(Some(shim)) = SHIM.get()
        && !is_forked_child()
        && shim.stop_scheduling()
    {
        let foreign = PROGRAM.read_recursive().foreign().unwrap_or_default();
        to_stderr(&format!("{foreign}; {}", fallback_text(shim.config.loss.is_closed_at_start)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_pass_through_and_is_said_once() {
        let reported = Cell::new(0);
        for _ in 0..2 {
            let outcome: Outcome<()> =
                contained(|| panic!("on purpose"), |_| reported.set(reported.get() + 1));
            assert_eq!(outcome, Outcome::PassThrough(Why::Panicked));
        }
        assert_eq!(reported.get(), 1);
    }

    #[test]
    fn a_thread_is_inside_once_at_a_time() {
        let outer = Inside::enter().expect("outside so far");
        assert!(Inside::enter().is_none());
        drop(outer);
        assert!(Inside::enter().is_some());
    }

    #[test]
    fn the_line_about_a_missing_daemon_says_what_happens() {
        let missing = ConnectError::NoDaemon { path: "/s".into() };
        assert_eq!(no_daemon_line(&missing, false), "no daemon at /s: running as plain CUDA");
        assert!(no_daemon_line(&missing, true).contains("CUDA calls fail"));
    }
}
