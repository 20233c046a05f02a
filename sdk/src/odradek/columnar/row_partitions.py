"""The partition of each row of a table, and the rows of each partition, in their order.

    by_key       murmur2 of the key as Kafka's clients; rows without one in runs, each run to the next partition
    by_number    an integer column names the partition
    in_turn      row by row over the partitions
    by_function  a user's function of (key, value), called for each row

Each gives the partitions of all rows: a numpy array for the numba engine, a list for the Python one. `grouped` turns
them into (partition, rows) pairs that a BodyWriter takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odradek.columnar.columns import Columns
from odradek.errors import ErrorCode, KafkaError
from odradek.format.key_hash import positive_hash

Partitions = Any  # numpy int32 array, or list[int]


def by_key(
    columns: Columns, partition_count: int, sticky: int, sticky_rows: int, *, numba: bool
) -> tuple[Partitions, int]:
    """The partitions by key, and how many rows have none.

    Args:
        sticky: where the first run of rows without a key goes; the next run goes to the next partition.
        sticky_rows: length of a run.
    """
    if numba:
        import numpy as np

        from odradek.columnar.encode_numba import binary_arrays
        from odradek.columnar.kernels import choose_partitions

        chosen = np.empty(columns.row_count, np.int32)
        arrays = binary_arrays(columns.key)
        return chosen, int(choose_partitions(columns.row_count, partition_count, sticky, sticky_rows, *arrays, chosen))
    keys = [None] * columns.row_count if columns.key is None else columns.key.to_pylist()
    partitions = []
    without = 0
    for key in keys:
        if key is None:
            partitions.append((sticky + without // sticky_rows) % partition_count)
            without += 1
        else:
            partitions.append(positive_hash(key) % partition_count)
    return partitions, without


def by_number(column: pa.Array, name: str, partition_count: int, *, numba: bool) -> Partitions:
    """The partitions as a column names them.

    Raises KafkaError: INVALID_RECORD for a column of another type or with nulls; UNKNOWN_TOPIC_OR_PARTITION for a
    partition that the topic does not have.
    """
    if not pa.types.is_integer(column.type):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"column {name!r} is {column.type}: a partition is a whole number")
    if column.null_count:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"column {name!r} names no partition in {column.null_count} rows")
    bounds = pc.min_max(column).as_py()
    if len(column) and not 0 <= bounds["min"] <= bounds["max"] < partition_count:
        worst = bounds["min"] if bounds["min"] < 0 else bounds["max"]
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"column {name!r} names partition {worst}; the topic has partitions 0 to {partition_count - 1}",
        )
    if not numba:
        return column.to_pylist()
    import numpy as np

    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False).astype(np.int32))


def in_turn(row_count: int, partition_count: int, start: int, *, numba: bool) -> Partitions:
    """Row by row over the partitions, from `start` on."""
    if not numba:
        return [(start + row) % partition_count for row in range(row_count)]
    import numpy as np

    return ((np.arange(row_count, dtype=np.int64) + start) % partition_count).astype(np.int32)


def by_function(columns: Columns, choose: Callable[[bytes | None, bytes | None], int], *, numba: bool) -> Partitions:
    """Return the partitions that a function of key and value chooses."""
    keys, values = (
        [None] * columns.row_count if column is None else column.to_pylist() for column in (columns.key, columns.value)
    )
    partitions = [choose(key, value) for key, value in zip(keys, values, strict=True)]
    if not numba:
        return partitions
    import numpy as np

    return np.array(partitions, np.int32)


def grouped(partitions: Partitions, partition_count: int, *, numba: bool) -> list[tuple[int, Any]]:
    """(partition, its rows) for each partition that has any, lowest first; rows keep their order."""
    if numba:
        import numpy as np

        from odradek.columnar.kernels import group_rows

        starts = np.zeros(partition_count + 1, np.int64)
        order = np.empty(len(partitions), np.int64)
        group_rows(partitions, starts, order)
        return [
            (number, order[starts[number] : starts[number + 1]])
            for number in range(partition_count)
            if starts[number] < starts[number + 1]
        ]
    groups: dict[int, list[int]] = {}
    for row, number in enumerate(partitions):
        groups.setdefault(number, []).append(row)
    return sorted(groups.items())
