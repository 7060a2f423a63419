"""Tasks: device memory for one step or request."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import sys
import threading
from types import TracebackType
from typing import Iterator, List, Optional, Type

from ._library import shim
from ._sizes import Size, parse


def is_scheduled() -> bool:
    """Whether this process runs under `eager run --preload`."""
    return shim() is not None


class task(contextlib.ContextDecorator):
    """Device memory for what is inside: ``with eager.task("6GiB"): step()``, or ``@eager.task("6GiB")`` on a function.

    Waits at the start until the scheduler has given a device with that much memory, or starts over-subscribed where its
    policy allows that. At the end the scheduler gets back all that was freed since; memory that is still allocated keeps
    its size, and so does the task.

    Memory beyond ``memory`` is asked for as it is allocated. Inside another task, and in a program of a declared size
    (``python -m eager run --mem``), the memory is part of that. Without the scheduler this does nothing.

    Begin and end belong to one thread, and memory that other threads allocate meanwhile is not the task's. So do not
    ``await`` inside.
    """

    def __init__(self, memory: Size) -> None:
        self._bytes = parse(memory)
        caller = sys._getframe(1)
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}".encode()
        # The daemon knows a task's place in the program by a number that is the same in each run.
        self._site = int.from_bytes(hashlib.blake2b(place, digest_size=8).digest(), "little") | 1
        self._threads: List[int] = []

    def __enter__(self) -> "task":
        library = shim()
        if library is not None:
            with _interruptible():
                library.eager_task_begin(self._site, self._bytes, self._bytes, 0, 0)
        self._threads.append(threading.get_ident())
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if threading.get_ident() not in self._threads:
            raise RuntimeError("eager.task ends in another thread than it began in")
        self._threads.remove(threading.get_ident())
        library = shim()
        if library is not None:
            library.eager_task_end(self._site)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Lets Ctrl-C end the program while the shim waits: Python's own handler would run only after the wait."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
