//! Handles processor faults of kernels: the launch ends with an error, as on a GPU, and the process goes on.
//!
//! A kernel that exceeds its time limit ([`crate::timer`]) ends the same way. The handler sends the thread back to
//! where the block was called ([`crate::leave`]). If it cannot, because the fault happened inside an executor function
//! that the kernel called, it names the kernel in one line and lets the default action happen. Trap: the handler never
//! replaces one of the program's, and a program that installs one later replaces it. Everything in it must be
//! async-signal-safe (signal-safety(7)), so it reads only atomics and writes through `write`.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst, compiler_fence,
};
use std::time::Duration;

use crate::abi::{BlockContext, BlockFn};
use crate::host_fault;
use crate::leave::{eager_vgpu_call_block, instruction_of, leave_block};
use crate::timer::Timer;

/// Number of threads whose kernels are covered at one time; faults in further threads are not handled.
const SLOT_COUNT: usize = 128;
/// Enough for the registers of every x86-64 processor (AMX: 11 KiB) and the handler's own frames.
const ALTERNATE_STACK_BYTES: usize = 64 << 10;
const SIGNALS: [c_int; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE];

/// A thread that runs a kernel. The name is null while the slot is claimed but not filled.
struct Slot {
    thread: AtomicI32,
    kernel: AtomicPtr<c_char>,
    /// Stack pointer to return to; 0 while the thread is not in a kernel's own code.
    stack: AtomicU64,
    /// Signal, its code and address, as seen by the handler.
    seen: [AtomicU64; 3],
}

impl Slot {
    const fn free() -> Slot {
        Slot {
            thread: AtomicI32::new(0),
            kernel: AtomicPtr::new(null_mut()),
            stack: AtomicU64::new(0),
            seen: [const { AtomicU64::new(0) }; 3],
        }
    }
}

/// Stored in place of a signal in [`Slot::seen`] after a time-out.
const TIMED_OUT: u64 = u64::MAX;
/// Signal used for time-outs; 0 before one is chosen.
static TIME_OUT_SIGNAL: AtomicI32 = AtomicI32::new(0);

static SLOTS: [Slot; SLOT_COUNT] = [const { Slot::free() }; SLOT_COUNT];

thread_local! {
    /// The slot of this thread's kernel.
    static OWN: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    /// Thread id of this thread, cached; handlers ask the system instead.
    static NUMBER: i32 = this_thread();
}

/// Reasons why a launch was aborted: an invalid access or operation, a deadlock or the time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it used address {0:#x}, which is not memory it may access")]
    Address(u64),
    /// The address is not canonical, so the processor does not report it.
    #[error("it used an invalid address (not canonical)")]
    NoAddress,
    #[error("it divided an integer by zero, which a GPU would not report")]
    Division,
    #[error(
        "deadlock: threads of a block wait for each other at different barriers or warp operations{}",
        described(.0)
    )]
    Stuck(Option<Standstill>),
    /// One thread has used up the processor time that a launch may take.
    #[error("it did not end within the time limit for kernels")]
    TimeOut,
}

/// Two threads of a block, by their linear indices, that wait for each other, and the `file:line` of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standstill(pub [(usize, &'static CStr); 2]);

fn described(standstill: &Option<Standstill>) -> String {
    let Some(Standstill([(one, at), (other, place)])) = standstill else {
        return " (compiled with --eager-strict, the kernel names the lines)".to_owned();
    };
    let (at, place) = (at.to_string_lossy(), place.to_string_lossy());
    format!(": thread {one} of the block at {at}, thread {other} at {place}")
}

impl Fault {
    fn seen(slot: &Slot) -> Fault {
        let [signal, code, address] = [0, 1, 2].map(|index| slot.seen[index].load(SeqCst));
        if signal == TIMED_OUT {
            Fault::TimeOut
        } else if signal == libc::SIGFPE as u64 {
            Fault::Division
        } else if code == libc::SI_KERNEL as u64 {
            Fault::NoAddress
        } else {
            Fault::Address(address)
        }
    }
}

/// Runs one block on this thread, which must hold a [`Running`].
///
/// # Errors
/// The kernel faulted; the block was abandoned at that point.
///
/// # Safety
/// As for calling `run` with these arguments.
pub(crate) unsafe fn run_block(
    run: BlockFn,
    context: *mut BlockContext,
    args: *const *const c_void,
) -> Result<(), Fault> {
    let Some(slot) = OWN.get() else {
        // SAFETY: the caller's promise.
        unsafe { run(context, args) };
        return Ok(());
    };
    // SAFETY: the caller's promise; the slot is this thread's own until its `Running` is dropped.
    let left = unsafe { eager_vgpu_call_block(run, context, args, slot.stack.as_ptr()) };
    slot.stack.store(0, Relaxed);
    if left == 0 { Ok(()) } else { Err(Fault::seen(slot)) }
}

/// Guard held by executor functions while a kernel calls them: the handler must not drop their frames.
pub(crate) struct InHelper {
    stack: u64,
}

