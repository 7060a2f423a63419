#!/usr/bin/env bash
# Prints which crates the programs contain, each with its licence and the texts that came with it.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo metadata --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu | python3 -c '
import json, pathlib, sys

metadata = json.load(sys.stdin)
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
# What is linked: from the members on, without what is only for builds and tests.
linked, left = set(), list(metadata["workspace_members"])
while left:
    crate = left.pop()
    if crate not in linked:
        linked.add(crate)
        left += [d["pkg"] for d in nodes[crate]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
for package in sorted(metadata["packages"], key=lambda package: (package["name"], package["version"])):
    if package["id"] in linked and package["source"]:
        print("=" * 8, package["name"], package["version"], "-", package["license"] or "see below")
        folder = pathlib.Path(package["manifest_path"]).parent
        for text in sorted(folder.iterdir()):
            if text.is_file() and text.name.upper().startswith(("LICEN", "COPY", "NOTICE")):
                print("--------", text.name)
                print(text.read_text(errors="replace"))
'
