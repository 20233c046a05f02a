"""The kept results of the matrix, and the table of docs/CLIENTS.md that is made from them (`make reference`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.peers.clients.matrix import CLIENTS, CODECS, TASKS
from tests.peers.clients.run import Result

KEPT = Path(__file__).parent / "kept.json"
PAGE = Path(__file__).parents[3] / "docs" / "CLIENTS.md"
BEGIN, END = "<!-- clients: made by `make reference` -->\n", "<!-- clients: end -->\n"

_COLUMNS: dict[str, tuple[str, ...]] = {
    "codecs": CODECS,
    "LogAppendTime": ("log_append_time",),
    "group": ("group",),
    "transactions": ("transaction",),
    "PLAIN": ("plain", "plain_tls"),
    "SCRAM": ("scram", "scram_tls"),
    "topics, configs, groups": ("topics", "configs", "groups"),
    "times": ("times",),
}


def keep(results: Iterable[Result]) -> None:
    """Write results over the kept ones of the same versions; versions that left the matrix are dropped."""
    kept = {(result.client, result.version): result for result in read()}
    kept |= {(result.client, result.version): result for result in results}
    ordered = [kept[client.name, client.version] for client in CLIENTS if (client.name, client.version) in kept]
    KEPT.write_text(json.dumps([asdict(result) for result in ordered], indent=1) + "\n")


def read() -> list[Result]:
    """Return the kept results."""
    if not KEPT.exists():
        return []
    return [Result(**load) for load in json.loads(KEPT.read_text())]


def table() -> str:
    """Return the table of the page, and what its notes say."""
    notes: list[str] = []
    rows = [("client", *_COLUMNS), ("---",) * (len(_COLUMNS) + 1)]
    for result in read():
        if result.missing:
            rows.append(
                (f"{result.client} {result.version}", f"not run: {result.missing}", *[""] * (len(_COLUMNS) - 1))
            )
            continue
        cells = [_cell(result, tasks, notes) for tasks in _COLUMNS.values()]
        rows.append((f"{result.client} {result.version}", *cells))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]).rstrip() + "\n"


def _cell(result: Result, tasks: Sequence[str], notes: list[str]) -> str:
    outcomes = {task: result.tasks.get(task, "failed: not run") for task in tasks}
    good = [task for task, outcome in outcomes.items() if outcome == "ok"]
    reasons: list[str] = []
    for task, outcome in outcomes.items():
        outcome_kind, _, why = outcome.partition(": ")
        if outcome_kind in ("expected", "failed"):
            note = why if outcome_kind == "expected" else f"{TASKS[task]}: {why}"
            if note not in notes:
                notes.append(note)
            reasons.append(f"({notes.index(note) + 1})")
    absent = all(outcome.startswith("absent") for outcome in outcomes.values())
    if absent:
        return "-"
    shown = "yes" if len(good) == len(tasks) else ", ".join(good) or "no"
    return " ".join([shown, *dict.fromkeys(reasons)])


def page() -> str:
    """Return docs/CLIENTS.md with the table of the kept results."""
    text = PAGE.read_text()
    before, _, after_begin = text.partition(BEGIN)
    _, _, after = after_begin.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
