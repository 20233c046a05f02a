"""The choice of the engine: numba if it is requested, or installed and worth its start; otherwise plain Python.

To import numba and load the compiled code takes about a second, in which plain Python decodes some megabytes. `auto`
begins with plain Python and changes to numba with the first call that goes beyond `START_BYTES`.

numba caches compiled code beside the module or, if that folder is read-only, in the user's cache folder or the one
named by NUMBA_CACHE_DIR. If it can write to none, it compiles in each process again (some seconds).
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from typing import Final, Literal

from odradek.extras import MissingExtra

EngineName = Literal["auto", "numba", "python"]
START_BYTES: Final = 4 * 1024 * 1024


@cache
def has_numba() -> bool:
    return find_spec("numba") is not None and find_spec("numpy") is not None


class _Work:
    """Bytes that the process has handed to `auto` so far."""

    bytes_ = 0


def uses_numba(engine: EngineName, size_bytes: int = START_BYTES) -> bool:
    """Return True if the numba engine runs.

    Args:
        size_bytes: of the data of this call; `auto` adds them up. By default enough for numba.

    Raises ValueError for another name, MissingExtra if numba is missing.
    """
    if engine not in ("auto", "numba", "python"):
        raise ValueError(f"engine must be auto, numba or python, not {engine!r}")
    if engine == "numba" and not has_numba():
        raise MissingExtra("fast")
    if engine != "auto" or not has_numba():
        return engine == "numba"
    _Work.bytes_ += size_bytes
    return _Work.bytes_ >= START_BYTES or "numba" in sys.modules
