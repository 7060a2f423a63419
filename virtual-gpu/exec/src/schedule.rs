//! Decides which threads of a block continue: warp operations, block barriers, and threads that yielded. Pure.
//!
//! A thread suspends with a [`Wait`] that describes what it waits for. A warp operation is complete when every thread
//! that it names, and that has not exited, waits at one of the same kind with the same mask, wherever in the program
//! (CUDA C++ programming guide, "Warp Shuffle Functions" and its neighbours). Results are computed here, not by the
//! threads, because the first thread to continue may already overwrite its operand. Trap: `__activemask` promises
//! nothing about convergence, but programs expect what hardware does. It is answered last of all, for all threads that
//! wait at one place in the program, so that every thread that can still reach that place gets there first.

use crate::abi::Wait;
use crate::tensor;
pub use crate::warp::{WARP, WaitKind};

const NAMED_BARRIERS: usize = 16;
const PREDICATE: u64 = 1 << 32;

/// Reduction of the values at a block barrier ([`Wait::control`]); any other number means "or".
pub const BARRIER_COUNT: u32 = 1;
pub const BARRIER_AND: u32 = 2;

/// State of a block after no warp could continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Round {
    /// All threads have exited.
    Finished = 0,
    GoesOn = 1,
    /// All threads that can continue have yielded: they wait for other blocks.
    Yielded = 2,
    /// The threads wait for each other and always will.
    Stuck = 3,
}

fn kind(wait: &Wait) -> WaitKind {
    WaitKind::from_number(wait.kind)
}

fn is_warp_operation(kind: WaitKind) -> bool {
    kind as u32 >= WaitKind::SyncWarp as u32 && (kind as u32) < WaitKind::ActiveMask as u32
}

/// The lanes of `mask` as indices, ascending.
fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..WARP).filter(move |lane| mask >> lane & 1 == 1)
}

fn lanes_where(warp: &[Wait], test: impl Fn(&Wait) -> bool) -> u32 {
    warp.iter().enumerate().fold(0, |mask, (lane, wait)| mask | u32::from(test(wait)) << lane)
}

/// Completes the operations that threads of one warp (at most 32, by lane) wait for together; returns the lanes that
/// can continue.
pub fn ready_lanes(warp: &mut [Wait]) -> u32 {
    ready_lanes_with(warp, &mut |_, _| {})
}

/// [`ready_lanes`] with a callback for each completed operation: the lanes that took part, and the live ones.
pub(crate) fn ready_lanes_with(warp: &mut [Wait], on_complete: &mut dyn FnMut(u32, u32)) -> u32 {
    let mut ready = lanes_where(warp, |wait| kind(wait) == WaitKind::Nothing);
    if tensor::is_complete(warp) {
        ready = u32::MAX;
    }
    let alive = lanes_where(warp, |wait| kind(wait) != WaitKind::Exited);
    let mut seen = ready;
    for lane in 0..warp.len() {
        let own = warp[lane];
        if seen >> lane & 1 == 1 || !is_warp_operation(kind(&own)) {
            continue;
        }
        let group = lanes_where(warp, |wait| wait.kind == own.kind && wait.mask == own.mask);
        seen |= group;
        let named = own.mask & alive;
        if named & !group == 0 {
            complete(warp, named, group & !named, kind(&own));
            ready |= group;
            report_meetings(named, group, &mut |members| on_complete(members, alive));
        }
    }
    if ready == 0 {
        ready = answer_active_mask(warp);
    }
    for lane in lanes(ready) {
        warp[lane].kind = WaitKind::Nothing as u32;
    }
    ready
}

/// Answers `__activemask` at the first place in the program. Threads in lock step wait here at each step, with numbers
/// that rise in the order of control, so threads that lag behind catch up.
fn answer_active_mask(warp: &mut [Wait]) -> u32 {
    let asks = |wait: &Wait| kind(wait) == WaitKind::ActiveMask;
    let places = warp.iter().filter(|wait| asks(wait)).map(|wait| wait.argument);
    let Some(place) = places.min() else { return 0 };
    let group = lanes_where(warp, |wait| asks(wait) && wait.argument == place);
    lanes(group).for_each(|lane| warp[lane].result = group.into());
    group
}

