//! Pointers on the wrong side: the host's own memory in a kernel, a device's in host code. One line names the pointer,
//! the code that used it, and the remedy; a pointer that only looks wrong is not reported.
//!
//! Trap: without strict mode a kernel that uses the host's memory goes on, as the CPU lets it.

use eager_tests::{eagercc_with, has_toolchain, run, text, tool};
use std::process::Command;

const PROGRAM: &str = r#"
#include <cstdio>
#include <cstdlib>
__device__ int variable[32];
static int global[1024] = {1};
__global__ void copies(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x]; }
__global__ void keeps(long long number, int *hint, int *to) { if (number == 7) *hint = 1; to[0] = number; }
int main(int argc, char **argv) {
    char what = argv[1][0];
    int *host = (int *)malloc(4096), local[32] = {1}, *from = nullptr, *device;
    for (int i = 0; i < 1024; ++i) host[i] = i;
    cudaMalloc(&device, 128);
    cudaMemset(device, 0, 128);
    switch (what) {
    case 'h': from = host; break;
    case 'l': from = local; break;
    case 'g': from = global; break;
    case 'm': cudaMallocManaged(&from, 128); break;
    case 'p': cudaMallocHost(&from, 128); break;
    case 'r': cudaHostRegister(host, 4096, 0); from = host; break;
    case 'v': cudaGetSymbolAddress((void **)&from, variable); break;
    default: from = device;
    }
    if (what == 'n') {
        keeps<<<1, 1>>>((long long)host, host, device);
        keeps<<<1, 1>>>((long long)&main, (int *)&copies, device);
    } else if (what == 'w') {
        copies<<<1, 32>>>(device, host);
    } else {
        for (int i = 0; i < 3; ++i) copies<<<1, 32>>>(from, device);
    }
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    fflush(stdout);
    volatile int seen = what == 'd' ? device[3] : what == 'f' ? device[1 << 28] : 0;
    return seen;
}
"#;

#[test]
fn a_pointer_of_the_other_side_is_named_and_what_only_looks_like_one_is_not() {
    if !has_toolchain("pointers of the other side") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let source = folder.path().join("sides.cu");
    std::fs::write(&source, PROGRAM).expect("source");
    let [plain, strict] = ["plain", "strict"].map(|name| folder.path().join(name));
    eagercc_with(&["-O2".into(), "--eager-no-instrument".into()], &[&source], &plain);
    eagercc_with(&["-O2", "--eager-no-instrument", "--eager-strict"].map(Into::into), &[&source], &strict);
    let ran = |program, what| {
        let mut command = Command::new("timeout");
        command.arg("60").arg(tool("eager")).args(["run", "--plain", "--fault-status", "0", "--"]);
        let output = run(command.arg(program).arg(what));
        (output.status, text(&output))
    };
    for (what, argument, of, way) in [
        ("h", 1, "from malloc or new", "reads"),
        ("l", 1, "a variable on the stack", "reads"),
        ("g", 1, "a variable of the program", "reads"),
        ("w", 2, "from malloc or new", "writes"),
    ] {
        let (status, said) = ran(&plain, what);
        let lines: Vec<_> = said.lines().filter(|line| !line.starts_with("cudaSuccess")).collect();
        assert!(status.success() && lines.len() == 1, "{what}: {status}: {said}");
        let start = format!("kernel copies: argument {argument} is a pointer to the host's own memory (0x");
        let end = format!(", {of}), and the kernel {way} there, which a GPU cannot");
        assert!(lines[0].contains(&start) && lines[0].contains(&end), "{what}: {said}");
        let said = ran(&strict, what).1;
        assert!(
            said.contains("cudaErrorIllegalAddress") && said.contains("sides.cu:6: thread (0, 0, 0)"),
            "{said}"
        );
    }
    for program in [&plain, &strict] {
        for right in ["m", "p", "r", "v", "n"] {
            let (status, said) = ran(program, right);
            let only = said.replace("cudaSuccess\n", "");
            // For these, strict mode reports bytes that were never written.
            let only: Vec<_> =
                only.lines().filter(|line| !line.contains("which was never written")).collect();
            assert!(status.success() && only.is_empty(), "{right}: {status}: {said}");
        }
    }
    // Without strict mode the host may read device memory, as long as there is something to read.
    for (program, wrong) in [(&plain, "f"), (&strict, "d"), (&strict, "f")] {
        let (status, said) = ran(program, wrong);
        assert!(!status.success(), "{wrong}: {status}: {said}");
        let line = said.lines().find(|line| line.contains("the host used address 0x")).unwrap_or_default();
        let parts = ["which is device memory", "cudaMemcpy", "the instruction is at ", "+0x"];
        assert!(parts.iter().all(|part| line.contains(part)), "{wrong}: {said}");
    }
}
