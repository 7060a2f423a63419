"""The scheduler's library in this process.

`eager run --preload` puts `libeager_preload.so` into LD_PRELOAD; the shim beside it, `libeager.so`, is loaded at the first
CUDA call. Trap: a second copy of the shim would be a second program for the daemon. So it is opened by the path beside the
preloaded library, as that library itself opens it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from pathlib import Path
from typing import Optional

_PRELOAD = "libeager_preload.so"
_SHIM = "libeager.so"


@functools.lru_cache(maxsize=None)
def shim() -> Optional[ctypes.CDLL]:
    """The shim, or None in a process that Eager does not schedule."""
    words = re.split(r"[ :]+", os.environ.get("LD_PRELOAD", ""))
    folders = [Path(word).parent for word in words if Path(word).name == _PRELOAD]
    if not folders or not _is_loaded():
        return None
    library = ctypes.CDLL(str(folders[0] / _SHIM))
    # eager_task_begin(site, bytes, live_bytes, blocks, threads_per_block); eager_task_end(site)
    library.eager_task_begin.argtypes = [ctypes.c_uint64] * 4 + [ctypes.c_uint32]
    library.eager_task_begin.restype = None
    library.eager_task_end.argtypes = [ctypes.c_uint64]
    library.eager_task_end.restype = None
    return library


def _is_loaded() -> bool:
    """Whether the loader obeyed LD_PRELOAD: the variable may have been set after this process began."""
    try:
        return _PRELOAD in Path("/proc/self/maps").read_text(errors="replace")
    except OSError:
        return False
