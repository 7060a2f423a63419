#!/usr/bin/env bash
# Makes what is installed besides programs and libraries, laid out as share/: manuals.sh BUILT.
#
# Man pages, completions, the book's pages, the licences of what is linked. It belongs to building: it runs the programs and
# asks cargo, and cargo may have to fetch crates. Installing copies.
set -euo pipefail
cd "$(dirname "$0")/.."
built=$1 new=$1/share.new
rm -rf "$new"
for program in eager eagerd eager-sim eager-eval; do "$built/$program" --papers "$new"; done
packaging/pages.py "$new/doc/eager"
cp LICENSE-APACHE LICENSE-MIT scheduler/daemon/eagerd.toml "$new/doc/eager"
packaging/third-party.sh >"$new/doc/eager/third-party.txt"
rm -rf "$built/share"
mv "$new" "$built/share"
