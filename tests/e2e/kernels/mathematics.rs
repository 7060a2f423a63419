//! CUDA's mathematical functions on the virtual GPU, against references of 113 bits (`mathematics/`): no error is
//! larger than CUDA promises. The page of the book that lists them is compared with the programs.
//!
//! Trap: measured errors depend on the C library and the inputs, so the page's measured numbers are only written
//! (`EAGER_BLESS=1`), never compared. `EAGER_TEST_INPUTS` sets how many inputs each function gets, `EAGER_TEST_SEED`
//! which.

use eager_tests::{has_toolchain, number, root, run, run_ok, text, tool};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/reference/mathematics.md";
const SECONDS_MAX: &str = "900";

/// A line of the output of a program of `mathematics/`.
struct Row {
    name: String,
    promise: String,
    units: String,
    absolute: String,
    inputs: String,
    /// An input that breaks the promise.
    broken: String,
}

fn row(line: &str) -> Row {
    let mut fields = line.split('\t').map(str::to_owned);
    let mut next = || fields.next().unwrap_or_else(|| panic!("a field is missing: {line}"));
    Row { name: next(), promise: next(), units: next(), absolute: next(), inputs: next(), broken: next() }
}

/// Compiles and runs one program; returns its rows.
fn measure(source: &str, folder: &Path) -> Vec<Row> {
    let (seed, inputs) = (number("EAGER_TEST_SEED", 1), number("EAGER_TEST_INPUTS", 2000));
    let program = folder.join(source);
    let path = root().join("tests/mathematics").join(format!("{source}.cu"));
    let mut compile = Command::new(tool("eagercc"));
    compile.args(["-O1", "-std=c++17", "-ffp-contract=off", "--eager-no-instrument"]);
    run_ok(compile.arg(path).arg("-o").arg(&program));
    let mut command = Command::new("timeout");
    command.arg(SECONDS_MAX).arg(tool("eager")).args(["run", "--plain", "--time-scale", "0", "--"]);
    command.arg(&program).args(["--count", &inputs.to_string(), "--seed", &seed.to_string()]);
    let ran = run(&mut command);
    let printed = String::from_utf8_lossy(&ran.stdout);
    let rows: Vec<Row> = printed.lines().map(row).collect();
    let broken: Vec<String> = rows
        .iter()
        .filter(|row| !row.broken.is_empty())
        .map(|row| {
            format!(
                "{}: {} units, {} off, promised {}: {}",
                row.name, row.units, row.absolute, row.promise, row.broken
            )
        })
        .collect();
    assert!(
        broken.is_empty(),
        "{source}.cu with EAGER_TEST_SEED={seed} EAGER_TEST_INPUTS={inputs}:\n{}",
        broken.join("\n")
    );
    assert!(ran.status.success() && !rows.is_empty(), "{source}: {}\n{}", ran.status, text(&ran));
    rows
}

/// Shortens a promise: `ulps(2)` becomes 2, `within(5e-12)` an absolute error; one that depends on the arguments stays
/// as it is.
fn words(promise: &str) -> String {
    let plain = |name: &str| {
        let inner = promise.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?;
        (!inner.contains(['(', ')'])).then_some(inner)
    };
    match (plain("ulps"), plain("within")) {
        (Some(units), _) => units.to_owned(),
        (_, Some(absolute)) => format!("{absolute} absolute"),
        _ => format!("`{}`", promise.replace('|', "\\|")),
    }
}

fn table(title: &str, rows: &[Row]) -> String {
    let mut table = format!(
        "\n## {title}\n\n| Function | promised | most units seen | absolute | inputs |\n|---|---|---|---|---|\n"
    );
    for row in rows {
        let absolute = if row.absolute == "0" { "" } else { &row.absolute };
        let promise = words(&row.promise);
        let _ =
            writeln!(table, "| `{}` | {promise} | {} | {absolute} | {} |", row.name, row.units, row.inputs);
    }
    table
}

