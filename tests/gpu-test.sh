#!/bin/sh
# The conformance suite on a real GPU, unchanged, beside the virtual one: one table, and exit 1 if a test fails on either.
#
# Bytes may differ where both are right: the last bits of mathematical functions are the GPU's own. Trap: the digest of a test
# covers all bytes read back so far, so from the first difference on every line says `differ`.
set -eu
cd "$(dirname "$0")/.."
cuda=${EAGER_CUDA_PATH:-.toolchain/cuda-13.0}
clang=${EAGER_CLANG:-clang++-22}
tools=${EAGER_TOOLS:-target/release}

skip() {
    echo "SKIPPED: gpu-test: $1"
    exit 0
}
[ -e /dev/nvidiactl ] || skip "no GPU here (no /dev/nvidiactl)"
command -v "$clang" >/dev/null || skip "no $clang: run ./setup.sh"
[ -e "$cuda/include/cuda_runtime.h" ] || skip "no CUDA tree at $cuda: run ./setup.sh"
[ -x "$tools/eagercc" ] || skip "no $tools/eagercc: run make build"

# 9.0 becomes sm_90. A driver that does not say gets the compiler's default.
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .) || capability=
architecture=sm_${capability:-90}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for suite in main libraries; do
    source=tests/conformance/$suite.cu
    "$clang" -O1 -std=c++17 -ffp-contract=off --cuda-path="$cuda" --cuda-gpu-arch="$architecture" \
        -Wno-unknown-cuda-version -x cuda "$source" -isystem "$cuda/include/cccl" \
        -L"$cuda/lib" -lcudart -o "$scratch/$suite-gpu"
    "$tools/eagercc" -O1 -std=c++17 -ffp-contract=off --eager-no-instrument "$source" -o "$scratch/$suite-virtual"
    LD_LIBRARY_PATH=$cuda/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 300 "$scratch/$suite-gpu" \
        >"$scratch/gpu.out" || true
    timeout 300 "$tools/eager" run --plain --time-scale 0 -- "$scratch/$suite-virtual" >"$scratch/virtual.out" || true
    # Lines of a test: `ok NAME DIGEST` or `FAILED NAME DIGEST`.
    awk '$1 == "ok" || $1 == "FAILED"' "$scratch/virtual.out" | sed 's/^/virtual /' >>"$scratch/all"
    awk '$1 == "ok" || $1 == "FAILED"' "$scratch/gpu.out" | sed 's/^/gpu /' >>"$scratch/all"
done

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true
awk '
    { result[$1, $3] = $2; digest[$1, $3] = $4; if (!seen[$3]++) names[++count] = $3 }
    function said(where, name) { return (where, name) in result ? result[where, name] : "missing" }
    END {
        printf "%-40s %-8s %-8s %s\n", "test", "GPU", "virtual", "bytes"
        for (i = 1; i <= count; i++) {
            name = names[i]; gpu = said("gpu", name); virtual = said("virtual", name)
            same = digest["gpu", name] == digest["virtual", name] ? "equal" : "differ"
            printf "%-40s %-8s %-8s %s\n", name, gpu, virtual, same
            bad += gpu != "ok" || virtual != "ok"
        }
        printf "%d tests, %d not right on both\n", count, bad
        exit count == 0 || bad > 0
    }' "$scratch/all"
