"""Sizes as people write them; the units of `eager run --mem`."""

from __future__ import annotations

import re
from typing import Union

Size = Union[int, str]

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_SIZE = re.compile(r"\s*(\d+)\s*(?:([KMGT])(?:iB)?)?\s*", re.ASCII)


class SizeError(ValueError):
    """A size that cannot be one: its message says what is wrong with it."""


def parse(size: Size) -> int:
    """Returns the bytes of ``size``: a number, or a text such as ``"6GiB"`` or ``"512 M"``."""
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if match is None:
            raise SizeError(f"{size!r} is not a size: write a whole number and KiB, MiB, GiB or TiB, such as '6GiB'")
        number = int(match[1]) << _UNITS[match[2] or ""]
    elif isinstance(size, int) and not isinstance(size, bool):
        number = size
    else:
        raise SizeError(f"{size!r} is not a size: give a number of bytes, or a text such as '6GiB'")
    if not 0 < number < 1 << 63:
        raise SizeError(f"{size!r}: a task needs at least a byte, and fewer than 2^63")
    return number
