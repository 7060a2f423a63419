"""Share a GPU with programs that do not all fit.

``python -m eager run train.py`` runs a program under the Eager scheduler. Inside it, :func:`task` takes memory for one
step or request, and gives it back after it. Without the scheduler :func:`task` does nothing.
"""

from ._sizes import SizeError
from ._tasks import is_scheduled, task

__all__ = ["SizeError", "is_scheduled", "task"]
