"""The differences that are wanted: differences.toml beside this module, and the page that is made from it.

    [[difference]]
    subject = "Log directories"                                  the heading on the page
    reason = "One sentence that a user understands."
    page = "CLIENTS.md#anchor"                                   where the docs say more; may be left out
    [difference.probes."log dirs: describe all"]
    "Results[0].LogDir" = ["/kafka/log", "odradek"]              place in the answer: Apache Kafka's value, ours

A probe's differences must be these, to the letter: one more, one less and another value all fail.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "differences.toml"
_SHOWN = 200  # characters of a value; of a longer one its beginning and a digest

Shown = dict[str, tuple[str, str]]
"""Both values as text, by place."""


@dataclass(frozen=True)
class Difference:
    """One reason, and the probes that show what it explains."""

    subject: str
    reason: str
    page: str
    probes: Mapping[str, Shown]


def load(file: Path = FILE) -> list[Difference]:
    """Read the file. Raises ValueError if a probe is in it twice or a field is missing."""
    rows = tomllib.loads(file.read_text())["difference"] if file.exists() else []
    accepted = [
        Difference(
            row["subject"],
            row["reason"],
            row.get("page", ""),
            {
                probe: {place: (one, other) for place, (one, other) in places.items()}
                for probe, places in row["probes"].items()
            },
        )
        for row in rows
    ]
    names = [probe for difference in accepted for probe in difference.probes]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{file.name} has twice: {', '.join(sorted(twice))}")
    return accepted


def shown(differences: Mapping[str, tuple[Any, Any]]) -> Shown:
    """Differences as the file has them."""
    return {place: (_text(one), _text(other)) for place, (one, other) in differences.items()}


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN - 20]}... ({hashlib.sha256(text.encode()).hexdigest()[:8]})"


def to_toml(found: Iterable[tuple[str, Shown]]) -> str:
    """Write differences as tables of the file, to be sorted under reasons by hand."""
    lines = []
    for probe, places in found:
        lines.append(f"[difference.probes.{json.dumps(probe)}]")
        for place, pair in places.items():
            lines.append(f"{json.dumps(place)} = {json.dumps(list(pair), ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
