"""Closed segments of table topics as Parquet files (format/parquet/segment.py, docs/decisions/0041).

The log never stops because of a table: what cannot be written as one, and everything where pyarrow is not installed,
stays a segment of batches, is counted and gives its reason in the log and in the topic's table state. A file is used
only after it has been read back and every batch of it says what the original says.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import NamedTuple

from odradek.engine.catalog.typed_columns import ColumnsOfTopic
from odradek.engine.maintenance.maintenance import HeldPartition
from odradek.errors import FormatError, StoreUnavailable
from odradek.extras import MissingExtra
from odradek.format.segment import Segment

TABLE_WRITER = 1
"""Version of what decides whether a segment can be a file: raise it where one that was refused may no longer be."""

_log = logging.getLogger("odradek.maintenance")


class TableSegment(NamedTuple):
    """A segment, as a columnar one if it can be.

    Attributes:
        refused_by: `TABLE_WRITER` if it cannot be one whoever tries; else 0.
        why: it is not.
        untyped_why: it is one, but without the typed columns of its schema.
    """

    segment: Segment
    refused_by: int = 0
    why: str = ""
    untyped_why: str = ""


@cache
def can_write_tables() -> bool:
    """Return True if this process has pyarrow."""
    return find_spec("pyarrow") is not None


Encoded = tuple[Segment, int]
Step = Callable[[Callable[[], Encoded | None]], Awaitable[Encoded | None]]


async def as_table(held: HeldPartition, segment: Segment, group_bytes: int, step: Step) -> TableSegment:
    """Return a segment as a columnar one, or itself if it cannot be one.

    A registry that does not answer leaves it a segment of batches, which later runs turn into a file.

    Args:
        group_bytes: stored bytes of batches in a row group; at least one batch.
        step: does one of many steps, each some seconds of work at most.

    Raises LeaseLost, as `step` does.
    """
    done = held.report.done
    try:
        typed = await held.columns.of(held.topic.name, held.topic.configs)
        made, misfits, untyped = await _encoded(held, segment, typed, group_bytes, step)
    except (
        FormatError,
        MissingExtra,
        ImportError,
        MemoryError,
        StoreUnavailable,
    ) as error:  # ImportError: damaged
        done["table_segments_refused"] += 1
        _log.warning(
            "%s-%d, offsets from %d: stays a segment of batches, not a Parquet file: %s",
            held.topic.name,
            held.partition.partition,
            segment.index.base_offset,
            error,
        )
        why = f"{held.topic.name}-{held.partition.partition}, offsets from {segment.index.base_offset}: {error}"
        return TableSegment(segment, TABLE_WRITER if isinstance(error, FormatError) else 0, why)
    done["table_segments_written"] += 1
    done["table_segments_with_recipes"] += made.index.has_recipes
    done["table_segments_untyped"] += bool(untyped)
    done["table_values_misfit"] += misfits
    return TableSegment(made, untyped_why=untyped)


async def _encoded(
    held: HeldPartition, segment: Segment, typed: ColumnsOfTopic, group_bytes: int, step: Step
) -> tuple[Segment, int, str]:
    """Return the columnar segment, how many values did not fit, and why it has no columns of the schema."""
    from odradek.columnar.table_file import encode_steps
    from odradek.columnar.typed.typed_values import SchemasNeeded, TypedValues

    untyped = typed.why
    try:
        values = TypedValues(typed.columns, typed.newest, is_prefixed=typed.is_prefixed)
    except (FormatError, MissingExtra) as error:  # fastavro or protobuf
        untyped = f"the values of {held.topic.name} have no typed columns: {error}"
        values = TypedValues(())
    keeps_values = held.config.table_keeps_values
    while True:
        steps = encode_steps(segment, values, group_bytes, held.partition.partition, keeps_values=keeps_values)
        made = None
        try:
            while made is None:
                made = await step(partial(next, steps))
        except SchemasNeeded as needed:
            await held.columns.learn(values, needed.ids)
            continue
        return *made, untyped
