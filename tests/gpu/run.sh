#!/bin/sh
# Checks Eager on this machine's GPU: `./run.sh`, `./run.sh --help`. Installs nothing, needs no compiler; without a GPU it says so.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/bin/gpu-test" "$here" "$@"
