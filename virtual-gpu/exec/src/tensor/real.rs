//! Sums of floating-point numbers of at most 32 bits, bit for bit as an H100 adds them (specification S-692, S-693).
//!
//! A tensor core takes a block of products and the sum so far, shifts them all to the exponent of the largest, cuts off
//! bits more than 25 places below it, adds the rest exactly and rounds once. Trap: a product's exponent is the sum of
//! its factors' exponents, so 1.5 times 1.5 has that of 1; and a denormal number has the least exponent of its type.

use super::{Element, Form, Record, gathered, scatter};
use crate::half::{from_half, to_half};
use crate::warp::WARP;

/// Number of columns that are added side by side, so that the compiler uses vectors; every form has a multiple of it.
const COLUMNS: usize = 8;
/// Number of places kept below the largest exponent: two more than an `f32` has.
const PLACES: i16 = 25;
/// Least exponent to which terms are shifted.
const LEAST: i16 = -133;
/// Exponent of zero, infinity and NaN, so small that it never is the largest.
const NONE: i16 = -10_000;

/// How a form's products are added.
struct Plan {
    /// Type that a sum is rounded to after each block.
    sum: Element,
    /// Inner positions in the order in which they are added, and the number added at once.
    order: Vec<usize>,
    block: usize,
    /// C is added separately, to the sum of all products.
    c_apart: bool,
}

impl Plan {
    fn of(form: &Form) -> Plan {
        let [_, n, k] = form.sizes();
        let same = form.c == Element::F16 && form.d == Element::F16;
        let sum = if same { Element::F16 } else { Element::F32 };
        match form.a {
            // Hopper has no such operation: the compiler converts each register's lower elements to halves, then its
            // upper ones.
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

/// Numbers with their exponents.
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

/// Drops the fraction of a value below 2^51. (`f64::trunc` is a call on a target with only the oldest instructions.)
fn whole(value: f64) -> f64 {
    const STEP_OF_ONE: f64 = (1_u64 << 52) as f64;
    let size = value.abs();
    let near = (size + STEP_OF_ONE) - STEP_OF_ONE;
    (if near > size { near - 1.0 } else { near }).copysign(value)
}

/// Rounds toward zero; a zero result is positive. Infinite from 2^128 on.
fn toward_zero(value: f64) -> f32 {
    let near = value as f32;
    let beyond = f64::from(near).abs() > value.abs() && value.abs() < 2.0 * power_of_two(127);
    (if beyond { f32::from_bits(near.to_bits() - 1) } else { near }) + 0.0
}

/// Rounds to the nearest `f16`, ties to even; a zero result is positive.
fn to_nearest_half(value: f64) -> f32 {
    let cut = toward_zero(value);
    // The cut-off bits are represented by the last place, which lies far below the one that is rounded.
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
    let (sums, _) = sums.as_chunks_mut::<COLUMNS>();
    for (at, sums) in sums.iter_mut().enumerate() {
        let (row, column) = (at * COLUMNS / n, at * COLUMNS % n);
        let mut partial = if plan.c_apart { [0.0; COLUMNS] } else { *sums };
        for places in plan.order.chunks(plan.block) {
            let factors = places.iter().map(|place| (row * k + place, place * n + column));
            add_block(plan.sum, &a, &b, factors, &mut partial);
        }
        for (sum, partial) in sums.iter_mut().zip(partial) {
            *sum = if plan.c_apart { *sum + partial } else { partial };
        }
    }
}

/// Adds products to neighbouring sums; `factors` are pairs of the index of A's factor and the index of B's first.
fn add_block(
    sum: Element,
    a: &Terms,
    b: &Terms,
    factors: impl Iterator<Item = (usize, usize)> + Clone,
    sums: &mut [f32; COLUMNS],
) {
    let mut largest = sums.map(|value| exponent(sum, value).max(LEAST));
    for (one, others) in factors.clone() {
        let exponent = a.exponents[one];
        let others = &b.exponents[others..][..COLUMNS];
        for (largest, &other) in largest.iter_mut().zip(others) {
            *largest = (*largest).max(exponent + other);
        }
    }
    let scales = largest.map(|largest| power_of_two(PLACES - largest));
    // The sum starts with +0, so that a zero sum is not negative.
    let mut totals: [f64; COLUMNS] = std::array::from_fn(|at| 0.0 + whole(f64::from(sums[at]) * scales[at]));
    for (one, others) in factors {
        let factor = a.values[one];
        let others = &b.values[others..][..COLUMNS];
        for ((total, &other), &scale) in totals.iter_mut().zip(others).zip(&scales) {
            *total += whole(factor * other * scale);
        }
    }
    let rounded = if sum == Element::F16 { to_nearest_half } else { toward_zero };
    *sums = std::array::from_fn(|at| rounded(totals[at] * power_of_two(largest[at] - PLACES)));
}

/// The four products of 8 by 8 by 4, which Hopper computes by a routine in `f32`.
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

#[cfg(test)]
mod tests {
    use super::{exponent, power_of_two, to_nearest_half, toward_zero, whole};
    use crate::tensor::Element::{BF16, F16};

    #[test]
    fn places_are_cut_off() {
        for (value, expected) in
            [(2.9, 2.0), (-2.9, -2.0), (0.999, 0.0), (3.0, 3.0), (134_217_727.75, 134_217_727.0)]
        {
            assert_eq!(whole(value), expected, "{value}");
        }
        assert!(whole(f64::INFINITY).is_infinite() && whole(f64::NAN).is_nan());
    }

    #[test]
    fn singles_go_toward_zero_and_are_infinite_from_their_range_on() {
        let one = 1.0 + power_of_two(-24) + power_of_two(-25);
        assert_eq!((toward_zero(one), toward_zero(-one)), (1.0, -1.0));
        let end = 2.0 * power_of_two(127);
        assert_eq!((toward_zero(end), toward_zero(end - power_of_two(103))), (f32::INFINITY, f32::MAX));
        assert_eq!(toward_zero(-1.75 * power_of_two(-149)).to_bits(), 0x8000_0001);
        assert_eq!(toward_zero(-power_of_two(-150)).to_bits(), 0);
    }

    #[test]
    fn halves_go_to_the_nearest() {
        let half = power_of_two(-11);
        assert_eq!(
            (to_nearest_half(1.0 + half), to_nearest_half(1.0 + 3.0 * half)),
            (1.0, 1.0 + 4.0 / 2048.0)
        );
        // Going through an `f32` would lose the deciding bit.
        assert_eq!(to_nearest_half(1.0 + half + power_of_two(-30)), 1.0 + 2.0 / 2048.0);
        assert_eq!(to_nearest_half(1.0 + 3.0 * half - power_of_two(-30)), 1.0 + 2.0 / 2048.0);
        assert_eq!((to_nearest_half(65519.0), to_nearest_half(-65520.0)), (65504.0, f32::NEG_INFINITY));
        assert_eq!(to_nearest_half(-power_of_two(-26)).to_bits(), 0);
    }

    #[test]
    fn denormal_numbers_have_the_least_exponent_of_their_type() {
        assert_eq!((exponent(F16, 1.5), exponent(F16, 5.960_464_5e-8)), (0, -14));
        assert_eq!((exponent(BF16, 5.960_464_5e-8), exponent(BF16, f32::from_bits(1))), (-24, -126));
    }
}
