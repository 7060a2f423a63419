//! Tests that every operation of the warp gives CUDA's results, in each form of a kernel: results are compared with a
//! plain loop over lanes, and so bit for bit with each other.
//!
//! Operations use distances that are constants, that are common to the warp, and that differ by lane, in segments of
//! all widths, for masks of all lanes and of some, in blocks of whole warps, of partial ones, and of two and three
//! dimensions. A lane whose source takes no part keeps its own value in all forms here; CUDA leaves it open.

mod common;

use std::fmt::Write;

use common::{Program, Run, arg, toolchain};
use eager_kernels::{KernelMode, Mode, Options};

const BLOCKS: [[u32; 3]; 7] =
    [[32, 1, 1], [33, 1, 1], [64, 1, 1], [255, 1, 1], [8, 8, 1], [5, 7, 3], [64, 2, 1]];
const GRID: u32 = 2;
const WIDTHS: [u32; 4] = [4, 8, 16, 32];
/// Name, mask in the program's source, and the mask.
const MASKS: [(&str, &str, u32); 4] = [
    ("all", "0xffffffffu", u32::MAX),
    ("low", "0xffffu", 0xffff),
    ("odd", "0xaaaaaaaau", 0xaaaa_aaaa),
    ("active", "__activemask()", u32::MAX),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Up,
    Down,
    Xor,
    Index,
}

#[derive(Clone, Copy, Debug)]
enum Distance {
    Known,
    Common,
    Own,
}

/// Expected output of a lane, from the values of the lanes that take part, their mask and the lane.
type Expected = dyn Fn(&[i32], u32, u32) -> Vec<u32>;

/// A kernel and its expected output.
struct Case {
    name: String,
    code: String,
    mask: (&'static str, u32),
    /// Values written by each thread.
    results: usize,
    expected: Box<Expected>,
}

fn shuffle(way: Way, values: &[i32], members: u32, lane: u32, distance: u32, width: u32) -> u32 {
    let start = lane / width * width;
    let source = match way {
        Way::Up => lane.checked_sub(distance).filter(|&source| source >= start),
        Way::Down => Some(lane + distance).filter(|&source| source < start + width),
        // PTX: up to the segment's end, regardless of the segment that the source is in.
        Way::Xor => Some(lane ^ distance).filter(|&source| source < start + width),
        Way::Index => Some(start + distance % width),
    };
    let source = source.filter(|&source| members >> source & 1 == 1).unwrap_or(lane);
    values[source as usize].cast_unsigned()
}

fn distance_of(kind: Distance, lane: u32) -> u32 {
    match kind {
        Distance::Known | Distance::Common => 3,
        Distance::Own => lane * 5 % 7,
    }
}

fn shuffles() -> Vec<Case> {
    let mut cases = Vec::new();
    for (way, call) in [
        (Way::Up, "__shfl_up_sync"),
        (Way::Down, "__shfl_down_sync"),
        (Way::Xor, "__shfl_xor_sync"),
        (Way::Index, "__shfl_sync"),
    ] {
        for (distance, text) in
            [(Distance::Known, "3"), (Distance::Common, "in[-1]"), (Distance::Own, "(lane * 5 % 7)")]
        {
            for (name, mask, bits) in MASKS {
                let code = WIDTHS.iter().fold(String::new(), |mut code, width| {
                    let _ = write!(code, "o[k++] = {call}(mask, v, {text}, {width}); ");
                    code
                });
                let code = code
                    + &format!(
                        "o[k++] = __float_as_int({call}(mask, (float)v, {text}, 32)); \
                         {{ double d = {call}(mask, v * 1.5, {text}, 8); o[k++] = (int)(d * 2); }}"
                    );
                cases.push(Case {
                    name: format!("shfl_{way:?}_{distance:?}_{name}"),
                    code,
                    mask: (mask, bits),
                    results: WIDTHS.len() + 2,
                    expected: Box::new(move |values, members, lane| {
                        let of =
                            |width| shuffle(way, values, members, lane, distance_of(distance, lane), width);
                        let mut found: Vec<u32> = WIDTHS.iter().map(|&width| of(width)).collect();
                        found.push((of(32).cast_signed() as f32).to_bits());
                        found.push((of(8).cast_signed() * 3).cast_unsigned());
                        found
                    }),
                });
            }
        }
    }
    cases
}

fn of(members: u32) -> impl Iterator<Item = usize> + Clone {
    (0..32usize).filter(move |lane| members >> lane & 1 == 1)
}

fn votes_and_matches() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, mask, bits) in MASKS {
        let mut add = |what: &str, results, code: &str, expected| {
            let code = code.to_owned();
            cases.push(Case { name: format!("{what}_{name}"), code, mask: (mask, bits), results, expected });
        };
        add(
            "votes",
            7,
            "o[k++] = __ballot_sync(mask, v > 40); o[k++] = __all_sync(mask, v > 40); o[k++] = __any_sync(mask, v > 40); \
             o[k++] = __uni_sync(mask, v > 40); o[k++] = __all_sync(mask, v < 1000); o[k++] = __uni_sync(mask, v > 1000); \
             o[k++] = __any_sync(mask, v > 1000);",
            Box::new(|values: &[i32], members, _| {
                let votes = of(members).filter(|&l| values[l] > 40).fold(0, |m, l| m | 1 << l);
                vec![
                    votes,
                    (votes == members).into(),
                    (votes != 0).into(),
                    (votes == 0 || votes == members).into(),
                    1,
                    1,
                    0,
                ]
            }),
        );
        add(
            "match",
            8,
            "int p; o[k++] = __match_any_sync(mask, v % 3); o[k++] = __match_all_sync(mask, v % 3, &p); o[k++] = p; \
             o[k++] = __match_all_sync(mask, v > -1, &p); o[k++] = p; \
             o[k++] = __match_any_sync(mask, (v % 3LL) << 33); \
             o[k++] = __match_all_sync(mask, (v % 2LL) << 40, &p); o[k++] = p;",
            Box::new(|values: &[i32], members, lane| {
                let same = |by: i32| {
                    let own = values[lane as usize] % by;
                    of(members).filter(|&l| values[l] % by == own).fold(0u32, |m, l| m | 1 << l)
                };
                let all = |by: i32| {
                    let all = same(by) == members;
                    [if all { members } else { 0 }, all.into()]
                };
                let ([a, b], [c, d]) = (all(3), all(2));
                vec![same(3), a, b, members, 1, same(3), c, d]
            }),
        );
    }
    cases
}

