//! Textures and surfaces of programs of both CUDAs: right results, errors of wrong uses, memory that the daemon counts,
//! and code that the compiler refuses. `conformance.rs` has the same results in every mode of the CPU kernels.
//!
//! Trap: a kernel that uses an object wrongly ends its launch with an error that stays, and never the process.

use eager_tests::cudas::{TREES, programs};
use eager_tests::daemon::Daemon;
use eager_tests::place::Running;
use eager_tests::{eagercc_with, has_toolchain, root, run, run_ok, text, tool};
use std::path::Path;
use std::process::Command;

fn plain(program: &Path) -> Command {
    let mut command = Command::new(tool("eager"));
    command.args(["run", "--plain", "--time-scale", "0", "--"]).arg(program);
    command
}

#[test]
fn programs_of_both_cudas_read_what_the_guide_says() {
    for tree in TREES {
        let cuda = root().join(".toolchain").join(tree);
        if !has_toolchain(tree) || !cuda.join("include/cuda_runtime.h").exists() {
            eprintln!("SKIPPED: {tree}: run ./setup.sh");
            continue;
        }
        let folder = tempfile::tempdir().expect("folder");
        let program = folder.path().join("textures");
        let words = [format!("--cuda-path={}", cuda.display()), "-O2".into(), "-std=c++17".into()];
        eagercc_with(&words.map(Into::into), &[&root().join("tests/conformance/textures.cu")], &program);
        let printed = run_ok(&mut plain(&program));
        assert!(printed.ends_with(" 0 failed\n"), "{tree}: {printed}");
    }
}

