"""Bounds of a query that others wait for, as in the console: memory, rows, and an end that can be asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 10_000


class QueryBounds:
    """Bounds of one query; `stop` may be called by any thread.

    Args:
        memory_bytes: that DuckDB may use; what does not fit fails, and no file of this machine takes it.
        rows_max: of the answer.
    """

    def __init__(self, memory_bytes: int, rows_max: int) -> None:
        self._memory_bytes = memory_bytes
        self._rows_max = rows_max
        self._lock = threading.Lock()
        self._connection: Any = None
        self._is_stopped = False

    def stop(self) -> None:
        """End the query, now or as soon as it begins."""
        with self._lock:
            self._is_stopped = True
            if self._connection is not None:
                self._connection.interrupt()

    def begin(self, connection: Any) -> None:
        """Put a connection within the bounds. Raises KafkaError(REQUEST_TIMED_OUT) if the query was stopped."""
        connection.execute(f"SET memory_limit = '{self._memory_bytes}B'")
        connection.execute("SET max_temp_directory_size = '0B'")
        with self._lock:
            self._check()
            self._connection = connection

    def end(self) -> None:
        """Note that the connection is closed."""
        with self._lock:
            self._connection = None

    def read(self, relation: Any) -> pa.Table:
        """Return the rows of a relation. Raises KafkaError: INVALID_REQUEST beyond rows_max, REQUEST_TIMED_OUT."""
        import pyarrow as pa

        reader = relation.to_arrow_reader(_BATCH_ROWS)
        batches, rows = [], 0
        for batch in reader:
            self._check()
            batches.append(batch)
            rows += batch.num_rows
            if rows > self._rows_max:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"the answer has more than {self._rows_max:,} rows: add LIMIT, or use `odradek query`",
                )
        return pa.Table.from_batches(batches, reader.schema)

    def _check(self) -> None:
        if self._is_stopped:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the query was stopped")