/// Reports who met in an operation for which the lanes of `group` wait: those that its mask names, and each of the
/// others with those.
fn report_meetings(named: u32, group: u32, on_meeting: &mut dyn FnMut(u32)) {
    let mut met = 0;
    for lane in lanes(group) {
        if met >> lane & 1 == 0 {
            let members = named | 1 << lane;
            on_meeting(members);
            met |= members;
        }
    }
}

/// Computes the results of one operation. Each of `others`, which the mask does not name although they wait for it,
/// takes part for itself; those that it names get their results with the last of the others.
fn complete(warp: &mut [Wait], named: u32, others: u32, operation: WaitKind) {
    use WaitKind::*;
    let mut values = [0; WARP];
    lanes(named | others).for_each(|lane| values[lane] = warp[lane].value);
    let all_votes = lanes_where(warp, |wait| wait.value & 1 != 0);
    let same = |value: u64, members: u32| {
        lanes(members).filter(|&lane| values[lane] == value).fold(0u32, |mask, lane| mask | 1 << lane)
    };
    let reduced_named = lanes(named).map(|lane| values[lane] as u32).reduce(|a, b| combine(operation, a, b));
    let last_other = lanes(others).last();
    for lane in lanes(named | others) {
        let other = if others >> lane & 1 == 1 { Some(lane) } else { last_other };
        let members = named | other.map_or(0, |other| 1 << other);
        let votes = all_votes & members;
        let reduced = || {
            let numbers = [reduced_named, other.map(|other| values[other] as u32)];
            numbers.into_iter().flatten().reduce(|a, b| combine(operation, a, b)).unwrap_or(0)
        };
        let wait = &mut warp[lane];
        wait.result = match operation {
            ShuffleUp | ShuffleDown | ShuffleXor | ShuffleIndex => {
                let (source, inside) = shuffle_source(operation, lane as u32, wait);
                let source = if members >> source & 1 == 1 { source as usize } else { lane };
                (values[source] & (PREDICATE - 1)) | if inside { PREDICATE } else { 0 }
            }
            VoteAll => u64::from(votes == members),
            VoteAny => u64::from(votes != 0),
            VoteUniform => u64::from(votes == 0 || votes == members),
            Ballot => votes.into(),
            MatchAny => same(values[lane], members).into(),
            MatchAll if same(values[lane], members) == members => u64::from(members) | PREDICATE,
            MatchAll => 0,
            _ => reduced().into(),
        };
    }
}

/// Returns the source lane of a shuffle, and whether it lies inside the segment (otherwise a thread reads its own
/// value): PTX ISA, "shfl.sync".
fn shuffle_source(operation: WaitKind, lane: u32, wait: &Wait) -> (u32, bool) {
    let (distance, clamp, segment) = (wait.argument & 31, wait.control & 31, wait.control >> 8 & 31);
    let least = lane & segment;
    let most = least | (clamp & !segment);
    let (source, inside) = match operation {
        WaitKind::ShuffleUp => {
            (lane.wrapping_sub(distance), lane.cast_signed() - distance.cast_signed() >= most.cast_signed())
        }
        WaitKind::ShuffleDown => (lane + distance, lane + distance <= most),
        WaitKind::ShuffleXor => (lane ^ distance, lane ^ distance <= most),
        _ => {
            let source = least | (distance & !segment);
            (source, source <= most)
        }
    };
    if inside { (source, true) } else { (lane, false) }
}

/// Reduces two numbers to one.
fn combine(operation: WaitKind, a: u32, b: u32) -> u32 {
    use WaitKind::*;
    match operation {
        ReduceAdd => a.wrapping_add(b),
        ReduceMin => a.cast_signed().min(b.cast_signed()).cast_unsigned(),
        ReduceMax => a.cast_signed().max(b.cast_signed()).cast_unsigned(),
        ReduceMinUnsigned => a.min(b),
        ReduceMaxUnsigned => a.max(b),
        ReduceAnd => a & b,
        ReduceOr => a | b,
        _ => a ^ b,
    }
}

/// Completes operations of a whole block, given that no warp can continue by itself. If blocks may wait for each other,
/// a block in which threads have only yielded lets other blocks run first.
pub fn next_round(block: &mut [Wait], blocks_may_wait: bool) -> Round {
    next_round_with(block, blocks_may_wait, &mut |_| {})
}

