"""Methods of dataclasses, compiled when the functions are packaged and not at each cold start.

A dataclass writes the text of its methods and compiles it: a millisecond each, and a function imports some 150. The
package has a file that `tools/package.py` made: for each text the code that it compiles to. `dataclasses` finds it by
the name `exec`, which it looks up as any other. A text that the file does not have (another release of Python words it
differently, say) is compiled as usual, so the file can be missing or stale without harm.

    dataclasses.<cpython-313>   marshalled dictionary: BLAKE2b of the text, 16 bytes -> marshalled code

Bytecode belongs to a release of Python, so the file is named like its `.pyc` files are. marshal is as trustworthy as
those: both are in the same read-only layer.
"""

from __future__ import annotations

import dataclasses
import marshal
import os
import sys
from hashlib import blake2b
from typing import Any

FILE_NAME = f"dataclasses.{sys.implementation.cache_tag}"
COMPILED = os.path.join(os.path.dirname(__file__), FILE_NAME)  # pathlib takes 8 ms


class Compiled:
    """Replaces the `exec` that `dataclasses` calls.

    Attributes:
        codes: marshalled code by digest of its text.
        missed: how many texts were compiled.
    """

    def __init__(self, codes: dict[bytes, bytes]) -> None:
        self.codes = codes
        self.missed = 0

    def __call__(self, text: str, *namespaces: Any) -> None:
        code = self.codes.get(digest(text))
        if code is None:
            self.missed += 1
        exec(text if code is None else marshal.loads(code), *namespaces)  # noqa: S102, S302  # as dataclasses does


def digest(text: str) -> bytes:
    """Return the key of a text."""
    return blake2b(text.encode(), digest_size=16).digest()


def use(path: str = COMPILED) -> Compiled | None:
    """Let dataclasses that are defined from now on use the file; None, and nothing changes, if there is none."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return None
    compiled = Compiled(marshal.loads(content))  # noqa: S302
    dataclasses.exec = compiled  # type: ignore[attr-defined]
    return compiled
