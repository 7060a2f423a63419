//! A buffer that is declared dead although it is used again, as a faulty compiler might do: it gets memory again, and
//! the fault is reported loudly, once.
//!
//! The program is compiled as usual, so its own declarations are right. A library that is loaded before the shim also
//! declares its buffer dead at each `cudaDeviceSynchronize`.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, run, run_ok};
use std::process::Command;

/// Writes and reads 8 MiB twice. With an argument it uses data from before the wrong declaration; without one it writes
/// everything again first.
const PROGRAM: &str = r#"
#include <cstdio>
const int n = 2 << 20;
static int out[n];
__global__ void fill(int *p, int k) { p[blockIdx.x * blockDim.x + threadIdx.x] = k; }
__global__ void twice(int *p) { p[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }
int main(int argc, char **) {
  int *p = nullptr;
  if (cudaMalloc(&p, n * sizeof(int)) != cudaSuccess) return 1;
  fill<<<n / 256, 256>>>(p, 5);
  cudaDeviceSynchronize();
  if (argc == 1) fill<<<n / 256, 256>>>(p, 20);
  twice<<<n / 256, 256>>>(p);
  cudaDeviceSynchronize();
  if (argc == 1) fill<<<n / 256, 256>>>(p, 21);
  twice<<<n / 256, 256>>>(p);
  if (cudaMemcpy(out, p, n * sizeof(int), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  long sum = 0;
  for (int value : out) sum += value;
  printf("%ld\n", sum / n);
  return cudaFree(p) != cudaSuccess;
}
"#;

/// The faulty library: calls `eager_buffer_dead` where no buffer is dead.
const FAULT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
static void *buffer;
int eager_cudaMalloc(void **out, size_t bytes) {
  int (*real)(void **, size_t) = (int (*)(void **, size_t))dlsym(RTLD_NEXT, "eager_cudaMalloc");
  int code = real(out, bytes);
  buffer = *out;
  return code;
}
int eager_cudaDeviceSynchronize(void) {
  int (*real)(void) = (int (*)(void))dlsym(RTLD_NEXT, "eager_cudaDeviceSynchronize");
  void (*dead)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "eager_buffer_dead");
  int code = real();
  dead(buffer);
  return code;
}
"#;

#[test]
fn a_wrong_declaration_is_said_once_and_the_program_goes_on() {
    if !has_toolchain("misuse of eager_buffer_dead") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "program", PROGRAM);
    let [fault, library] = ["fault.c", "fault.so"].map(|name| folder.path().join(name));
    std::fs::write(&fault, FAULT).expect("write the source");
    run_ok(Command::new("clang-22").args(["-shared", "-fPIC", "-o"]).args([&library, &fault]));
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    let ended = |words: &[&str], fault: bool| {
        let mut command = daemon.run(&program);
        command.args(words).env("EAGER_STATS", "1");
        if fault {
            command.env("LD_PRELOAD", &library);
        }
        let output = run(&mut command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), said)
    };
    let (right, said) = ended(&[], false);
    assert_eq!((right.as_str(), said.contains("WRONG")), ("42\n", false), "{said}");
    let (written_again, said) = ended(&[], true);
    assert_eq!(written_again, "42\n", "what is written again is there: {said}");
    assert_eq!(said.matches("THE RESULTS OF THIS PROGRAM ARE WRONG").count(), 1, "{said}");
    assert!(!said.contains(", used after that: 0"), "{said}");
    let (lost, said) = ended(&["read"], true);
    assert_eq!(lost, "0\n", "the contents were given back");
    assert_eq!(said.matches("THE RESULTS OF THIS PROGRAM ARE WRONG").count(), 1, "{said}");
    assert_eq!(daemon.ask("info")["devices"][0]["granted_bytes"], 0, "memory left granted");
}
