//! Compares sums of floating-point numbers on tensor cores with those of an H100 (`h100_sums.txt`), bit for bit.
//!
//! All rows of A, columns of B and elements of C are equal, so the assignment of elements to lanes does not matter
//! here; the suite `tests/conformance/tensor/` covers that.

use eager_exec::abi::{TENSOR_WORDS, tensor_form as form};
use eager_exec::tensor::{Form, multiply};

const MEASURED: &str = include_str!("h100_sums.txt");

fn element(name: &str) -> u32 {
    let names = [
        ("f16", form::F16),
        ("bf16", form::BF16),
        ("tf32", form::TF32),
        ("f32", form::F32),
        ("e4m3", form::E4M3),
        ("e5m2", form::E5M2),
    ];
    names.iter().find(|(known, _)| *known == name).expect("a type").1
}

fn bits(hex: &str) -> u32 {
    u32::from_str_radix(hex, 16).expect("a number")
}

fn words(hex: &str) -> Vec<u32> {
    hex.as_bytes().chunks(8).map(|word| bits(std::str::from_utf8(word).expect("text"))).collect()
}

/// A lane's registers of a matrix in which every row (or column: the outer side) consists of these words. (PTX ISA 9.0,
/// "Matrix Fragments for mma.m16n8k16" and "mma.m8n8k4".)
fn registers(words: &[u32], outer: u32, quads: bool, lane: usize) -> Vec<u32> {
    if quads {
        return words.to_vec();
    }
    let rows = outer as usize / 8;
    (0..words.len() / 4 * rows).map(|register| words[lane % 4 + register / rows * 4]).collect()
}

/// Returns the computed result of a line, and the one that the GPU gave.
fn sum(line: &str) -> (u32, u32) {
    let fields: Vec<&str> = line.split(' ').collect();
    let [m, n, k] = [0, 1, 2].map(|at| fields[at].parse::<u32>().expect("a size"));
    let [a, b, c, d] = [3, 4, 5, 6].map(|at| element(fields[at]));
    let (a_words, b_words, start) = (words(fields[7]), words(fields[8]), bits(fields[9]));
    let quads = (m, n, k) == (8, 8, 4);
    let sizes = m.ilog2() << form::M_SHIFT | n.ilog2() << form::N_SHIFT | k.ilog2() << form::K_SHIFT;

    let elements = a << form::A_SHIFT | b << form::B_SHIFT | c << form::C_SHIFT | d << form::D_SHIFT;
    let form = Form::from_bits(sizes, elements).expect("a form that is known");

    let width = |element: u32| if element == form::F16 { 2 } else { 1 };
    let sums = (if quads { 4 * m * n } else { m * n }) as usize / 32;
    let mut lanes = [[0; TENSOR_WORDS]; 32];
    for (lane, record) in lanes.iter_mut().enumerate() {
        let mut all = registers(&a_words, m, quads, lane);
        all.extend(registers(&b_words, n, quads, lane));
        let start = if c == form::F16 { start | start << 16 } else { start };
        all.extend(vec![start; sums / width(c)]);
        record[..all.len()].copy_from_slice(&all);
    }
    multiply(&form, &mut lanes);
    let first = if d == form::F16 { lanes[0][0] & 0xffff } else { lanes[0][0] };
    let held = if d == form::F16 { first | first << 16 } else { first };
    let equal = |record: &[u32; TENSOR_WORDS]| record[..sums / width(d)].iter().all(|&word| word == held);
    assert!(lanes.iter().all(equal), "results differ: {line}");
    (first, bits(fields[10]))
}

#[test]
fn sums_are_those_of_an_h100() {
    let lines: Vec<&str> = MEASURED.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() > 400);
    let wrong: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            let (got, measured) = sum(line);
            (got != measured).then(|| format!("{got:#x}, not {measured:#x}: {line}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}
