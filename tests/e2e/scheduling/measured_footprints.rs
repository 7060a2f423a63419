//! Compares footprints that are measured as on a GPU with those that the virtual GPU counts page by page.
//!
//! Trap: on a virtual GPU, the pages that left the host show nothing, so here footprints are measured by the free
//! memory before and after a kernel. The method of a real GPU is tested in the shim, and on a GPU by `make gpu-test`.

use eager_tests::{compiled, has_toolchain, on_stand_in, root, run, run_ok, text, tool};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Four buffers of 16 MiB. One kernel reads two whole buffers and writes one; the other touches an eighth of one
/// buffer.
const PROGRAM: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
const int n = 4 << 20;
__global__ void add(const float *a, const float *b, float *c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i];
}
__global__ void some(float *d) { d[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
int main() {
  float *p[4], last = 0;
  for (float *&q : p) {
    if (cudaMalloc(&q, n * sizeof(float)) || cudaMemset(q, 0, n * sizeof(float))) return 1;
  }
  for (int round = 0; round < 3; ++round) {
    add<<<n / 256, 256>>>(p[0], p[1], p[2]);
    some<<<n / 8 / 256, 256>>>(p[3]);
  }
  if (cudaMemcpy(&last, p[3], sizeof last, cudaMemcpyDeviceToHost)) return 2;
  printf("%g\n", last);
  for (float *q : p) cudaFree(q);
}
"#;

fn kernel(profile: &Path, name: &str) -> Value {
    let file: Value = serde_json::from_slice(&std::fs::read(profile).expect("a profile")).expect("JSON");
    let kernels = file["kernels"].as_object().expect("kernels");
    let found = kernels.iter().find(|(mangled, _)| mangled.contains(name));
    found.unwrap_or_else(|| panic!("no {name} in {file}")).1.clone()
}

#[test]
fn what_a_kernel_takes_of_the_device_is_what_it_touches() {
    if !has_toolchain("measured footprints") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "touches", PROGRAM);
    let [measured, counted] = ["measured.json", "counted.json"].map(|name| folder.path().join(name));
    let mut profile = Command::new(tool("eager"));
    profile.args(["profile", "--gpu", "--out"]).arg(&measured).arg(&program);
    assert_eq!(run_ok(on_stand_in(&mut profile, "V100-16GB")), "3\n");
    let mut profile = Command::new(tool("eager"));
    profile.args(["profile", "--out"]).arg(&counted).arg(&program);
    assert_eq!(run_ok(&mut profile), "3\n");
    let file: Value = serde_json::from_slice(&std::fs::read(&measured).expect("a profile")).expect("JSON");
    assert_eq!(file["measured_by"], "free-memory");
    for (name, static_mib, touched_mib) in [("add", 48, 48), ("some", 16, 2)] {
        let (measured, counted) = (kernel(&measured, name), kernel(&counted, name));
        assert_eq!(measured["static_bytes"], static_mib << 20, "{name}");
        assert_eq!(measured["footprint_bytes"], touched_mib << 20, "{name}: {measured}");
        assert_eq!(measured["footprint_bytes"], counted["detail"]["footprint_2m_bytes"], "{name}: {counted}");
        assert_eq!(measured["launches"], counted["launches"]);
    }
}

/// A machine without a driver: the program reports its own error and why there is no profile, and writes nothing.
#[test]
fn without_a_driver_there_is_no_profile_and_the_reason_is_said() {
    let cuda = root().join(".toolchain/cuda-13.0/lib");
    if !has_toolchain("measured footprints") || Path::new("/dev/nvidiactl").exists() {
        eprintln!("SKIPPED: measured footprints without a driver: a driver is here, or no toolchain");
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "touches", PROGRAM);
    let out = folder.path().join("measured.json");
    let mut profile = Command::new(tool("eager"));
    profile.args(["profile", "--gpu", "--out"]).arg(&out).arg(&program).env("LD_LIBRARY_PATH", cuda);
    let output = run(&mut profile);
    let said = text(&output);
    assert!(
        !output.status.success() && said.contains("no profile: the program launched no kernel"),
        "{said}"
    );
    assert!(!out.exists(), "{said}");
}

#[test]
fn a_program_that_does_not_fit_is_told_so() {
    if !has_toolchain("measured footprints") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "touches", PROGRAM);
    let mut profile = Command::new(tool("eager"));
    profile.args(["profile", "--gpu"]).arg(&program).env("EAGER_VGPU_MEMORY_SCALE", "512");
    let output = run(on_stand_in(&mut profile, "V100-16GB"));
    let said = text(&output);
    assert!(
        !output.status.success() && said.contains("footprints can be measured only for programs that fit"),
        "{said}"
    );
}
