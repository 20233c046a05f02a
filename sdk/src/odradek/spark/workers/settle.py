"""Fewer costs per task in Spark's Python workers.

Around every task the worker makes importlib rescan its path and runs a full garbage collection:

* Spark puts its core jar on the Python path. The jar contains no Python, but importlib reads its directory, of
  thousands of entries, in Python: some 70 ms.
* Full collection visits every object, and numba, Arrow and the SDK have some hundred thousands that are never freed:
  some 100 ms. Frozen objects (`gc.freeze`) are not visited.

For a micro-batch of a thousand records this is most of the time.
"""

from __future__ import annotations

import gc
import sys
from pathlib import PurePath

_settled = False


def settle() -> None:
    """Reduce these costs; call it in a worker after all imports. Only the first call in a process has an effect."""
    global _settled
    if _settled:
        return
    _settled = True
    sys.path[:] = [path for path in sys.path if not is_in_jar(path)]
    for path in [path for path in sys.path_importer_cache if is_in_jar(path)]:
        del sys.path_importer_cache[path]
    gc.collect()
    gc.freeze()


def is_in_jar(path: str) -> bool:
    """Return True for a jar, or a folder within one."""
    return any(part.endswith(".jar") for part in PurePath(path).parts)