/// Returns the promise by function, from the rows of a page.
fn promises(page: &str) -> BTreeMap<&str, &str> {
    let cells = |line: &'_ str| line.starts_with("| `");
    page.lines()
        .filter(|line| cells(line))
        .filter_map(|line| {
            let mut cells = line.split(" | ");
            Some((cells.next()?.trim_start_matches("| "), cells.next()?))
        })
        .collect()
}

const HEAD: &str = "# Mathematical functions

How far the virtual GPU's results are from the right ones, in steps from the right result rounded to nearest, as CUDA's own
tables count. *Promised* is what the CUDA Programming Guide states for a GPU (CUDA 13, \"Mathematical Functions\"; for the
functions with a condition, as it is checked); no function may exceed it. *Seen* was measured with glibc 2.36 on the
inputs of the last column: special values, any bits, and numbers from where the function does something; a result differs
with the C library. References have 113 bits (the C library's `_Float128` functions). Where the promise is an absolute error,
*absolute* is the largest seen.

`near(x, u, a)` is u units for |x| < 8 and an absolute error of a beyond, `outside(x, a, b, u)` u units outside a..b,
`within(a)` an absolute error, `nothing()` no promise.

`hexp`, `hexp2`, `hexp10`, `hlog` and `hlog10` of `__half` are the exceptions: CUDA promises 0 there.

The fast variants (`__expf`, `-use_fast_math`) are the accurate functions here. `EAGER_TEST_INPUTS=100000 cargo test
--locked --workspace --test e2e kernels::mathematics` measures again.

<!-- written by the test `mathematics`, EAGER_BLESS=1 -->
";

#[test]
fn no_function_is_further_off_than_cuda_promises() {
    if !has_toolchain("no_function_is_further_off_than_cuda_promises") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let titles =
        [("single", "Single precision"), ("double", "Double precision"), ("narrow", "16 bits, every input")];
    let tables: String =
        titles.iter().map(|(source, title)| table(title, &measure(source, folder.path()))).collect();
    let page = format!("{HEAD}{tables}");
    let path = root().join(PAGE);
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&path, &page).expect("the page");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        promises(&found) == promises(&page) && found.starts_with(HEAD),
        "{PAGE} lists other functions or promises than tests/mathematics; write it again with\n  EAGER_BLESS=1 \
         EAGER_TEST_INPUTS=100000 cargo test --locked --workspace --test e2e kernels::mathematics"
    );
}

/// Code for a GPU cannot run here, so its text is checked: nvcc's roots are correctly rounded, clang's by default are
/// not.
#[test]
fn roots_on_a_gpu_are_exact_unless_a_program_asks_otherwise() {
    if !has_toolchain("roots_on_a_gpu_are_exact_unless_a_program_asks_otherwise") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let (source, ptx) = (folder.path().join("root.cu"), folder.path().join("root.ptx"));
    std::fs::write(&source, "__global__ void root(float *x) { *x = sqrtf(*x); }\n").expect("write");
    let (exact, fast) = ("sqrt.rn.f32", "sqrt.approx.f32");
    let ways: [(&[&str], &str); 6] = [
        (&["--cuda-device-only", "-S", "-O2"], exact),
        (&["--cuda-device-only", "-S", "-O0"], exact),
        (&["--nvcc", "-ptx"], exact),
        (&["--nvcc", "-ptx", "-prec-sqrt=true"], exact),
        (&["--nvcc", "-ptx", "-prec-sqrt=false"], fast),
        (&["--nvcc", "-ptx", "-use_fast_math"], "sqrt.approx.ftz.f32"),
    ];
    for (words, expected) in ways {
        run_ok(Command::new(tool("eagercc")).args(words).arg(&source).arg("-o").arg(&ptx));
        let code = std::fs::read_to_string(&ptx).expect("PTX");
        let found = code.split_whitespace().find(|word| word.starts_with("sqrt."));
        assert_eq!(found, Some(expected), "{words:?}");
    }
}
