//! Programs that are each large in one way: the pass bounds its work and compiles them, with less precision if need be.
//!
//! Trap: a slow case was once exponential and would take hours; the watchdog ends it and measures nothing.

use eager_tests::{has_toolchain, root, run, text, tool};
use std::fmt::Write;
use std::process::Command;

const HANG_SECONDS: &str = "300";
const TABLE: &str = "Function functions[] = {{\"f0\", f0}, {nullptr, nullptr}};\n";

fn compiles(name: &str, body: &str) {
    if !has_toolchain(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let source = folder.path().join("large.cu");
    std::fs::write(&source, format!("#include \"gpu.h\"\n{body}{TABLE}")).expect("write large.cu");
    let output = run(Command::new("timeout")
        .arg(HANG_SECONDS)
        .args([
            "clang++-22",
            "-x",
            "cuda",
            "--cuda-host-only",
            "-nocudainc",
            "-nocudalib",
            "--cuda-gpu-arch=sm_90",
        ])
        .args(["-Wno-unknown-cuda-version", "-c", "-O0", "-o", "/dev/null"])
        .arg(format!("--cuda-path={}", root().join(".toolchain/cuda-13.0").display()))
        .arg(format!("-fpass-plugin={}", tool("libeager_pass.so").display()))
        .arg("-I")
        .arg(root().join("tests/oracle"))
        .arg(&source));
    assert!(output.status.success(), "{name}: {}: {}", output.status, text(&output));
}

#[test]
fn functions_that_all_call_each_other() {
    const COUNT: usize = 7;
    let mut body = String::new();
    for i in 0..COUNT {
        let _ = writeln!(body, "static void w{i}(int **p, unsigned long n);");
    }
    for i in 0..COUNT {
        let _ = writeln!(
            body,
            "static void w{i}(int **p, unsigned long n) {{\n  if (!n) return;\n  cudaMalloc(&p[{i}], n);\n  one<<<1, 32>>>(p[{i}]);"
        );
        for j in 0..8 {
            let _ = writeln!(body, "  if (n >> {j} & 1) w{}(p, n - 1);", (i * 7 + j * 13 + 1) % COUNT);
        }
        let _ = writeln!(body, "  cudaFree(p[{i}]);\n}}");
    }
    let _ = writeln!(body, "void f0(unsigned long bits, unsigned long n) {{ int *p[{COUNT}]; w0(p, n); }}");
    compiles("mutual recursion", &body);
}

#[test]
fn calls_that_double_at_each_level() {
    let mut body = String::from(
        "static void c0(int **p, unsigned long n) { cudaMalloc(p, n); one<<<1, 32>>>(*p); cudaFree(*p); }\n",
    );
    for i in 1..40 {
        let (to, from) = (i, i - 1);
        let _ = writeln!(
            body,
            "static void c{to}(int **p, unsigned long n) {{ c{from}(p, n + 1); c{from}(p, n + 2); }}"
        );
    }
    body += "void f0(unsigned long bits, unsigned long n) { int *p = nullptr; c39(&p, n); }\n";
    compiles("doubling calls", &body);
}

#[test]
fn many_buffers_on_many_paths() {
    const COUNT: usize = 200;
    let mut body = String::from("void f0(unsigned long bits, unsigned long n) {\n");
    for i in 0..COUNT {
        let _ = writeln!(
            body,
            "  int *p{i} = nullptr;\n  if (bits >> {} & 1) cudaMalloc(&p{i}, n * {});",
            i % 48,
            i + 1
        );
    }
    for i in 0..COUNT {
        let _ =
            writeln!(body, "  if (bits >> {} & 1) two<<<2, 32>>>(p{i}, p{});", i % 48, (i * 7 + 1) % COUNT);
    }
    for i in 0..COUNT {
        let _ = writeln!(body, "  cudaFree(p{i});");
    }
    body += "}\n";
    compiles("many buffers", &body);
}

#[test]
fn a_switch_of_a_thousand_cases_in_a_loop() {
    let mut body = String::from(
        "void f0(unsigned long bits, unsigned long n) {\n  int *p = nullptr, *q = nullptr;\n  cudaMalloc(&p, n);\n  \
         cudaMalloc(&q, n * 2);\n  for (unsigned long i = 0; i < n; i++)\n    switch (bits >> (i & 31) & 1023) {\n",
    );
    for i in 0..1000 {
        let way = if i % 3 == 0 { "" } else { " break;" };
        let _ = writeln!(
            body,
            "    case {i}: if (i & {}) one<<<1, 32>>>(p); else two<<<2, 32>>>(q, p);{way}",
            i % 64 + 1
        );
    }
    body += "    default:;\n    }\n  cudaFree(p);\n  cudaFree(q);\n}\n";
    compiles("large switch", &body);
}
