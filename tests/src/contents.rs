//! Generates random CUDA programs whose *contents* matter: a function's output depends on every earlier copy, kernel,
//! memset and free, so two runs of a program can be compared.
//!
//! Each function allocates its buffers, uses them in random order and frees them. Sizes are constants and pointers stay
//! in locals, so that the pass can prove where each buffer dies. Trap: a program must not read memory that it has not
//! written, or plain CUDA itself prints whatever is in memory; the generator therefore tracks which buffers have
//! contents.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write;

/// Most numbers in a buffer: about three of the pieces in which the stand-in runtime maps memory.
const LENGTH_MAX: u32 = 40_000;

/// Start of each file: kernels and helpers that every function may use.
const PRELUDE: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
__global__ void mix(unsigned *to, const unsigned *from, unsigned n, unsigned m, unsigned k) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = to[i] * 1664525u + from[i % m] + k;
}
__global__ void make(unsigned *to, unsigned n, unsigned k) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = i * 2654435761u + k;
}
static unsigned host[40000];
static void must(cudaError_t code) { if (code != cudaSuccess) { printf("error %d\n", int(code)); exit(1); } }
static void fill_host(unsigned n, unsigned k) { for (unsigned i = 0; i < n; ++i) host[i] = i ^ k; }
static unsigned sum_host(unsigned n) { unsigned sum = 0; for (unsigned i = 0; i < n; ++i) sum = sum * 31 + host[i]; return sum; }
"#;

struct Buffer {
    length: u32,
    is_written: bool,
    is_freed: bool,
}

/// Returns a file of `count` functions and a `main` that calls each and prints its sums.
#[must_use]
pub fn file(seed: u64, count: usize) -> String {
    let mut text = format!("// Generated: seed {seed}, {count} programs.{PRELUDE}");
    for index in 0..count {
        text.push_str(&function(seed, index));
    }
    text.push_str("int main() {\n");
    for index in 0..count {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  f{index}();");
    }
    text.push_str("  return 0;\n}\n");
    text
}

fn function(seed: u64, index: usize) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(index as u64));
    let mut buffers: Vec<Buffer> = (0..random.random_range(2..6))
        .map(|_| Buffer { length: random.random_range(1..LENGTH_MAX), is_written: false, is_freed: false })
        .collect();
    let mut text = format!("static void f{index}() {{\n");
    let names: Vec<String> = (0..buffers.len()).map(|buffer| format!("*b{buffer} = nullptr")).collect();
    let _ = writeln!(text, "  unsigned {};", names.join(", "));
    for (number, buffer) in buffers.iter().enumerate() {
        let _ = writeln!(text, "  must(cudaMalloc(&b{number}, {}));", 4 * buffer.length);
    }
    for _ in 0..random.random_range(4..20) {
        let step = step(&mut random, index, &mut buffers);
        let _ = writeln!(text, "  {step}");
    }
    for (number, buffer) in buffers.iter().enumerate() {
        if buffer.is_written && !buffer.is_freed && random.random_bool(0.7) {
            let _ = writeln!(text, "  {}", print(index, number, buffer.length));
        }
    }
    for number in (0..buffers.len()).filter(|&number| !buffers[number].is_freed) {
        let _ = writeln!(text, "  must(cudaFree(b{number}));");
    }
    text.push_str("}\n");
    text
}

fn print(index: usize, number: usize, length: u32) -> String {
    format!(
        "must(cudaMemcpy(host, b{number}, {}, cudaMemcpyDeviceToHost)); printf(\"f{index} b{number} %u\\n\", \
         sum_host({length}));",
        4 * length
    )
}

fn step(random: &mut ChaCha8Rng, index: usize, buffers: &mut [Buffer]) -> String {
    let there: Vec<usize> = (0..buffers.len()).filter(|&number| !buffers[number].is_freed).collect();
    let written: Vec<usize> = there.iter().copied().filter(|&number| buffers[number].is_written).collect();
    let Some(&to) = there.get(random.random_range(0..there.len().max(1))) else { return ";".into() };
    let (length, key): (u32, u32) = (buffers[to].length, random.random());
    let blocks = length.div_ceil(128);
    let from = if written.is_empty() { None } else { Some(written[random.random_range(0..written.len())]) };
    match (random.random_range(0..12), from) {
        (0..=3, _) => {
            buffers[to].is_written = true;
            // The program overwrites the source right after the copy: a copy that is delayed must not see the change.
            format!(
                "fill_host({length}, {key}u); must(cudaMemcpy(b{to}, host, {}, cudaMemcpyHostToDevice)); \
                 fill_host({length}, 0);",
                4 * length
            )
        }
        (4, _) => {
            buffers[to].is_written = true;
            format!("make<<<{blocks}, 128>>>(b{to}, {length}, {key}u);")
        }
        (5, _) => {
            buffers[to].is_written = true;
            format!("must(cudaMemset(b{to}, {}, {}));", key % 256, 4 * length)
        }
        (6..=8, Some(from)) if buffers[to].is_written => format!(
            "mix<<<{blocks}, 128>>>(b{to}, b{from}, {length}, {}, {key}u);",
            if from == to { length } else { buffers[from].length }
        ),
        (9, Some(from)) if from != to && buffers[from].length >= length => {
            buffers[to].is_written = true;
            format!("must(cudaMemcpy(b{to}, b{from}, {}, cudaMemcpyDeviceToDevice));", 4 * length)
        }
        (10, Some(from)) => print(index, from, buffers[from].length),
        (11, _) if there.len() > 1 => {
            buffers[to].is_freed = true;
            format!("must(cudaFree(b{to})); b{to} = nullptr;")
        }
        _ => format!("fill_host({length}, {key}u);"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_text_and_two_seeds_are_two() {
        assert_eq!(file(1, 3), file(1, 3));
        assert_ne!(file(1, 3), file(2, 3));
    }
}
