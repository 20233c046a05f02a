"""A table written slice by slice, each once: the slices are decided and stored before they are written.

    slices.json   {"id": "...", "slices": [[low, high], ...], "done": k}

A slice contains the rows whose ordering column is in [low, high). Its index in the list is its batch number for the
sink, which adds nothing for a number that it has. So a job that dies writes the same slice again under the same number.
Rows of a slice must not change meanwhile, and new ones must not appear below the highest value seen.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.jobs.files import read_text, write_text


@dataclass(frozen=True, slots=True)
class Slices:
    """The progress of writing a table."""

    writer_id: str  # the writer of numbered batches
    slices: tuple[tuple[int, int], ...] = ()  # low inclusive, high exclusive
    done: int = 0  # slices that are written

    @property
    def high(self) -> int | None:
        """The end of the last slice; None before there is one."""
        return self.slices[-1][1] if self.slices else None

    @property
    def next(self) -> tuple[int, int] | None:
        """The slice to write next, or None."""
        return self.slices[self.done] if self.done < len(self.slices) else None

    def written(self) -> Slices:
        """Return the progress after the next slice has been written."""
        return replace(self, done=self.done + 1)

    def extended(self, low: int, end: int, step: int) -> Slices:
        """Return the progress with slices of [max(low, end of the last slice), end), of `step` each."""
        first = low if self.high is None else max(low, self.high)
        more = tuple((start, min(start + step, end)) for start in range(first, end, step))
        return replace(self, slices=(*self.slices, *more))


def load_slices(folder: str, writer_id: str) -> Slices:
    """Load the progress from a folder; new progress with this writer if there is none. Raises OSError, KafkaError."""
    path = _path(folder)
    try:
        document = json.loads(read_text(path))
        pairs = tuple((int(low), int(high)) for low, high in document["slices"])
        return Slices(str(document["id"]), pairs, int(document["done"]))
    except FileNotFoundError:
        return Slices(writer_id)
    except (ValueError, KeyError, TypeError):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{path} is damaged: start again with another checkpoint") from None


def save_slices(folder: str, slices: Slices) -> None:
    """Store the progress. Raises OSError."""
    document = {"id": slices.writer_id, "slices": slices.slices, "done": slices.done}
    write_text(_path(folder), json.dumps(document))


def numbered(options: dict[str, str], slices: Slices) -> dict[str, str]:
    """Return options of the sink for the next slice."""
    return {**options, "transactionalId": slices.writer_id, "batchId": str(slices.done)}


def quantile_step(low: int, end: int, rows: int, rows_per_slice: int) -> int:
    """Return the width of slices with about so many rows, if the rows are spread evenly."""
    return max(1, (end - low) * rows_per_slice // max(1, rows))


def _path(folder: str) -> str:
    return f"{folder.rstrip('/')}/slices.json"


def check_order(types: Sequence[tuple[str, str]], column: str) -> str:
    """Return the type of an ordering column: `bigint` for whole numbers, `timestamp` for times.

    Args:
        types: DataFrame.dtypes.

    Raises KafkaError(INVALID_CONFIG).
    """
    type_name = dict(types).get(column)
    if type_name is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown column {column}")
    if type_name in {"tinyint", "smallint", "int", "bigint"} or type_name.endswith(",0)"):
        return "bigint"
    if type_name in {"timestamp", "timestamp_ntz", "date"}:
        return "timestamp"
    raise KafkaError(
        ErrorCode.INVALID_CONFIG, f"column {column} is {type_name}: only whole numbers and times define an order"
    )
