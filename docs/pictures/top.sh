#!/bin/sh
# Records the moment that docs/pictures/top.svg shows: programs of rodinia/ on two virtual V100s of which an eager one stands
# at its gate. Needs `eager` and `eagerd` in PATH. Then: EAGER_BLESS=1 cargo test -p eager --test top
#
#   docs/pictures/top.sh target/debug/rodinia-programs scheduler/cli/tests/screens/recorded
set -eu
programs=$1 out=$2
run=$(mktemp -d)
export XDG_RUNTIME_DIR="$run"
pids=
trap 'kill $pids 2>/dev/null || true; eager shutdown --force >/dev/null 2>&1 || true; wait || true; rm -rf "$run"' EXIT
mkdir -p "$out"
eagerd --detach --virtual 2xV100-16GB --memory-scale 256 --policy eager-opt --observe-ms 100
for program in "lavaMD -boxes1d 17" "srad_v1 200 0.5 1150 1150" "needle 2048 10" "srad_v2 1024 1024 0 127 0 127 0.5 100"; do
  # shellcheck disable=SC2086
  (cd "$run" && exec eager run --quiet "$programs/${program%% *}" ${program#* } >/dev/null 2>&1) &
  pids="$pids $!"
  sleep 0.5
done
try=0
while [ $try -lt 200 ]; do
  eager top --json >"$out/first.json"
  sleep 0.5
  eager top --json >"$out/second.json"
  task=$(python3 -c '
import json, sys
rows = json.load(open(sys.argv[1]))["tasks"]
print(next((row["task"] for row in rows if row["class"] == "eager" and row["held_ms"] > 1000), ""))' "$out/second.json")
  if [ -n "$task" ] && eager explain "$task" --json >"$out/explained.json"; then
    eager explain "$task"
    exit 0
  fi
  try=$((try + 1))
done
echo "no eager task stood at its gate" >&2
exit 1
