//! Derives access classes from movements: first for one access, then for a buffer.
//!
//! The classes describe what paging sees: whether pages are needed once, in the order of the blocks, or repeatedly
//! (specification S-401). Re-use within a block does not count, because the block's pages stay resident while it runs.
//! All classes but "unused" are estimates. An access that cannot be classified is `Unknown`, which the scheduler treats
//! like `Cyclic`.

use std::collections::BTreeSet;

use super::code::Axis;
use super::flow::LoopId;
use super::polynomial::Polynomial;
use super::site::{Kernel, Site};
use super::stride::{Movement, Movements, Mover, movements};
use crate::Access;

/// Distance in bytes between accesses above which few bytes of each page are used: four sectors, a sector being the
/// unit of a GPU's memory fetches (specification S-402).
const STRIDE_MAX: u64 = 128;
/// Largest number of threads in a block.
const BLOCK_THREADS_MAX: u64 = 1024;
/// Number of 4 KiB pages that a repeated inner loop may cover without counting as a sweep: 64 KiB is the least that the
/// driver moves (specification S-403).
const SWEEP_PAGES_MIN: u64 = 16;
const PAGE: u64 = 4096;

/// Limit on the distinct access classes kept for one buffer; generated code may have any number.
pub const CLASSES_MAX: usize = 128;

/// Stands for the stride of blocks that move along and across rows at once; see [`is_diagonal`].
const DIAGONAL: u64 = u64::MAX;

/// Class of one access.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiteClass {
    /// The address depends on data.
    Gather,
    /// Affine, but uses few bytes of each page: `cover` bytes of every `stride`.
    Strided {
        stride: u64,
        cover: u64,
        fixed: Polynomial,
        direction: Direction,
    },
    /// Follows the order of the blocks and uses each byte about once.
    Stream(Direction),
    /// All steps come from arguments: the order is known, the density is not.
    Pitched(Direction),
    /// Like `Stream`, but data selects the threads that take part.
    GuardedStream(Direction),
    /// Only one block makes this access.
    Once,
    Cyclic,
    Unknown,
}

/// Bytes per step of the block index along each axis that moves the address.
pub type Direction = Vec<(Axis, Polynomial)>;

/// Classifies one access of a kernel.
#[must_use]
pub fn classify(kernel: &Kernel<'_>, live: &BTreeSet<Axis>, site: &Site) -> SiteClass {
    let motion = kernel.shapes.atoms.motion(&site.offset);
    if motion.is_data {
        return SiteClass::Gather;
    }
    let free: Vec<Axis> =
        live.iter().copied().filter(|axis| !site.around.single_block_axes.contains(axis)).collect();
    let moves_blocks = |axis: Axis| {
        let register = super::code::Register::BlockIndex(axis);
        motion.includes(super::atoms::Motion::of_register(register))
    };
    if free.iter().any(|&axis| !moves_blocks(axis)) {
        return SiteClass::Cyclic;
    }
    let Some(found) = movements(&kernel.shapes, &site.offset) else { return SiteClass::Unknown };
    let wraps_only = |axis: Axis| {
        let is_block = |movement: &Movement| movement.mover == Mover::Block(axis);
        found.wrapping.iter().any(is_block) && !found.straight.iter().any(is_block)
    };
    if free.iter().any(|&axis| wraps_only(axis)) || repeats_a_sweep(kernel, site, &found) {
        return SiteClass::Cyclic;
    }
    if free.is_empty() && !live.is_empty() {
        return SiteClass::Once;
    }
    if !is_in_block_order(&found, &free) {
        return SiteClass::Cyclic;
    }
    by_density(kernel, site, &found)
}