fn reductions_and_barriers() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, mask, bits) in MASKS {
        let mut add = |what: &str, results, code: &str, expected| {
            let code = code.to_owned();
            cases.push(Case { name: format!("{what}_{name}"), code, mask: (mask, bits), results, expected });
        };
        add(
            "redux",
            8,
            "o[k++] = __reduce_add_sync(mask, v); o[k++] = __reduce_min_sync(mask, v - 50); \
             o[k++] = __reduce_max_sync(mask, v - 50); o[k++] = __reduce_min_sync(mask, (unsigned)(v - 50)); \
             o[k++] = __reduce_max_sync(mask, (unsigned)(v - 50)); o[k++] = __reduce_and_sync(mask, (unsigned)v | 8); \
             o[k++] = __reduce_or_sync(mask, (unsigned)v); o[k++] = __reduce_xor_sync(mask, (unsigned)v);",
            Box::new(|values: &[i32], members, _| {
                let v = of(members).map(|l| values[l]);
                let u = v.clone().map(|v| (v - 50) as u32);
                vec![
                    v.clone().sum::<i32>() as u32,
                    (v.clone().min().unwrap() - 50) as u32,
                    (v.clone().max().unwrap() - 50) as u32,
                    u.clone().min().unwrap(),
                    u.max().unwrap(),
                    v.clone().fold(u32::MAX, |a, v| a & (v as u32 | 8)),
                    v.clone().fold(0, |a, v| a | v as u32),
                    v.fold(0, |a, v| a ^ v as u32),
                ]
            }),
        );
        add(
            "sync",
            4,
            "__shared__ volatile int s[1024]; int at = base + lane; s[at] = v; __syncwarp(mask); \
             o[k++] = s[base + __ffs(mask & live) - 1]; __syncwarp(mask); s[at] = v + 1; __syncwarp(mask); \
             o[k++] = s[base + 31 - __clz(mask & live)]; o[k++] = __activemask(); __syncwarp(mask); o[k++] = __activemask();",
            Box::new(|values: &[i32], members, _| {
                let [first, last] = [members.trailing_zeros(), 31 - members.leading_zeros()];
                let [first, last] = [first, last].map(|lane| values[lane as usize].cast_unsigned());
                vec![first, last + 1, members, members]
            }),
        );
    }
    cases
}

