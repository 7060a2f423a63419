//! The only place where a client's numbers are checked: a request that passes is safe to give to the model.
//!
//! The limits of a launch are those of every card: CUDA C++ programming guide, "Technical Specifications per Compute
//! Capability". Sums over many requests (memory, allocations, open operations) are not bounded here but in
//! [`crate::holdings`].

use eager_gpu_model::{Access, Card, Kernel, Op, Options, work};
use eager_vgpu_link::{Refusal, Request};

const THREADS_PER_BLOCK_MAX: u32 = 1024;
const BLOCKS_MAX: u64 = 0x7fff_ffff * 65_535 * 65_535;
const REGISTERS_PER_THREAD_MAX: u32 = 255;
/// CUDA's stream priorities on every modelled card.
const PRIORITIES: std::ops::RangeInclusive<i32> = -5..=0;
/// Equal launches in one request. The stand-in runtime sends launches one by one.
const LAUNCHES_MAX: u32 = 1 << 16;
/// Allocations that one launch touches: the model visits each of them at every step of the launch.
const ACCESSES_MAX: usize = 1 << 14;
/// Touched ranges of one launch, over all allocations.
pub const RANGES_MAX: usize = 1 << 20;
/// Modelled time that one kernel may take alone. A longer one is a mistake, and where time jumps from event to event it
/// would overflow the clock.
const KERNEL_NS_MAX: f64 = 30.0 * 86_400.0 * 1e9;
/// Upper estimate of a buffer's paging time, as a multiple of the transfer time of its bytes.
const PAGING: f64 = 16.0;
/// Seats of one reservation on the virtual clock.
const SEATS_MAX: u32 = 1 << 16;

/// A number in a request that is possible on no card, and the possible range.
#[derive(Debug, thiserror::Error)]
enum Impossible {
    #[error("{number} {what}; {least} to {most} are possible")]
    Number { what: &'static str, number: u64, least: u64, most: u64 },
    #[error("{seats} seats; {SEATS_MAX} at once are possible")]
    Seats { seats: u32 },
    #[error("priority {priority}; {} to {} are possible", PRIORITIES.start(), PRIORITIES.end())]
    Priority { priority: i32 },
    #[error("density {density}; 0 to 1 is possible")]
    Density { density: f64 },
    #[error("the kernel would take {days:.0} days; at most 30 are possible")]
    Length { days: f64 },
}

impl From<Impossible> for Refusal {
    fn from(number: Impossible) -> Refusal {
        Refusal::Invalid(number.to_string())
    }
}

/// A request whose every number is possible on some card.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked(Request);

impl Checked {
    /// # Errors
    /// [`Refusal::Invalid`] with the impossible number and the possible range.
    pub fn new(request: Request, cards: &[Card]) -> Result<Checked, Refusal> {
        check(&request, cards)?;
        Ok(Checked(request))
    }

    pub fn into_inner(self) -> Request {
        self.0
    }
}

fn check(request: &Request, cards: &[Card]) -> Result<(), Impossible> {
    match request {
        Request::Run { device, op: Op::Kernel(kernel) } => {
            // A request for a missing device is refused elsewhere, with that reason.
            cards.get(*device as usize).map_or(Ok(()), |card| check_kernel(kernel, card))
        }
        Request::Stamped { request: Some(request), .. } => check(request, cards),
        &Request::Reserve { seats } if seats > SEATS_MAX => Err(Impossible::Seats { seats }),
        _ => Ok(()),
    }
}

fn check_kernel(kernel: &Kernel, card: &Card) -> Result<(), Impossible> {
    let within = |what: &'static str, number: u64, least: u64, most: u64| {
        let inside = (least..=most).contains(&number);
        inside.then_some(()).ok_or(Impossible::Number { what, number, least, most })
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
        return Err(Impossible::Priority { priority: kernel.priority });
    }
    kernel.accesses.iter().try_for_each(check_access)
}

fn check_access(access: &Access) -> Result<(), Impossible> {
    // NaN is in no range, so it is rejected too.
    if !(0.0..=1.0).contains(&access.density) {
        return Err(Impossible::Density { density: access.density });
    }
    Ok(())
}

/// Checks that a kernel ends in time, as the model sees it after the memory scale.
///
/// # Errors
/// The kernel would take longer than any kernel may.
pub fn check_length(kernel: &Kernel, card: &Card, options: &Options) -> Result<(), Refusal> {
    // A few threads take far longer than a whole card, and memory that does not fit is paged in at every launch.
    let touched: f64 =
        kernel.accesses.iter().flat_map(|access| &access.ranges).map(|range| range.bytes as f64).sum();
    let paged_ns = PAGING * touched / card.link.migrate_bytes_per_s * 1e9;
    let ns = (work(card, options, kernel).alone_ns + paged_ns) * f64::from(kernel.launches.max(1));
    if ns <= KERNEL_NS_MAX {
        return Ok(());
    }
    Err(Impossible::Length { days: ns / 86_400e9 }.into())
}

/// Number of touched ranges of a launch.
pub fn ranges(kernel: &Kernel) -> usize {
    kernel.accesses.iter().map(|access| access.ranges.len()).sum()
}