/// [`next_round`] with a callback for each released barrier.
pub(crate) fn next_round_with(
    block: &mut [Wait],
    blocks_may_wait: bool,
    on_release: &mut dyn FnMut(Met),
) -> Round {
    let alive = block.iter().filter(|wait| kind(wait) != WaitKind::Exited).count();
    if alive == 0 {
        return Round::Finished;
    }
    let mut released = false;
    for barrier in 0..NAMED_BARRIERS as u32 {
        if let Some(warps) = release_barrier(block, barrier, alive) {
            on_release(warps);
            released = true;
        }
    }
    let mut yielded = false;
    for wait in block.iter_mut().filter(|wait| kind(wait) == WaitKind::Yield) {
        wait.kind = WaitKind::Nothing as u32;
        yielded = true;
    }
    match (released, yielded) {
        (false, false) => Round::Stuck,
        (false, true) if blocks_may_wait => Round::Yielded,
        _ => Round::GoesOn,
    }
}

/// Address of the place text of the first polling thread that has one, or 0.
pub fn polled_at(block: &[Wait]) -> u64 {
    block
        .iter()
        .filter(|wait| kind(wait) == WaitKind::Yield)
        .map(|wait| wait.value)
        .find(|&at| at != 0)
        .unwrap_or(0)
}

/// Two threads of a stuck block and the places where they wait, different ones if there are.
pub fn standstill(block: &[Wait]) -> Option<[(usize, u64); 2]> {
    let waits = |wait: &Wait| !matches!(kind(wait), WaitKind::Nothing | WaitKind::Exited) && wait.result != 0;
    let mut waiting =
        block.iter().enumerate().filter(|(_, wait)| waits(wait)).map(|(i, wait)| (i, wait.result));
    let first = waiting.next()?;
    let (mut last, mut other) = (None, None);
    for one in waiting {
        last = Some(one);
        other = other.or((one.1 != first.1).then_some(one));
    }
    Some([first, other.or(last)?])
}

/// Releases a barrier that is complete. Without a thread count it waits for all threads of the block that have not
/// exited.
fn release_barrier(block: &mut [Wait], barrier: u32, alive: usize) -> Option<Met> {
    let waits = |wait: &&mut Wait| kind(wait) == WaitKind::Barrier && wait.mask == barrier;
    let (mut here, mut votes, mut wanted) = (0, 0, 0);
    for wait in block.iter_mut().filter(waits) {
        here += 1;
        votes += usize::from(wait.value & 1 != 0);
        wanted = wait.argument as usize;
    }
    if here == 0 || here < if wanted == 0 { alive } else { wanted } {
        return None;
    }
    let at_it =
        block.iter().enumerate().filter(|(_, wait)| kind(wait) == WaitKind::Barrier && wait.mask == barrier);
    let is_whole = barrier == 0 && wanted == 0;
    let places = is_whole.then(|| places_of(at_it.clone().map(|(_, wait)| wait))).flatten();
    let mask =
        at_it.fold(0, |mask, (thread, _)| mask | 1_u32.checked_shl((thread / WARP) as u32).unwrap_or(0));
    for wait in block.iter_mut().filter(waits) {
        wait.result = match wait.control {
            BARRIER_COUNT => votes as u64,
            BARRIER_AND => u64::from(votes == here),
            _ => u64::from(votes != 0),
        };
        wait.kind = WaitKind::Nothing as u32;
    }
    Some(Met { mask, all: here == alive, places })
}

/// The first two different places at which threads wait, if there are two and the kernel names them.
fn places_of<'a>(mut waits: impl Iterator<Item = &'a Wait>) -> Option<[u64; 2]> {
    let first = waits.find(|wait| wait.result != 0)?.result;
    let other = waits.find(|wait| wait.result != 0 && wait.result != first)?;
    Some([first, other.result])
}

/// Threads that met at a barrier.
pub(crate) struct Met {
    /// The warps that had threads among them.
    pub mask: u32,
    /// They were all that have not exited.
    pub all: bool,
    /// Two different places at which they waited, if the kernel names them.
    pub places: Option<[u64; 2]>,
}