fn source(cases: &[Case]) -> String {
    let mut text = String::from(
        "#define LINEAR ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x)\n",
    );
    for Case { name, code, mask: (mask, bits), results, .. } in cases {
        let _ = writeln!(
            text,
            "extern \"C\" __global__ void {name}(const int *in, int *out) {{
  int n = blockDim.x * blockDim.y * blockDim.z, t = LINEAR, lane = t & 31, base = t & ~31;
  unsigned live = n - base < 32 ? (1u << (n - base)) - 1 : ~0u;
  int v = in[blockIdx.x * n + t], k = 0, *o = out + (blockIdx.x * n + t) * {results};
  if ({bits}u >> lane & 1) {{ unsigned mask = {mask}; (void)live; {code} }}
}}"
        );
    }
    text
}

/// Values that all threads write in one launch.
fn written(program: &Program, case: &Case, block: [u32; 3], input: &[i32]) -> Vec<i32> {
    let threads = (GRID * block[0] * block[1] * block[2]) as usize;
    let mut out = vec![-7; threads * case.results];
    let (from, to) = (input[1..].as_ptr(), out.as_mut_ptr());
    let run = Run { block, ..Run::new(GRID, 1) };
    run.launch(program.kernel(&case.name), &[arg(&from), arg(&to)])
        .unwrap_or_else(|failure| panic!("{}: {failure:?}", case.name));
    out
}

fn compare(cases: &[Case]) {
    let Some(cuda) = toolchain() else { return };
    let programs = [Mode::Auto, Mode::LanesApart, Mode::Coroutine]
        .map(|mode| (mode, Program::build(&cuda, &source(cases), &Options { mode, ..Options::default() })));
    let mode = |program: &Program, name: &str| {
        let kernels = &program.converted.report.kernels;
        kernels.iter().find(|kernel| kernel.name == name).map(|kernel| kernel.mode)
    };
    // The common distance, then values.
    let input: Vec<i32> = std::iter::once(3).chain((0..).map(|i| i * 37 % 101)).take(4096).collect();
    for case in cases {
        assert_eq!(
            mode(&programs[0].1, &case.name),
            Some(KernelMode::Warp),
            "{}: {:?}",
            case.name,
            programs[0].1.converted.report.notes
        );
        assert_eq!(mode(&programs[2].1, &case.name), Some(KernelMode::Coroutine), "{}", case.name);
        for block in BLOCKS {
            let n = (block[0] * block[1] * block[2]) as usize;
            let mut expected = vec![-7; GRID as usize * n * case.results];
            for thread in 0..GRID as usize * n {
                let (first, lane) = (thread / n * n + thread % n / 32 * 32, thread % n % 32);
                let live = (n - thread % n / 32 * 32).min(32);
                let mut values: Vec<i32> = input[1 + first..][..live].to_vec();
                values.resize(32, 0);
                let members = case.mask.1 & (u32::MAX >> (32 - live));
                if members >> lane & 1 == 1 {
                    let found = (case.expected)(&values, members, lane as u32);
                    for (place, value) in expected[thread * case.results..].iter_mut().zip(found) {
                        *place = value.cast_signed();
                    }
                }
            }
            for (mode, program) in &programs {
                let found = written(program, case, block, &input);
                let wrong = found.iter().zip(&expected).position(|(a, b)| a != b);
                let at = wrong.map(|at| (at / case.results, at % case.results, found[at], expected[at]));
                assert_eq!(at, None, "{} {mode:?} {block:?}: thread, result, found, expected", case.name);
            }
        }
    }
}

#[test]
fn shuffles_give_the_values_that_a_loop_over_lanes_does() {
    compare(&shuffles());
}

#[test]
fn votes_matches_reductions_and_barriers_do_too() {
    compare(&votes_and_matches());
    compare(&reductions_and_barriers());
}
