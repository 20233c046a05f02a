"""Forms: a value as bytes that many values share, and the texts of its fields between them.

    {"origin": "JFK", "delay": 5}      form  {"origin": <origin>, "delay": <delay>}      texts  "JFK"  5

Bytes and texts, joined in turn, are the value: whatever a reader of a format gets wrong costs storage, never a byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

_FORMS_MAX = 500  # of a topic: more are values without a form in common
_FORM_BYTES_MAX = 16 * 1024

Encodings = Mapping[str, str]  # of cells, by the kind of their column: each letter one to try


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of a field's text.

    Attributes:
        path: names of fields from the value on; empty: no column has it.
        encodings: in which a cell may make the text.
        null, before: as of a step of a recipe.
    """

    path: tuple[str, ...]
    encodings: Encodings
    null: bytes | None = None
    before: bytes = b""


@dataclass(frozen=True, slots=True)
class Form:
    """Bytes and holes in turn; it begins and ends with bytes."""

    parts: tuple[bytes, ...]
    holes: tuple[Hole, ...]


Split = tuple[Form, Sequence[bytes]]


class Forms(Protocol):
    """Splits the values of one schema."""

    def split(self, value: bytes) -> Split | None:
        """Return form and texts of a value; None if it has none, or too long a one."""
        ...


class KnownForms:
    """The forms of a topic, each once: those that come after many others are none."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Form] = {}

    def split(self, value: bytes, spans: Sequence[tuple[int, int, Hole]]) -> Split | None:
        """Return form and texts of a value.

        Args:
            spans: start, end and hole of each text, in order.
        """
        parts, texts = [], []
        at = size = 0
        for start, end, _ in spans:
            parts.append(value[at:start])
            texts.append(value[start:end])
            size += start - at
            at = end
        parts.append(value[at:])
        if size + len(parts[-1]) > _FORM_BYTES_MAX:
            return None
        holes = tuple(hole for _, _, hole in spans)
        name: tuple[object, ...] = (*parts, *map(id, holes))  # holes live as long as their reader
        form = self._known.get(name)
        if form is None:
            if len(self._known) >= _FORMS_MAX:
                return None
            form = self._known[name] = Form(tuple(parts), holes)
        return form, texts
