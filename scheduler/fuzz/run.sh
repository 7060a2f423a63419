#!/bin/sh
# Fuzzes every target for so many seconds of processor time, one after the other: scheduler/fuzz/run.sh [SECONDS] [TARGET…]
#
# libFuzzer's coverage needs only stable compiler options; there is no address sanitizer, which these crates, nearly all
# of them without `unsafe`, need less than nightly's instability.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- messages ring journal settings state vgpu
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
target=${FUZZ_TARGET_DIR:-target}
cargo build --release --locked --target "$(rustc -vV | sed -n 's/^host: //p')" --target-dir "$target"
folder=$(echo "$target"/*/release)

# Processor time of a process, in seconds; nothing once it has ended.
used() { awk -v tick="$(getconf CLK_TCK)" '{ print int(($14 + $15) / tick) }' "/proc/$1/stat" 2>/dev/null; }

# Ends it after so much processor time: libFuzzer's own limit is of wall time, of which a niced process gets little.
until_used() {
    while spent=$(used "$1") && [ -n "$spent" ] && [ "$spent" -lt "$seconds" ]; do sleep 1; done
    kill -TERM "$1" 2>/dev/null || true
    wait "$1"
}

for name; do
    found="$target/corpus/$name"
    mkdir -p "$found"
    echo "== $name: $seconds s of processor time"
    # What is new goes to the build folder; what is worth keeping is merged into corpus/ by hand (-merge=1).
    nice -n 15 "$folder/$name" -timeout=120 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$target/$name-" "$found" "corpus/$name" &
    until_used $!
done
