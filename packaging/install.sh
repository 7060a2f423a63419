#!/usr/bin/env bash
# Installs what was built, or takes it away. Called by `make install` and `make uninstall`:
#   install.sh install BUILT PREFIX UNITS DESTDIR
#   install.sh uninstall PREFIX DESTDIR
#
# All of it or nothing: everything is looked for first, then copied beside its place under another name, then renamed. What
# may fail (a missing file, rights, a full disk) fails before the first rename, and takes back what it copied. Programs that
# run keep the file that they started from.
set -euo pipefail
readonly NEW=.eager-new LIST=lib/eager/installed-files

# What goes where, one `MODE SOURCE TARGET` a line; a target is as the installed system names it.
contents() {
  local file
  for file in eager eagerd eagercc eager-sim eager-eval; do echo "755 $built/$file $prefix/bin/$file"; done
  echo "755 $built/eager-vgpud $prefix/lib/eager/eager-vgpud"
  for file in libeager.so libeager_preload.so libeager_pass.so libcudart.so libcudart12.so; do
    echo "644 $built/$file $prefix/lib/eager/$file"
  done
  echo "644 compiler-pass/driver/include/cuda_profiler_api.h $prefix/lib/eager/include/cuda_profiler_api.h"
  for file in compiler-pass/driver/include/eager/*; do
    echo "644 $file $prefix/lib/eager/include/eager/$(basename "$file")"
  done
  echo "644 compiler-pass/driver/cmake/EagerConfig.cmake $prefix/lib/cmake/Eager/EagerConfig.cmake"
  for file in runtime-shim/python/pyproject.toml runtime-shim/python/src/eager/*.{py,typed}; do
    echo "644 $file $prefix/share/eager/${file#runtime-shim/}"
  done
  for file in eagerd.service eagerd.socket; do echo "644 scheduler/daemon/$file $units/$file"; done
  (cd "$built/share" && find . -type f -printf '%P\n' | sort) | while read -r file; do
    echo "644 $built/share/$file $prefix/share/$file"
  done
}

# Links: `NAME POINTS-TO`.
links() {
  echo "$prefix/lib/eager/eager-virtual/libcudart.so.13 ../libcudart.so"
  echo "$prefix/lib/eager/eager-virtual/libcudart.so.12 ../libcudart12.so"
}

put_away() {
  local status=$?
  [ "$status" = 0 ] && return
  local file folder
  for file in "${copied[@]}"; do rm -f "$file"; done
  # Deepest first.
  for folder in $(printf '%s\n' "${made[@]}" | sort -r); do rmdir "$folder" 2>/dev/null || true; done
  echo "install: nothing is installed" >&2
  exit "$status"
}

make_folder() {
  local folder=$1
  [ -d "$folder" ] && return
  make_folder "$(dirname "$folder")"
  mkdir "$folder"
  made+=("$folder")
}

install_all() {
  local mode source target points
  declare -ga copied=() made=()
  trap put_away EXIT
  local list; list=$(contents)
  while read -r mode source target; do
    [ -f "$source" ] || { echo "install: $source is not built: run \`make build\` first" >&2; exit 1; }
  done <<<"$list"
  while read -r mode source target; do
    make_folder "$(dirname "$dest$target")"
    copied+=("$dest$target$NEW")
    case $source in
      *.service) sed "s,/usr/\(bin\|share\)/,$prefix/\1/,g" "$source" >"$dest$target$NEW" ;;
      *) cp "$source" "$dest$target$NEW" ;;
    esac
    chmod "$mode" "$dest$target$NEW"
  done <<<"$list"
  while read -r target points; do
    make_folder "$(dirname "$dest$target")"
    copied+=("$dest$target$NEW")
    ln -sfn "$points" "$dest$target$NEW"
  done < <(links)
  copied+=("$dest$prefix/$LIST$NEW")
  { cut -d' ' -f3- <<<"$list"; links | cut -d' ' -f1; echo "$prefix/$LIST"; } >"$dest$prefix/$LIST$NEW"
  rename_all
}

# From here on nothing needs room. What an older version brought and this one does not goes.
rename_all() {
  local file
  local -A is_new=()
  while read -r file; do is_new[$file]=1; done <"$dest$prefix/$LIST$NEW"
  if [ -f "$dest$prefix/$LIST" ]; then
    while read -r file; do [ -n "${is_new[$file]:-}" ] || remove "$dest$file"; done <"$dest$prefix/$LIST"
  fi
  for file in "${copied[@]}"; do mv -fT "$file" "${file%"$NEW"}"; done
}

# A file, and the folders that are empty without it, as far as they are the installation's own.
remove() {
  local folder
  rm -f "$1"
  folder=$(dirname "$1")
  while [ "$folder" != "$dest$prefix" ] && [ "$folder" != / ] && rmdir "$folder" 2>/dev/null; do folder=$(dirname "$folder"); done
}

uninstall_all() {
  local file
  [ -f "$dest$prefix/$LIST" ] || { echo "uninstall: nothing is installed in $dest$prefix" >&2; exit 1; }
  local list; list=$(<"$dest$prefix/$LIST")
  while read -r file; do remove "$dest$file"; done <<<"$list"
}

cd "$(dirname "$0")/.."
case $1 in
  install) built=$2 prefix=$3 units=$4 dest=${5:-}; install_all ;;
  uninstall) prefix=$2 dest=${3:-}; uninstall_all ;;
esac
