#!/usr/bin/env bash
# Installs what Eager needs to build and test: LLVM 22 from apt and the CUDA 13.0 toolkit from PyPI (no GPU needed).
#
# Idempotent, pinned, asks nothing. Touches the system through apt only; CUDA goes to .toolchain/ in this folder.
# Without root it changes nothing outside the folder and prints exactly what an administrator must install.
#   ./setup.sh          install what is missing
#   ./setup.sh --check  say what is missing, install nothing (exit 1 if anything is)
set -euo pipefail
cd "$(dirname "$0")"

readonly LLVM=22
readonly APT_PACKAGES=(clang-$LLVM llvm-$LLVM-dev clang-tools-$LLVM g++ make python3 python3-pip)
readonly CUDA=.toolchain/cuda-13.0
readonly REQUIREMENTS=cuda-13.0.requirements.txt

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# The first of these is missing: the package that brings it is asked for.
missing_packages() {
  command -v clang++-$LLVM >/dev/null || echo clang-$LLVM
  command -v llvm-config-$LLVM >/dev/null || echo llvm-$LLVM-dev
  command -v clang-linker-wrapper-$LLVM >/dev/null || echo clang-tools-$LLVM
  command -v c++ >/dev/null || echo g++
  command -v make >/dev/null || echo make
  python3 -c 'import pip' 2>/dev/null || echo python3-pip
}

# The stamp holds the pins it was made from, so that a changed pin installs again.
cuda_is_current() { [ -f "$CUDA/.stamp" ] && cmp -s "$REQUIREMENTS" "$CUDA/.stamp"; }

install_packages() {
  local missing; missing=$(missing_packages | tr '\n' ' ')
  if [ -z "$missing" ]; then say "LLVM $LLVM and build tools: already there"; return; fi
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    fail "missing: $missing
setup: as root on Debian 12, run: apt-get update && apt-get install --no-install-recommends ${APT_PACKAGES[*]}"
  fi
  say "installing with apt: $missing"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || fail "apt-get update failed: is the network there?"
  apt-cache show clang-$LLVM >/dev/null 2>&1 ||
    fail "apt knows no clang-$LLVM: Debian 12 has it in bookworm-security; add that to /etc/apt/sources.list:
setup:   deb http://deb.debian.org/debian-security bookworm-security main"
  apt-get install -y -qq --no-install-recommends "${APT_PACKAGES[@]}" >.toolchain/apt.log 2>&1 ||
    fail "apt-get install failed: see .toolchain/apt.log"
}

install_cuda() {
  if cuda_is_current; then say "CUDA 13.0 toolkit: already in $CUDA"; return; fi
  say "unpacking the CUDA 13.0 toolkit (104 MB of wheels from PyPI) into $CUDA"
  rm -rf "$CUDA" "$CUDA.tmp"
  python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --no-deps --no-compile \
    --require-hashes --target "$CUDA.tmp" -r "$REQUIREMENTS" || fail "pip could not fetch the wheels of $REQUIREMENTS"
  mv "$CUDA.tmp/nvidia/cu13" "$CUDA"
  rm -rf "$CUDA.tmp"
  ln -s lib "$CUDA/lib64"                               # nvcc links from lib64
  ln -s libcudart.so.13 "$CUDA/lib/libcudart.so"        # the wheel has the versioned name only
  : >"$CUDA/include/curand_mtgp32_kernel.h"             # clang's CUDA wrapper includes it always; empty suffices
  cp "$REQUIREMENTS" "$CUDA/.stamp"
}

check_rust() {
  command -v cargo >/dev/null || fail "cargo not found: install Rust 1.95 or newer (https://rustup.rs)"
}

main() {
  mkdir -p .toolchain
  case "${1:-}" in
    "") ;;
    --check)
      local missing; missing=$(missing_packages | tr '\n' ' ')
      cuda_is_current || missing+="$CUDA"
      [ -z "$missing" ] || fail "missing: $missing; run ./setup.sh"
      check_rust
      say "everything is there"; exit 0 ;;
    *) fail "unknown argument '$1'; known: --check" ;;
  esac
  local start=$SECONDS
  check_rust
  install_packages
  install_cuda
  say "done in $((SECONDS - start)) s"
}
main "$@"
