//! Tests kernels made of random statements: values that are left unchanged by some threads of some warps, between
//! operations of the warp of every kind. Their results are those of coroutines bit for bit.
//!
//! Trap: all threads that a mask names must come to its operation, so operations are only under conditions that a whole
//! warp has in common, or have the mask of those that came.

mod common;

use std::fmt::Write;

use common::{Program, Run, arg, toolchain};
use eager_kernels::{KernelMode, Mode, Options};

const KERNELS: u64 = 32;
const BLOCKS: [[u32; 3]; 5] = [[64, 1, 1], [50, 1, 1], [256, 1, 1], [96, 2, 1], [12, 5, 1]];
/// Where comparisons of the thread's index change their result: nowhere, within a warp, between two, within the third.
const BOUNDS: [i32; 5] = [0, 5, 32, 70, 999];
const OWN: usize = 4;

/// Numbers by the seed (xorshift64*: S. Vigna, "An experimental exploration of Marsaglia's xorshift generators").
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % count
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// Conditions of which a warp's threads may hold some.
const CONDITIONS: [&str; 9] =
    ["x < bound", "x >= bound", "x < 8", "x == 33", "lane < 8", "lane & 4", "v & 1", "w > u", "x >> 5 == 0"];
/// Conditions that the threads of a warp have in common.
const IN_COMMON: [&str; 4] = ["t >> 5 == 0", "t < 32", "warp != 1", "bound > 6"];
/// Masks that name all threads of the warp that there are; what `m` is, is known only as the kernel runs.
const MASKS: [&str; 3] = ["~0u", "live", "m"];
const EXCHANGES: [&str; 6] = [
    "__shfl_down_sync(MASK, A, 4)",
    "__shfl_xor_sync(MASK, A, 1)",
    "__shfl_up_sync(MASK, A, bound & 3)",
    "__shfl_sync(MASK, A, lane * 5 + 3)",
    "__shfl_sync(MASK, A, B & 31)",
    "__shfl_down_sync(MASK, A, 2, 8)",
];
const VOTES: [&str; 6] = [
    "__ballot_sync(MASK, A & 4)",
    "__any_sync(MASK, A > B)",
    "__all_sync(MASK, A & 7)",
    "__reduce_add_sync(MASK, A)",
    "__match_any_sync(MASK, A & 3)",
    "__match_any_sync(MASK, (long long)(A & 1) << 40 | (B & 2))",
];

fn operation(random: &mut Random) -> String {
    let (a, b, to) = (random.of(&["v", "w", "u"]), random.of(&["v", "w", "u"]), random.of(&["v", "w", "u"]));
    let text = match random.below(8) {
        0 => "q ^= __shfl_xor_sync(MASK, q, 2);".to_owned(),
        1 => format!("{{ int p; {to} += __match_all_sync(MASK, A & 256, &p); {to} ^= p; }}"),
        2..=4 => format!("{to} += {};", random.of(&VOTES)),
        _ => format!("{to} ^= {};", random.of(&EXCHANGES)),
    };
    text.replace("MASK", random.of(&MASKS)).replace('A', a).replace('B', b)
}

fn change(random: &mut Random) -> &'static str {
    random.of(&[
        "v += w * 3 + s[lane];",
        "w = v ^ u;",
        "u = s[x & 31] - w;",
        "q += (long long)v << 20;",
        "c += v;",
        "w = c;",
        "u = (int)(q >> 7);",
        "s[t & 255] += u & 15;",
    ])
}

fn statement(random: &mut Random) -> String {
    let condition = random.of(&CONDITIONS);
    match random.below(12) {
        0 => format!("if ({condition}) {{ {} }} else {{ {} }}", change(random), change(random)),
        1 => format!("if ({}) {{ {} {} }}", random.of(&IN_COMMON), operation(random), change(random)),
        2 => "__syncthreads();".to_owned(),
        3 => format!("if ({condition}) v += __shfl_xor_sync(__activemask(), w, 1);"),
        4 => format!("if (v % 9 == 8 && {condition}) {{ o[0] = w; return; }}"),
        5 => change(random).to_owned(),
        6 | 7 => format!("if ({condition}) {{ {} }}", change(random)),
        _ => operation(random),
    }
}

fn kernel(seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut text = format!(
        "extern \"C\" __global__ void k{seed}_(const int *in, int *out, int bound, unsigned m) {{
  __shared__ int s[256];
  int n = blockDim.x * blockDim.y * blockDim.z, x = threadIdx.x;
  int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + x, lane = t & 31, warp = t / 32;
  int left = n - (t & ~31); unsigned live = left < 32 ? (1u << left) - 1 : ~0u;
  int v = in[t], w = in[t] * 5, u = t; long long q = v; unsigned char c = x;
  int *o = out + t * {OWN}; (void)warp; (void)live;
  s[t & 255] = v; if (t < 32) s[t + 224] = v; __syncthreads();\n"
    );
    for _ in 0..random.below(8) + 4 {
        let _ = writeln!(text, "  {}", statement(&mut random));
    }
    text + "  o[0] = v; o[1] = w; o[2] = u + c; o[3] = (int)(q ^ q >> 32);\n}\n"
}

fn results(program: &Program, name: &str, block: [u32; 3], bound: i32) -> Vec<i32> {
    let threads = (block[0] * block[1] * block[2]) as usize;
    let input: Vec<i32> = (0..threads as i32).map(|i| i * 37 % 101).collect();
    let mut out = vec![-7; threads * OWN];
    let (from, to, mask) = (input.as_ptr(), out.as_mut_ptr(), u32::MAX);
    let run = Run { block, ..Run::new(1, 1) };
    run.launch(program.kernel(name), &[arg(&from), arg(&to), arg(&bound), arg(&mask)])
        .unwrap_or_else(|failure| panic!("{name} {block:?}: {failure:?}"));
    out
}

#[test]
fn kernels_of_random_statements_do_what_coroutines_do() {
    let Some(cuda) = toolchain() else { return };
    let kernels: Vec<String> = (0..KERNELS).map(kernel).collect();
    let build = |mode| Program::build(&cuda, &kernels.concat(), &Options { mode, ..Options::default() });
    let oracle = build(Mode::Coroutine);
    for mode in [Mode::Auto, Mode::LanesApart] {
        let program = build(mode);
        let is_warp = |name: &str| {
            program.converted.report.kernels.iter().any(|k| k.name == name && k.mode == KernelMode::Warp)
        };
        let names: Vec<String> = (0..KERNELS).map(|seed| format!("k{seed}_")).collect();
        let warps = names.iter().filter(|name| is_warp(name)).count();
        assert!(warps > names.len() / 2, "{warps} kernels run warp by warp");
        for (name, code) in names.iter().zip(&kernels) {
            for (block, bound) in BLOCKS.into_iter().flat_map(|block| BOUNDS.map(|bound| (block, bound))) {
                let [found, expected] = [&program, &oracle].map(|p| results(p, name, block, bound));
                let wrong = found.iter().zip(&expected).position(|(a, b)| a != b);
                let at = wrong.map(|at| (at / OWN, at % OWN, found[at], expected[at]));
                assert_eq!(
                    at, None,
                    "{mode:?} {block:?} bound {bound}: thread, number, found, expected, of seed {name}\n{code}"
                );
            }
        }
    }
}
