//! Sums of real numbers of at most 32 bits, bit for bit as an H100 adds them (specification S-692, S-693).
//!
//! A tensor core takes a block of products and the sum so far, shifts them all to the exponent of the largest, cuts off what lies
//! more than 25 places below it, adds the rest exactly and rounds once. Trap: a product's exponent is the sum of its
//! factors' exponents, so 1.5 times 1.5 has that of 1; and what is left of a denormal number keeps the least exponent of its type.

use super::{Element, Form, Record, gathered, scatter};
use crate::half::{from_half, to_half};
use crate::schedule::WARP;

/// Columns of the widest matrix.
const COLUMNS: usize = 32;
/// Places that are kept below the largest exponent: two more than an `f32` has.
const PLACES: i16 = 25;
/// No term is shifted to a lower exponent.
const LEAST: i16 = -133;
/// Exponent of zero, and of what is no finite number: it decides nothing.
const NONE: i16 = -10_000;

/// How a form's products are added.
struct Plan {
    /// What a sum is rounded to after each block.
    sum: Element,
    /// Inner places in the order in which they are added, and how many at once.
    order: Vec<usize>,
    block: usize,
    /// C is added to the sum of all products, by an addition of its own.
    c_apart: bool,
}

impl Plan {
    fn of(form: &Form) -> Plan {
        let [_, n, k] = form.sizes();
        let same = form.c == Element::F16 && form.d == Element::F16;
        let sum = if same { Element::F16 } else { Element::F32 };
        match form.a {
            // Hopper has no such operation: the compiler makes halves of each register's lower elements, then of its upper ones.
            Element::E4M3 | Element::E5M2 => {
                let order = [0, 2].into_iter().flat_map(|part| (0..k).filter(move |at| at & 2 == part));
                Plan { sum, order: order.collect(), block: k / 2, c_apart: true }
            }
            // `wmma` of 16 by 16 by 8 becomes operations of four inner places, `mma` of 16 by 8 by 8 one of eight.
            Element::TF32 => {
                Plan { sum, order: (0..k).collect(), block: if n == 16 { 4 } else { 8 }, c_apart: false }
            }
            _ => Plan { sum, order: (0..k).collect(), block: 16, c_apart: false },
        }
    }
}

/// Numbers, and the exponents by which they are shifted.
struct Terms {
    values: Vec<f64>,
    exponents: Vec<i16>,
}

impl Terms {
    fn new(element: Element, numbers: &[f32]) -> Terms {
        let values = numbers.iter().copied().map(f64::from).collect();
        Terms { values, exponents: numbers.iter().map(|&number| exponent(element, number)).collect() }
    }
}

fn exponent(element: Element, number: f32) -> i16 {
    if number == 0.0 || !number.is_finite() {
        return NONE;
    }
    let least = match element {
        Element::BF16 | Element::TF32 | Element::F32 => -126,
        _ => -14,
    };
    ((number.to_bits() >> 23 & 0xff) as i16 - 127).max(least)
}

fn power_of_two(exponent: i16) -> f64 {
    f64::from_bits(((i64::from(exponent) + 1023) as u64) << 52)
}

/// Without its places behind the point; for less than 2^51. (`f64::trunc` is a call where a processor's oldest instructions are used.)
fn whole(value: f64) -> f64 {
    const STEP_OF_ONE: f64 = (1_u64 << 52) as f64;
    let size = value.abs();
    let near = (size + STEP_OF_ONE) - STEP_OF_ONE;
    (if near > size { near - 1.0 } else { near }).copysign(value)
}

/// Rounded toward zero, which is never negative; infinite from 2^128 on.
fn toward_zero(value: f64) -> f32 {
    let near = value as f32;
    let beyond = f64::from(near).abs() > value.abs() && value.abs() < 2.0 * power_of_two(127);
    (if beyond { f32::from_bits(near.to_bits() - 1) } else { near }) + 0.0
}

/// Rounded to the nearest `f16`, to even; a zero is never negative.
fn to_nearest_half(value: f64) -> f32 {
    let cut = toward_zero(value);
    // What was cut off lives on in the last place, which lies far below the one that is rounded.
    let marked =
        if f64::from(cut) == value || !cut.is_finite() { cut } else { f32::from_bits(cut.to_bits() | 1) };
    from_half(to_half(marked)) + 0.0
}

/// Computes the results of all lanes in their records.
pub(super) fn multiply(form: &Form, lanes: &mut [Record; WARP]) {
    let [a, b, mut sums] = gathered(form, lanes, Element::real);
    if form.is_quads() {
        multiply_quads(form, &a, &b, &mut sums);
    } else {
        multiply_in_blocks(form, &a, &b, &mut sums);
    }
    scatter(form, lanes, |at| form.d.from_real(sums[at]));
}

fn multiply_in_blocks(form: &Form, a: &[f32], b: &[f32], sums: &mut [f32]) {
    let [_, n, k] = form.sizes();
    let (plan, a, b) = (Plan::of(form), Terms::new(form.a, a), Terms::new(form.b, b));
    for (row, sums) in sums.chunks_exact_mut(n).enumerate() {
        let mut alone = [0.0; COLUMNS];
        let started = if plan.c_apart { &mut alone[..n] } else { &mut *sums };
        for places in plan.order.chunks(plan.block) {
            add_block(&plan, (&a, row * k), &b, places, started);
        }
        if plan.c_apart {
            for (sum, products) in sums.iter_mut().zip(alone) {
                *sum += products;
            }
        }
    }
}

/// Adds the products at some inner places to a row of sums. The loops run along the row, so that the compiler uses vectors.
fn add_block(plan: &Plan, (a, from): (&Terms, usize), b: &Terms, places: &[usize], sums: &mut [f32]) {
    let n = sums.len();
    let mut largest = [LEAST; COLUMNS];
    for (largest, &sum) in largest.iter_mut().zip(&*sums) {
        *largest = exponent(plan.sum, sum).max(LEAST);
    }
    for &place in places {
        let exponent = a.exponents[from + place];
        for (largest, &other) in largest.iter_mut().zip(&b.exponents[place * n..][..n]) {
            *largest = (*largest).max(exponent + other);
        }
    }
    let scales = largest.map(|largest| power_of_two(PLACES - largest));
    let mut totals = [0.0; COLUMNS];
    for ((total, &sum), &scale) in totals.iter_mut().zip(&*sums).zip(&scales) {
        *total += whole(f64::from(sum) * scale);
    }
    for &place in places {
        let factor = a.values[from + place];
        let others = &b.values[place * n..][..n];
        for ((total, &other), &scale) in totals.iter_mut().zip(others).zip(&scales) {
            *total += whole(factor * other * scale);
        }
    }
    let rounded = if plan.sum == Element::F16 { to_nearest_half } else { toward_zero };
    for ((sum, total), largest) in sums.iter_mut().zip(totals).zip(largest) {
        *sum = rounded(total * power_of_two(largest - PLACES));
    }
}

/// The four products of 8 by 8 by 4, for which Hopper runs a routine in `f32`.
fn multiply_quads(form: &Form, a: &[f32], b: &[f32], sums: &mut [f32]) {
    for (at, sum) in sums.iter_mut().enumerate() {
        let (product, row, column) = (at / 64, at / 8 % 8, at % 8);
        let [p, q, r, s] = std::array::from_fn(|inner| {
            a[product * 32 + row * 4 + inner] * b[product * 32 + inner * 8 + column]
        });
        *sum =
            if form.d == Element::F16 { (*sum + (p + q)) + (r + s) } else { ((p + 0.0 + q) + r + s) + *sum };
    }
}