/// Whether a loop that does not move the address encloses one that does, so that the inner loop's range is read again
/// and again.
fn repeats_a_sweep(kernel: &Kernel<'_>, site: &Site, found: &Movements) -> bool {
    let moved_by = |id: LoopId| found.straight.iter().find(|movement| movement.mover == Mover::Loop(id));
    let wraps_with = |id: LoopId| found.wrapping.iter().any(|movement| movement.mover == Mover::Loop(id));
    let mut is_repeated = false;
    for &id in &site.around.loops {
        let trip_count = kernel.trip_count(id);
        match moved_by(id) {
            Some(movement) => {
                let step = movement.bytes.as_constant().map_or(PAGE, |bytes| bytes.unsigned_abs().min(PAGE));
                let pages = trip_count.map_or(u64::MAX, |trip_count| trip_count.saturating_mul(step) / PAGE);
                if is_repeated && pages > SWEEP_PAGES_MIN {
                    return true;
                }
            }
            None if !wraps_with(id) && trip_count != Some(1) => is_repeated = true,
            None => {}
        }
    }
    false
}

/// Whether the address follows the order in which blocks run (x, y, z). If a later axis moves the address less than an
/// earlier one, each page is used again after all others. For paging that is cyclic, although each byte is used once (a
/// transposed matrix).
fn is_in_block_order(found: &Movements, free: &[Axis]) -> bool {
    let step = |list: &[Movement], axis: Axis| {
        list.iter()
            .find(|movement| movement.mover == Mover::Block(axis))
            .map(|movement| movement.bytes.clone())
    };
    let steps: Vec<Polynomial> = free.iter().filter_map(|&axis| step(&found.straight, axis)).collect();
    let in_order = steps.iter().zip(steps.iter().skip(1)).all(|(first, second)| !is_more(first, second));
    // Within one axis likewise: the remainder of a linear index changes fast, the quotient slowly.
    let columns_first =
        free.iter().any(|&axis| match (step(&found.wrapping, axis), step(&found.straight, axis)) {
            (Some(fast), Some(slow)) => fast.as_constant().is_none() && slow.as_constant().is_some(),
            _ => false,
        });
    in_order && !columns_first
}

/// Whether one step is longer than another, as far as known; an argument is assumed to be large.
fn is_more(one: &Polynomial, other: &Polynomial) -> bool {
    match (one.as_constant(), other.as_constant()) {
        (Some(one), Some(other)) => one.unsigned_abs() > other.unsigned_abs(),
        (None, Some(_)) => true,
        (Some(_), None) => false,
        (None, None) => one.degree() > other.degree(),
    }
}

fn by_density(kernel: &Kernel<'_>, site: &Site, found: &Movements) -> SiteClass {
    let all = || found.straight.iter().chain(&found.wrapping);
    let direction: Direction = found
        .straight
        .iter()
        .filter_map(|movement| match movement.mover {
            Mover::Block(axis) => Some((axis, movement.bytes.clone())),
            _ => None,
        })
        .collect();
    let constant = |movement: &Movement| movement.bytes.as_constant().map(i64::unsigned_abs);
    let finest = all().filter_map(constant).min();
    let Some(finest) = finest else {
        // Nothing moves the address (a kernel of one block), or all its steps come from arguments.
        return if all().next().is_none() { SiteClass::Once } else { SiteClass::Pitched(direction) };
    };
    let bytes = site.bytes.max(1);
    let skips = if site.bytes == 0 { None } else { skip(kernel, found, finest, bytes) };
    let strided = |stride: u64, cover: u64| SiteClass::Strided {
        stride,
        cover,
        fixed: found.fixed.clone(),
        direction: direction.clone(),
    };
    if is_diagonal(found) {
        strided(DIAGONAL, bytes)
    } else if let Some((stride, cover)) = skips {
        strided(stride, cover)
    } else if site.around.is_guarded {
        SiteClass::GuardedStream(direction)
    } else {
        SiteClass::Stream(direction)
    }
}

