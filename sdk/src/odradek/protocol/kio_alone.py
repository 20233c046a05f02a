"""kio, imported without hypothesis.

Where hypothesis is installed, kio imports it to register strategies for its types: half a second for each process of a
user who tests with it. Import this module before the first one of kio. A program that has imported hypothesis already
gets the strategies.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Absent(MetaPathFinder):
    """Finds that a module is not installed; other threads are not affected."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == self._name and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is not imported by kio", name=fullname)


def _import_kio() -> None:
    absent = _Absent("hypothesis")
    sys.meta_path.insert(0, absent)
    try:
        import_module("kio.static.primitive")  # every schema of kio imports it
    finally:
        sys.meta_path.remove(absent)


if "hypothesis" not in sys.modules:
    _import_kio()
