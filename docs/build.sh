#!/usr/bin/env bash
# Builds the book into target/book/, with an mdBook of a fixed version in .toolchain/.
#
# The pages lie where they do in the repository, so that their relative links hold in both. mdBook wants SUMMARY.md at
# the top: it is docs/SUMMARY.md with its links told from there.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly VERSION=0.5.4 TOOL=.toolchain/mdbook PAGES=target/book-pages
if [ "$("$TOOL/bin/mdbook" --version 2>/dev/null)" != "mdbook v$VERSION" ]; then
  cargo install --quiet --locked --root "$TOOL" mdbook --version "$VERSION" --no-default-features --features search
fi
rm -rf "$PAGES" target/book
mkdir -p "$PAGES"
# Pages link to sources too; the fuzzers' findings are nothing to read.
git ls-files -z --cached --others --exclude-standard -- ':!scheduler/fuzz/corpus' | xargs -0 cp --parents -t "$PAGES"
sed -E 's#\]\(\.\./#](#; t; s#\]\(#](docs/#' docs/SUMMARY.md >"$PAGES/SUMMARY.md"
mv "$PAGES/docs/book.toml" "$PAGES"
rm "$PAGES/docs/SUMMARY.md"
"$TOOL/bin/mdbook" build "$PAGES"
echo "Book: target/book/index.html"