/// Returns the distance between the used runs of bytes and the length of a run, if there are gaps; else `None`.
fn skip(kernel: &Kernel<'_>, found: &Movements, finest: u64, bytes: u64) -> Option<(u64, u64)> {
    if finest > STRIDE_MAX.max(4 * bytes) {
        return Some((finest, bytes));
    }
    // Longest run of one block: all its threads and iterations side by side.
    let mut run = finest.max(bytes).saturating_mul(BLOCK_THREADS_MAX);
    for movement in &found.straight {
        match movement.mover {
            Mover::Loop(id) => run = run.saturating_mul(kernel.trip_count(id).unwrap_or(u64::MAX)),
            Mover::Thread(Axis::Y | Axis::Z) | Mover::Thread(Axis::X) | Mover::Block(_) => {}
        }
    }
    let blocks = found.straight.iter().filter(|movement| matches!(movement.mover, Mover::Block(_)));
    let nearest = blocks.map(|movement| movement.bytes.as_constant().map_or(0, i64::unsigned_abs)).min()?;
    (nearest > run.saturating_mul(4)).then_some((nearest, run))
}

/// Whether a block's step moves along a row and across rows at once; rows are then longer than the part that a launch
/// uses.
fn is_diagonal(found: &Movements) -> bool {
    let is_block = |movement: &&Movement| matches!(movement.mover, Mover::Block(_));
    let pitches =
        || found.straight.iter().filter(|movement| !is_block(movement)).map(|movement| &movement.bytes);
    found.straight.iter().filter(is_block).any(|block| {
        pitches().filter(|pitch| pitch.as_constant().is_none()).any(|pitch| {
            let leading = pitch.terms().find(|(monomial, _)| !monomial.is_empty());
            let Some((monomial, per_row)) = leading else { return false };
            let rows = block.bytes.coefficient(monomial);
            if rows == 0 || rows % per_row != 0 {
                return false;
            }
            let rest = block.bytes.plus_scaled(pitch, -(rows / per_row));
            rest.is_some_and(|rest| rest.as_constant().is_some_and(|along| along != 0))
        })
    })
}

/// Derives the class of a buffer from the classes of all accesses to it.
#[must_use]
pub fn combine(sites: &BTreeSet<SiteClass>) -> Access {
    if sites.contains(&SiteClass::Cyclic) {
        return Access::Cyclic;
    }
    if sites.contains(&SiteClass::Unknown) || sites.len() >= CLASSES_MAX {
        return Access::Unknown;
    }
    let directions: Vec<&Direction> = sites
        .iter()
        .filter_map(|site| match site {
            SiteClass::Stream(direction)
            | SiteClass::GuardedStream(direction)
            | SiteClass::Pitched(direction)
            | SiteClass::Strided { direction, .. } => Some(direction),
            _ => None,
        })
        .collect();
    let gathers = sites.contains(&SiteClass::Gather);
    // Rows that one access shows to be longer than their used part are so for every access in the same direction.
    let is_diagonal = |way: &Direction| {
        let same = |site: &SiteClass| matches!(site, SiteClass::Strided { stride: DIAGONAL, direction, .. } if direction == way);
        sites.iter().any(same)
    };
    let is_stream = |site: &SiteClass| matches!(site, SiteClass::Stream(way) if !is_diagonal(way));
    let streams = sites.iter().any(is_stream) || is_covered(sites);
    let same_way = directions.iter().zip(directions.iter().skip(1)).all(|(one, other)| one == other);
    if streams && (gathers || !same_way) {
        // Read in order by one access, and read again elsewhere by another.
        return Access::Cyclic;
    }
    if sites.iter().all(|site| matches!(site, SiteClass::Pitched(_) | SiteClass::Once))
        && !directions.is_empty()
    {
        return Access::Unknown;
    }
    let only_once = sites.iter().all(|site| *site == SiteClass::Once);
    if streams || only_once { Access::OnePass } else { Access::Sparse }
}

/// Whether strided accesses to different parts of one record together use at least half of it.
fn is_covered(sites: &BTreeSet<SiteClass>) -> bool {
    let mut parts: BTreeSet<(u64, Polynomial)> = BTreeSet::new();
    let mut strides: BTreeSet<u64> = BTreeSet::new();
    let mut bytes = 0u64;
    for site in sites {
        if let SiteClass::Strided { stride, cover, fixed, .. } = site {
            strides.insert(*stride);
            if parts.insert((*stride, fixed.clone())) {
                bytes = bytes.saturating_add(*cover);
            }
        }
    }
    strides.len() == 1 && strides.first().is_some_and(|&stride| bytes >= stride / 2)
}
