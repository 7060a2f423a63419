"""`python -m eager run [options] train.py …`: `eager run --preload` for this interpreter."""

from __future__ import annotations

import os
import shutil
import sys
from typing import List, NoReturn, Tuple

# Options of `eager run` that take a value, and those that take none.
_WITH_VALUE = {
    "--after", "--fault-status", "--grace", "--label", "--mem", "--priority", "--profile", "--run-dir", "--socket",
    "--time-limit",
}
_SWITCHES = {"--or-plain", "--quiet", "--whole", "-q"}

USAGE = """usage: python -m eager run [options] SCRIPT [arguments]
       python -m eager run [options] -m MODULE [arguments]
       python -m eager run [options] -c CODE [arguments]

Runs the program under the Eager scheduler, as `eager run --preload` does. The options are those of `eager run`:
  --mem SIZE   device memory that each process of it asks for at its first use of a GPU, such as 6GiB
  --whole      with --mem: never start over-subscribed
and --after, --fault-status, --grace, --label, --or-plain, --priority, --profile, --quiet, --run-dir, --socket, --time-limit
(`eager run --help`).
"""


def split(words: List[str]) -> Tuple[List[str], List[str]]:
    """Splits the words behind `run` into options of `eager run` and what the interpreter gets."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[:at], words[at + 1 :]
        if word in ("-m", "-c") or not word.startswith("-"):
            break
        name, has_value, _ = word.partition("=")
        if name in _WITH_VALUE:
            at += 1 if has_value else 2
        elif word in _SWITCHES:
            at += 1
        else:
            _fail(f"{word} is no option of `python -m eager run`; see `python -m eager --help`")
    return words[:at], words[at:]


def main(words: List[str]) -> NoReturn:
    if any(word in ("-h", "--help") for word in words[:2]):
        print(USAGE, end="")
        raise SystemExit(0)
    if words[:1] != ["run"]:
        _fail("the only command is `run`: python -m eager run SCRIPT")
    options, program = split(words[1:])
    if not program:
        _fail("no program given: python -m eager run SCRIPT")
    eager = shutil.which("eager")
    if eager is None:
        _fail("the command `eager` is not on PATH: install Eager, or add its bin/ folder to PATH", 127)
    command = [eager, "run", "--preload", *options, "--", sys.executable, *program]
    sys.stdout.flush()
    try:
        os.execv(eager, command)
    except OSError as error:
        _fail(f"cannot run {eager}: {error.strerror}", 126)


def _fail(message: str, code: int = 2) -> NoReturn:
    print(f"eager: {message}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
