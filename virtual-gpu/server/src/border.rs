//! The one place where a client's numbers are checked: what comes out of here is safe to give to the model.
//!
//! Limits of a launch are those of every card: CUDA C++ programming guide, "Technical Specifications per Compute
//! Capability". Trap: sums over many requests (memory, allocations, open operations) are not bounded here but by
//! [`crate::holdings`].

use eager_gpu_model::{Access, Card, Kernel, Op, Options, work};
use eager_vgpu_link::{Refusal, Request};

const THREADS_PER_BLOCK_MAX: u32 = 1024;
const BLOCKS_MAX: u64 = 0x7fff_ffff * 65_535 * 65_535;
const REGISTERS_PER_THREAD_MAX: u32 = 255;
/// CUDA's stream priorities on every card that is modelled.
const PRIORITIES: std::ops::RangeInclusive<i32> = -5..=0;
/// Equal launches in one request. The stand-in runtime sends them one by one.
const LAUNCHES_MAX: u32 = 1 << 16;
/// Allocations that one launch touches: the model looks at each at every step of it.
const ACCESSES_MAX: usize = 1 << 14;
/// Touched ranges of one launch, over all allocations.
pub const RANGES_MAX: usize = 1 << 20;
/// Modelled time that one kernel may take alone. Longer ones are a mistake, and would take the clock of a server that never
/// waits to the end of its numbers.
const KERNEL_NS_MAX: f64 = 30.0 * 86_400.0 * 1e9;
/// How much longer than the way of its bytes the paging of a buffer takes at most, about.
const PAGING: f64 = 16.0;
/// Seats of one reservation on the virtual clock.
const SEATS_MAX: u32 = 1 << 16;

/// A request whose every number is one that a card could be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked(Request);

impl Checked {
    /// # Errors
    /// Which number cannot be, and what could.
    pub fn new(request: Request, cards: &[Card]) -> Result<Checked, Refusal> {
        check(&request, cards).map_err(Refusal::Invalid)?;
        Ok(Checked(request))
    }

    pub fn into_inner(self) -> Request {
        self.0
    }
}

fn check(request: &Request, cards: &[Card]) -> Result<(), String> {
    match request {
        Request::Run { device, op: Op::Kernel(kernel) } => {
            // Without such a device the request is refused for that.
            cards.get(*device as usize).map_or(Ok(()), |card| check_kernel(kernel, card))
        }
        Request::Stamped { request: Some(request), .. } => check(request, cards),
        Request::Reserve { seats } if *seats > SEATS_MAX => {
            Err(format!("{seats} seats; {SEATS_MAX} at once are possible"))
        }
        _ => Ok(()),
    }
}

fn check_kernel(kernel: &Kernel, card: &Card) -> Result<(), String> {
    let within = |what: &str, number: u64, least: u64, most: u64| {
        let inside = (least..=most).contains(&number);
        inside.then_some(()).ok_or_else(|| format!("{number} {what}; {least} to {most} are possible"))
    };
    within("threads in a block", kernel.threads_per_block.into(), 1, THREADS_PER_BLOCK_MAX.into())?;
    within("blocks", kernel.blocks, 1, BLOCKS_MAX)?;
    within("launches", kernel.launches.into(), 0, LAUNCHES_MAX.into())?;
    let shared = u64::from(card.shared_bytes_per_sm);
    within("bytes of shared memory in a block", kernel.shared_bytes_per_block.into(), 0, shared)?;
    let registers = u64::from(REGISTERS_PER_THREAD_MAX);
    within("registers in a thread", kernel.registers_per_thread.into(), 0, registers)?;
    within("allocations touched by a launch", kernel.accesses.len() as u64, 0, ACCESSES_MAX as u64)?;
    within("ranges touched by a launch", ranges(kernel) as u64, 0, RANGES_MAX as u64)?;
    if !PRIORITIES.contains(&kernel.priority) {
        let (most, least) = (PRIORITIES.start(), PRIORITIES.end());
        return Err(format!("priority {}; {most} to {least} are possible", kernel.priority));
    }
    kernel.accesses.iter().try_for_each(check_access)
}

fn check_access(access: &Access) -> Result<(), String> {
    // A number that is none is in no range.
    if !(0.0..=1.0).contains(&access.density) {
        return Err(format!("density {}; 0 to 1 is possible", access.density));
    }
    Ok(())
}

/// A kernel as the model will see it, after the memory scale: it must end.
///
/// # Errors
/// It would take longer than any kernel does.
pub fn check_length(kernel: &Kernel, card: &Card, options: &Options) -> Result<(), Refusal> {
    // Few threads take far longer than a whole card, and what does not fit is paged in every launch.
    let touched: f64 =
        kernel.accesses.iter().flat_map(|access| &access.ranges).map(|range| range.bytes as f64).sum();
    let paged_ns = PAGING * touched / card.link.migrate_bytes_per_s * 1e9;
    let ns = (work(card, options, kernel).alone_ns + paged_ns) * f64::from(kernel.launches.max(1));
    if ns <= KERNEL_NS_MAX {
        return Ok(());
    }
    Err(Refusal::Invalid(format!("a kernel of {:.0} days; 30 are possible", ns / 86_400e9)))
}

/// Touched ranges of a launch.
pub fn ranges(kernel: &Kernel) -> usize {
    kernel.accesses.iter().map(|access| access.ranges.len()).sum()
}
