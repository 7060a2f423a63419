#!/usr/bin/env bash
# Installs what Eager needs to build and test: LLVM 22 from apt, CUDA 13.0 and 12.9 from PyPI (no GPU needed).
#
# Idempotent, pinned, asks nothing. Touches the system through apt only; CUDA goes to .toolchain/ in this folder.
# Without root it changes nothing outside the folder and prints exactly what an administrator must install.
#   ./setup.sh          install what is missing
#   ./setup.sh --check  say what is missing, install nothing (exit 1 if anything is)
set -euo pipefail
cd "$(dirname "$0")"

readonly LLVM=22
readonly APT_PACKAGES=(clang-$LLVM llvm-$LLVM-dev clang-tools-$LLVM lld-$LLVM libomp-$LLVM-dev g++ make cmake ccache
  ninja-build python3 python3-pip xz-utils)
readonly CUDA=(13.0 12.9)

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# The first of these is missing: the package that brings it is asked for.
missing_packages() {
  command -v clang++-$LLVM >/dev/null || echo clang-$LLVM
  command -v llvm-config-$LLVM >/dev/null || echo llvm-$LLVM-dev
  command -v clang-linker-wrapper-$LLVM >/dev/null || echo clang-tools-$LLVM
  command -v ld.lld-$LLVM >/dev/null || echo lld-$LLVM
  [ -e /usr/lib/llvm-$LLVM/lib/libomp.so ] || echo libomp-$LLVM-dev
  command -v c++ >/dev/null || echo g++
  command -v make >/dev/null || echo make
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  command -v ccache >/dev/null || echo ccache
  python3 -c 'import pip' 2>/dev/null || echo python3-pip
  command -v xz >/dev/null || echo xz-utils
}

tree() { echo ".toolchain/cuda-$1"; }
pins() { echo "cuda-$1.requirements.txt"; }

# The stamp holds the pins it was made from, so that a changed pin installs again.
cuda_is_current() { [ -f "$(tree "$1")/.stamp" ] && cmp -s "$(pins "$1")" "$(tree "$1")/.stamp"; }

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
  local version=$1 tree new; tree=$(tree "$version"); new=$tree.new
  if cuda_is_current "$version"; then say "CUDA $version: already in $tree"; return; fi
  say "unpacking CUDA $version (wheels from PyPI) into $tree"
  rm -rf "$tree" "$new" "$new.wheels"
  python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --no-deps --no-compile \
    --require-hashes --target "$new.wheels" -r "$(pins "$version")" ||
    fail "pip could not fetch the wheels of $(pins "$version")"
  "arrange_$version" "$new.wheels/nvidia" "$new"
  rm -rf "$new.wheels"
  ln -s lib "$new/lib64"                        # nvcc links from lib64
  rm "$new"/lib/libcurand.so.*                  # its kernels have no CPU code, and it is larger than all the rest
  cp "$(pins "$version")" "$new/.stamp"
  mv "$new" "$tree"
}

arrange_13.0() {
  mv "$1/cu13" "$2"
  ln -s libcudart.so.13 "$2/lib/libcudart.so"   # the wheel has the versioned name only
}

# One wheel has ptxas and libdevice, one the headers and libcudart, one the C++ core libraries; libnvvm is of no use.
arrange_12.9() {
  mkdir -p "$2"
  rm -rf "$1"/cuda_nvcc/nvvm/lib64 "$1"/cuda_*/.metadata
  find "$1" -name __init__.py -delete
  cp -rl "$1/cuda_nvcc/." "$1/cuda_runtime/." "$1/cuda_cccl/." "$1/curand/." "$1/nvtx/." "$2"
  ln -s libcudart.so.12 "$2/lib/libcudart.so"
  ln -s ../../cuda-13.0/bin/fatbinary ../../cuda-13.0/bin/nvlink "$2/bin/"
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
      local version
      for version in "${CUDA[@]}"; do cuda_is_current "$version" || missing+="$(tree "$version") "; done
      [ -z "$missing" ] || fail "missing: $missing; run ./setup.sh"
      check_rust
      say "everything is there"; exit 0 ;;
    *) fail "unknown argument '$1'; known: --check" ;;
  esac
  local start=$SECONDS version
  check_rust
  say "CUDA's wheels are NVIDIA's, under its licence (https://docs.nvidia.com/cuda/eula/): docs/licences.md"
  install_packages
  for version in "${CUDA[@]}"; do install_cuda "$version"; done
  say "done in $((SECONDS - start)) s"
}
main "$@"
