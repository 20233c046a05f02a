"""What a Python worker of Spark pays for each task besides the task's work, and how it pays less.

Around every task the worker lets importlib look at its path anew and collects garbage in full:

* Spark puts its own core jar on the Python path. There is no Python in it, but importlib reads a zip's directory, of
  thousands of entries, in Python: some 70 ms.
* Full collection walks every object there is, and numba, Arrow and the SDK are some hundred thousands that stay for
  good: some 100 ms. Frozen (`gc.freeze`) they are not walked.

A micro-batch of a thousand records has nothing else to do for that long.
"""

from __future__ import annotations

import gc
import sys
from pathlib import PurePath

_settled = False


def settle() -> None:
    """Call it in a worker when all is imported; only the first call in a process does something."""
    global _settled
    if _settled:
        return
    _settled = True
    sys.path[:] = [path for path in sys.path if not _is_in_jar(path)]
    for path in [path for path in sys.path_importer_cache if _is_in_jar(path)]:
        del sys.path_importer_cache[path]
    gc.collect()
    gc.freeze()


def _is_in_jar(path: str) -> bool:
    """Whether it is a jar, or a folder within one."""
    return any(part.endswith(".jar") for part in PurePath(path).parts)