/// Uses an object as the first argument says; prints the error, and the error of the next call.
const WRONG: &str = r#"
#include <cstring>
__global__ void texture(cudaTextureObject_t t, float *out) { out[threadIdx.x] = tex2D<float>(t, 1, 1); }
__global__ void surface(cudaSurfaceObject_t s, float *out, int x) {
  out[threadIdx.x] = surf2Dread<float>(s, 4 * (threadIdx.x + x), 1);
}
int main(int, char **arguments) {
  const char *how = arguments[1];
  float *out; cudaArray_t array; cudaTextureObject_t t; cudaSurfaceObject_t s;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  OK(cudaMalloc(&out, BYTES));
  OK(cudaMallocArray(&array, &format, 8, 4, cudaArraySurfaceLoadStore));
  float zeros[32] = {};
  OK(cudaMemcpy2DToArray(array, 0, 0, zeros, 32, 32, 4, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.res.array.array = array;
  cudaTextureDesc desc = {};
  OK(cudaCreateTextureObject(&t, &resource, &desc, nullptr));
  OK(cudaCreateSurfaceObject(&s, &resource));
  texture<<<1, 8>>>(t, out);
  surface<<<1, 8>>>(s, out, 0);
  OK(cudaDeviceSynchronize());
  if (!strcmp(how, "destroyed")) { OK(cudaDestroyTextureObject(t)); texture<<<1, 8>>>(t, out); }
  if (!strcmp(how, "number")) texture<<<1, 8>>>(0x7f0012345678, out);
  if (!strcmp(how, "pointer")) texture<<<1, 8>>>((cudaTextureObject_t)(size_t)out, out);
  if (!strcmp(how, "kind")) surface<<<1, 8>>>(t, out, 0);
  if (!strcmp(how, "outside")) surface<<<1, 8>>>(s, out, 3);
  if (!strcmp(how, "freed")) { OK(cudaFreeArray(array)); texture<<<1, 8>>>(t, out); }
  const char *first = cudaGetErrorName(cudaDeviceSynchronize());
  printf("%s %s\n", first, cudaGetErrorName(cudaMalloc(&out, 4)));
}
"#;

/// A wrong use of an object, its error, and its message.
const CASES: [(&str, &str, &str); 5] = [
    ("destroyed", "cudaErrorIllegalAddress", "which does not exist: it was never created, or is destroyed"),
    ("number", "cudaErrorIllegalAddress", "uses texture object 0x7f0012345678, which does not exist"),
    ("pointer", "cudaErrorIllegalAddress", "which does not exist"),
    ("kind", "cudaErrorIllegalAddress", "uses surface object 0x"),
    ("outside", "cudaErrorIllegalAddress", "outside of its surface, at byte 32 of row 1, slice 0, layer 0"),
];

#[test]
fn a_wrong_use_is_an_error_that_stays_and_names_the_object() {
    let folder = tempfile::tempdir().expect("folder");
    for (program, tree) in programs(folder.path(), WRONG, &["--eager-no-instrument"]) {
        for (how, error, said) in CASES {
            let output = run(plain(&program).arg(how));
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(printed, format!("{error} {error}\n"), "{how}, {}: {}", tree.display(), text(&output));
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(stderr.contains(said), "{how}, {}: {stderr}", tree.display());
        }
    }
}

#[test]
fn strict_mode_names_the_line_and_arrays_that_were_freed() {
    let folder = tempfile::tempdir().expect("folder");
    let line = |text: &str| 1 + WRONG.lines().position(|l| l.contains(text)).expect("there");
    for (program, tree) in programs(folder.path(), WRONG, &["--eager-no-instrument", "--eager-strict"]) {
        let source = std::fs::read_to_string(program.with_extension("cu")).expect("source");
        let before = source.lines().count() - WRONG.lines().count();
        let file = tree.file_name().expect("a name").to_string_lossy().into_owned();
        for (how, said) in [("destroyed", "which does not exist"), ("freed", ", which was freed")] {
            let output = run(plain(&program).arg(how));
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let place =
                format!("{file}.cu:{}: thread (0, 0, 0) of block (0, 0, 0)", before + line("tex2D<float>"));
            assert!(stderr.contains(&place) && stderr.contains(said), "{how}: {stderr}");
        }
    }
}

const HOLDS: &str = r#"
__global__ void read(cudaTextureObject_t t, float *out) { out[threadIdx.x] = tex2D<float>(t, threadIdx.x, 5); }
int main() {
  cudaArray_t array; cudaTextureObject_t t; float *out;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  OK(cudaMallocArray(&array, &format, 4096, 4096));  // 64 MiB
  OK(cudaMalloc(&out, BYTES));
  float row[64];
  for (int i = 0; i < 64; ++i) row[i] = i;
  OK(cudaMemcpy2DToArray(array, 0, 5, row, sizeof row, sizeof row, 1, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.res.array.array = array;
  cudaTextureDesc desc = {};
  OK(cudaCreateTextureObject(&t, &resource, &desc, nullptr));
  read<<<1, 64>>>(t, out);
  float last;
  OK(cudaMemcpy(&last, out + 63, sizeof last, cudaMemcpyDeviceToHost));
  printf("read %g\n", last); fflush(stdout);
  getchar();
  OK(cudaDestroyTextureObject(t));
  OK(cudaFreeArray(array));
  OK(cudaFree(out));
}
"#;

#[test]
fn the_daemon_counts_an_array_and_gives_it_to_nobody_else() {
    let folder = tempfile::tempdir().expect("folder");
    for (program, _) in programs(folder.path(), HOLDS, &[]) {
        for policy in ["case", "eager"] {
            let daemon = Daemon::start(&["--virtual", "V100-16GB", "--time-scale", "0", "--policy", policy]);
            let mut running = Running::start(&mut daemon.run(&program));
            running.expect_line("read 63");
            let granted = daemon.ask("info")["devices"][0]["granted_bytes"].as_u64().expect("bytes");
            assert!((64 << 20..80 << 20).contains(&granted), "{policy}: {granted} granted");
            running.send_line();
            assert!(running.end().success());
        }
    }
}

/// Returns the compiler's message about a source that it refuses.
fn refusal(source: &str, words: &[&str]) -> Option<String> {
    if !has_toolchain("refusals of textures") {
        return None;
    }
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("refused.cu");
    std::fs::write(&file, source).expect("write");
    let output = run(Command::new(tool("eagercc"))
        .args(words)
        .arg("-c")
        .arg(&file)
        .arg("-o")
        .arg(folder.path().join("o")));
    assert!(!output.status.success(), "{}", text(&output));
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_is_not_there_is_named_in_one_line() {
    let cube =
        "__global__ void k(cudaTextureObject_t t, float *out) { *out = texCubemap<float>(t, 1, 0, 0); }";
    let Some(said) = refusal(cube, &[]) else { return };
    let line = said.lines().find(|line| line.contains("refused.cu:1: kernel k: a texture read (`tex.cube"));
    assert!(line.is_some_and(|line| line.contains("--eager-no-cpu-kernels")), "{said}");
    let reference = "texture<float, 1, cudaReadModeElementType> t;\n\
                     int main() { cudaBindTexture(nullptr, t, nullptr, 4); }";
    for tree in TREES {
        let cuda = format!("--cuda-path={}", root().join(".toolchain").join(tree).display());
        let Some(said) = refusal(reference, &[&cuda]) else { return };
        assert!(said.contains("removed texture and surface references"), "{tree}: {said}");
        // The reference is not even bound.
        let reference = "texture<float, 1, cudaReadModeElementType> t;\nint main() {}";
        let Some(said) = refusal(reference, &[&cuda]) else { return };
        assert!(said.contains("use texture objects instead"), "{tree}: {said}");
    }
}
