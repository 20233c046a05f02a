"""Dataclasses take the code of their methods from the package's file, and do the same as without it."""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.functions import compiled_dataclasses
from odradek.functions.compiled_dataclasses import digest, use


@pytest.fixture
def recorded() -> Iterator[dict[bytes, bytes]]:
    """Return the code compiled from here on, as tools/dataclass_code.py records it."""
    codes: dict[bytes, bytes] = {}

    def record(text: str, *namespaces: Any) -> None:
        code = compile(text, "<string>", "exec")
        codes[digest(text)] = marshal.dumps(code)
        exec(code, *namespaces)

    dataclasses.exec = record  # type: ignore[attr-defined]
    yield codes
    del dataclasses.exec  # type: ignore[attr-defined]


def _point() -> Any:
    @dataclasses.dataclass(frozen=True, slots=True, order=True)
    class Point:
        x: int
        y: list[int] = dataclasses.field(default_factory=list)

    return Point


def test_code_of_the_file_is_used_and_does_the_same(recorded: dict[bytes, bytes], tmp_path: Path) -> None:
    plain = _point()
    path = tmp_path / compiled_dataclasses.FILE_NAME
    path.write_bytes(marshal.dumps(recorded))
    compiled = use(str(path))
    assert compiled is not None
    point = _point()
    assert compiled.missed == 0
    assert repr(point(1)) == repr(plain(1))
    assert point(1, [2]) == point(1, [2]) != point(1, [3])
    assert point(1, [2]) < point(2, [1])
    assert point(1).y is not point(1).y
    assert dataclasses.replace(point(1, [2]), x=3) == point(3, [2])
    with pytest.raises(dataclasses.FrozenInstanceError):
        point(1).x = 2
    other = dataclasses.make_dataclass("Other", ["a", "b"])
    assert (other(1, 2).b, compiled.missed > 0) == (2, True), "what the file lacks is compiled as usual"


def test_a_package_without_the_file_works(tmp_path: Path) -> None:
    assert use(str(tmp_path / "none")) is None
    assert "exec" not in vars(dataclasses)