/// Stack address of the block's caller, which bounds the kernel's own stack; 0 for a thread without a slot.
pub(crate) fn stack_of_block() -> u64 {
    OWN.get().map_or(0, |slot| slot.stack.load(Relaxed))
}

impl InHelper {
    /// Cheap, because every warp operation calls it: only this thread and its handlers use the word, so a compiler
    /// fence is enough.
    pub fn enter() -> InHelper {
        let Some(slot) = OWN.get() else { return InHelper { stack: 0 } };
        let stack = slot.stack.load(Relaxed);
        slot.stack.store(0, Relaxed);
        compiler_fence(SeqCst);
        InHelper { stack }
    }
}

impl Drop for InHelper {
    fn drop(&mut self) {
        // A panic here unwinds all the way to the launch, so the kernel's code is not entered again.
        if let Some(slot) = OWN.get().filter(|_| !std::thread::panicking()) {
            compiler_fence(SeqCst);
            slot.stack.store(self.stack, Relaxed);
        }
    }
}

fn this_thread() -> i32 {
    // SAFETY: a system call without arguments that cannot fail; thread ids fit 22 bits.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Marks this thread, until dropped, as running a kernel.
pub(crate) struct Running {
    slot: Option<&'static Slot>,
    /// Ends with the kernel, before the slot is released.
    timer: Option<Timer>,
}

impl Running {
    /// `kernel` is a NUL-terminated name that stays valid until the drop. The kernel is aborted after `time_max` of
    /// this thread's processor time.
    pub fn start(kernel: *const c_char, time_max: Option<Duration>) -> Self {
        use_alternate_stack();
        let thread = NUMBER.with(|number| *number);
        let free = |slot: &&Slot| slot.thread.compare_exchange(0, thread, Acquire, Relaxed).is_ok();
        let slot = SLOTS.iter().find(free);
        if let Some(slot) = slot {
            // From here on only this thread and its handlers use the slot, so a compiler fence is enough.
            slot.kernel.store(kernel.cast_mut(), Relaxed);
            compiler_fence(SeqCst);
        }
        OWN.set(slot);
        let timer = time_max.filter(|_| slot.is_some()).and_then(|time_max| {
            let timer = time_out_signal().and_then(|signal| Timer::start(thread, signal, time_max));
            if timer.is_none() {
                warn_no_timer();
            }
            timer
        });
        Running { slot, timer }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.timer = None;
        OWN.set(None);
        if let Some(slot) = self.slot {
            slot.stack.store(0, Relaxed);
            slot.kernel.store(null_mut(), Relaxed);
            slot.thread.store(0, Release);
        }
    }
}

/// Stack for this thread's handlers: a kernel that overflows the stack leaves no room on it.
struct AlternateStack {
    _memory: Vec<u8>,
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let off = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: unregisters the stack that `use_alternate_stack` registered on this same thread, before the memory is
        // freed.
        unsafe { libc::sigaltstack(&raw const off, null_mut()) };
    }
}

fn use_alternate_stack() {
    thread_local! {
        static STACK: RefCell<Option<AlternateStack>> = const { RefCell::new(None) };
    }
    // A thread that is ending runs no kernel, so an inaccessible thread-local can be ignored.
    let _ = STACK.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        if stack.is_some() {
            return;
        }
        let mut old = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: only queries the thread's present alternate stack.
        let asked = unsafe { libc::sigaltstack(std::ptr::null(), &raw mut old) };
        if asked != 0 || old.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        let mut memory = vec![0; ALTERNATE_STACK_BYTES];
        let new = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        // SAFETY: the memory belongs to the thread-local above, which unregisters it when dropped.
        if unsafe { libc::sigaltstack(&raw const new, null_mut()) } == 0 {
            *stack = Some(AlternateStack { _memory: memory });
        }
    });
}

/// Installs the handler, once per process, for each signal whose action is still the default one.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in SIGNALS {
            install_for(signal, on_fault);
        }
    });
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The signal whose handler is [`on_time_out`]. If the program has since taken it, a free one is chosen: first SIGURG,
/// which is ignored by default, then real-time signals from the last down. `None` if the program uses all.
fn time_out_signal() -> Option<c_int> {
    let current = TIME_OUT_SIGNAL.load(SeqCst);
    if current != 0 && action_of(current) == on_time_out as Handler as usize {
        return Some(current);
    }
    let free = std::iter::once(libc::SIGURG).chain((libc::SIGRTMIN()..=libc::SIGRTMAX()).rev());
    let chosen = free.into_iter().find(|&signal| install_for(signal, on_time_out))?;
    TIME_OUT_SIGNAL.store(chosen, SeqCst);
    Some(chosen)
}

fn warn_no_timer() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut line = Line::new();
        line.add(b"eager virtual GPU: no free signal or timer: kernels run without a time limit\n");
        line.write();
    });
}

fn action_of(signal: c_int) -> usize {
    // SAFETY: plain data, for which all zeros is valid, and a call that only queries.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        let asked = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        if asked == 0 { action.sa_sigaction } else { libc::SIG_IGN }
    }
}

