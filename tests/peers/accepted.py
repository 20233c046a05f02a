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
                probe: {path: (one, other) for path, (one, other) in places.items()}
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
    return {path: (_text(one), _text(other)) for path, (one, other) in differences.items()}


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN - 20]}... ({hashlib.sha256(text.encode()).hexdigest()[:8]})"


def to_toml(shown_by_probe: Iterable[tuple[str, Shown]]) -> str:
    """Write differences as tables of the file, to be sorted under reasons by hand."""
    return "\n".join(line for probe, places in shown_by_probe for line in _table(probe, places)) + "\n"


def renewed(accepted: Iterable[Difference], shown_by_probe: Mapping[str, Shown], head: str = "") -> str:
    """The file with what a run found of the probes that are in it; a probe without a difference leaves it.

    Args:
        shown_by_probe: of all probes that ran, those without a difference too.
        head: of the file; empty: that of differences.toml.
    """
    parts = [head or _HEAD]
    for difference in accepted:
        probes = {probe: shown_by_probe.get(probe, places) for probe, places in difference.probes.items()}
        tables = [line for probe, places in sorted(probes.items()) if places for line in _table(probe, places)]
        if tables:
            parts.append("\n".join([*_fields(difference), *tables]) + "\n")
    return "\n".join(parts)


_HEAD = """\
# Differences from Apache Kafka that are wanted, and their reasons: see accepted.py, which says how it is read, and
# __init__.py. `python -m tests.peers --renew` writes the values; `make reference` makes docs/differences.md from it.
"""


def _fields(difference: Difference) -> list[str]:
    fields = {"subject": difference.subject, "reason": difference.reason, "page": difference.page}
    return ["[[difference]]", *(f"{name} = {_quoted(text)}" for name, text in fields.items() if text)]


def _table(probe: str, places: Shown) -> list[str]:
    rows = [f"{_quoted(path)} = [{_quoted(one)}, {_quoted(other)}]" for path, (one, other) in places.items()]
    return [f"[difference.probes.{_quoted(probe)}]", *rows]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
