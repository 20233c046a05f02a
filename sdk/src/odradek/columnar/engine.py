"""The choice of the engine: numba if it is requested or installed, otherwise plain Python.

numba caches compiled code beside the module or, if that folder is read-only, in the user's cache folder or the one
named by NUMBA_CACHE_DIR. If it can write to none, it compiles in each process again (some seconds).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Literal

from odradek.extras import MissingExtra

EngineName = Literal["auto", "numba", "python"]


@cache
def has_numba() -> bool:
    return find_spec("numba") is not None and find_spec("numpy") is not None


def uses_numba(engine: EngineName) -> bool:
    """Return True if the numba engine runs. Raises ValueError for another name, MissingExtra if numba is missing."""
    if engine not in ("auto", "numba", "python"):
        raise ValueError(f"engine must be auto, numba or python, not {engine!r}")
    if engine == "numba" and not has_numba():
        raise MissingExtra("fast")
    return engine != "python" and has_numba()