/// Installs a handler over the default action only. True if `handler` is now the action, also if it was before.
fn install_for(signal: c_int, handler: Handler) -> bool {
    let old = action_of(signal);
    if old != libc::SIG_DFL {
        return old == handler as usize;
    }
    // SAFETY: the structure is plain data, for which all zeros is valid; the handler has the type that SA_SIGINFO asks
    // for. If another thread installs a handler between the two calls, it is lost; this runs in the first CUDA call,
    // when a program has its handlers in place.
    unsafe {
        let mut new: libc::sigaction = core::mem::zeroed();
        new.sa_sigaction = handler as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(signal, &raw const new, null_mut()) == 0
    }
}

extern "C" fn on_time_out(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes valid information.
    let from_timer = unsafe { (*info).si_code } == libc::SI_TIMER;
    let thread = this_thread();
    let own = |slot: &&Slot| slot.thread.load(SeqCst) == thread && !slot.kernel.load(SeqCst).is_null();
    let Some(slot) = SLOTS.iter().find(own).filter(|_| from_timer) else { return };
    // 0 if the kernel is in an executor function, which must not be abandoned; the timer fires again.
    let stack = slot.stack.swap(0, SeqCst);
    if stack != 0 {
        slot.seen[0].store(TIMED_OUT, SeqCst);
        // SAFETY: as in `on_fault`.
        unsafe { leave_block(context, stack) };
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes valid information; `si_addr` is there for the signals handled. Positive codes come from
    // the processor, others from `kill`.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    let thread = this_thread();
    let own = |slot: &&Slot| slot.thread.load(SeqCst) == thread && !slot.kernel.load(SeqCst).is_null();
    if let Some(slot) = SLOTS.iter().find(own).filter(|_| code > 0) {
        let stack = slot.stack.swap(0, SeqCst);
        if stack != 0 {
            let seen = [signal as u64, code as u64, address];
            slot.seen.iter().zip(seen).for_each(|(place, value)| place.store(value, SeqCst));
            // SAFETY: the stack pointer is set only while this thread is in code that `run_block` called, and not in
            // executor functions that this code called; the context is this signal's.
            unsafe { leave_block(context, stack) };
            return;
        }
        report_fault_in_helper(slot, signal, code, address);
    } else if code > 0 && is_devices(address) {
        // SAFETY: the context is this signal's.
        host_fault::report_host_fault(address, unsafe { instruction_of(context) });
    }
    // SAFETY: both are async-signal-safe. A fault happens again on return and meets the default action; a signal that
    // was sent with `kill` does not, so it is raised again.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if code <= 0 {
            libc::raise(signal);
        }
    }
}

static DEVICES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Makes later faults of host code at these addresses, the device address range, print a line before the process ends.
pub fn report_host_faults(devices: Range<u64>) {
    DEVICES[0].store(devices.start, Relaxed);
    DEVICES[1].store(devices.end, Relaxed);
}

fn is_devices(address: u64) -> bool {
    (DEVICES[0].load(Relaxed)..DEVICES[1].load(Relaxed)).contains(&address)
}

/// Reports a fault in an executor function that the kernel called with invalid arguments; the thread cannot go on.
fn report_fault_in_helper(slot: &Slot, signal: c_int, code: c_int, address: u64) {
    // SAFETY: the name is a constant of the program, valid while its kernel runs, as it does in this very thread.
    let name = unsafe { CStr::from_ptr(slot.kernel.load(SeqCst)) };
    let mut line = Line::new();
    line.add(b"eager virtual GPU: kernel ");
    line.add(name.to_bytes());
    if signal == libc::SIGFPE {
        line.add(b" divided an integer by zero");
    } else if code == libc::SI_KERNEL {
        line.add(b" used an invalid address (not canonical)");
    } else {
        line.add(b" used address 0x");
        line.add_hexadecimal(address);
        line.add(b", which is not memory it may access");
    }
    line.add(b", in a call such as printf; the process ends here\n");
    line.write();
}

/// A line assembled without allocating; text that does not fit is cut off.
pub(crate) struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Line {
    pub fn new() -> Self {
        Line { bytes: [0; 512], length: 0 }
    }

    pub fn add(&mut self, text: &[u8]) {
        for (to, from) in self.bytes[self.length..].iter_mut().zip(text) {
            *to = *from;
            self.length += 1;
        }
    }

    pub fn add_hexadecimal(&mut self, number: u64) {
        let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            self.add(&[b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]]);
        }
    }

    pub fn write(&self) {
        // SAFETY: the bytes are this line's own. A failed write is ignored: it cannot be reported anywhere.
        unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn numbers_are_written_in_full_and_long_names_cut() {
        let mut line = Line::new();
        for number in [0, 0xf, 0x10, u64::MAX] {
            line.add_hexadecimal(number);
            line.add(b" ");
        }
        assert_eq!(&line.bytes[..line.length], b"0 f 10 ffffffffffffffff ");
        line.add(&[b'x'; 1000]);
        assert_eq!(line.length, 512);
    }
}
