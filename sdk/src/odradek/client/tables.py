"""A served table: rows by key, by range, and changes. `odradek.Table`, and `odradek.aio.Table`.

table = Table("by_hour", bootstrap_servers="https://...")
table.get("JFK")                            the row, or None; of a windowed table the newest window
table.windows("JFK", from_ms=..., to_ms=...)
table.get_many(["JFK", "LGA"])
table.get("JFK", min_offset=metadata)       contains the record that was just sent
for row in table.range("A", "M"): ...
for change in table.changes(): ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.client.admin.admin import Admin
from odradek.client.config import AdminConfig
from odradek.client.producer.record_future import RecordMetadata
from odradek.client.sync_face import SyncFace
from odradek.errors import ErrorCode, KafkaError
from odradek.model.table import TableAnswer, TableChange, TableRow, TableStatus

T = TypeVar("T")

MinOffset = Mapping[int, int] | RecordMetadata | None
"""What an answer must contain: offsets by partition, or the record that a producer has sent."""

_PAGE = 500


class AsyncTable:
    """A served table. Use it as an async context manager, or call `start` and `close`.

    Args:
        name: of the table.
        config, configs: as of `odradek.Admin`.

    Attributes:
        covered: of the last answer: per partition, the offset below which every record is in it.
    """

    def __init__(self, name: str, config: AdminConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self.name = name
        self.covered: Mapping[int, int] = {}
        self._admin = Admin(config, **configs)

    async def start(self) -> Self:
        """Connect to the service. Raises KafkaError."""
        await self._admin.start()
        return self

    async def close(self) -> None:
        """Release connections."""
        await self._admin.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def get(
        self, key: str, *, window: int | None = None, min_offset: MinOffset = None, wait_ms: int | None = None
    ) -> TableRow | None:
        """Return the row of a key, None if there is none.

        Args:
            key: as text; a JSON key as JSON, bytes in base64.
            window: the start of a window, in ms; None: the newest one.
            min_offset: what the answer must contain.
            wait_ms: how long to wait for that, 5,000 unless given, at most 20,000.

        Raises:
            KafkaError: RESOURCE_NOT_FOUND, OFFSET_NOT_AVAILABLE: it is not in the table yet ...
        """
        response = await self._admin.get_row(
            self.name, key, window=window, min_offset=_offsets(min_offset), wait_ms=wait_ms
        )
        return self._newest(response)

    async def windows(
        self,
        key: str,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        min_offset: MinOffset = None,
        wait_ms: int | None = None,
    ) -> list[TableRow]:
        """Return the rows of a key in the order of their windows: those that start in [from_ms, to_ms)."""
        response = await self._admin.get_row(
            self.name, key, from_ms=from_ms, to_ms=to_ms, min_offset=_offsets(min_offset), wait_ms=wait_ms
        )
        self.covered = response.covered
        return list(response.rows)

    async def get_many(
        self,
        keys: Sequence[str],
        *,
        window: int | None = None,
        min_offset: MinOffset = None,
        wait_ms: int | None = None,
    ) -> list[TableRow | None]:
        """Return the rows of up to 100 keys, in the order of the keys; None where there is none."""
        answers = await self._admin.get_rows(
            self.name, keys, window=window, min_offset=_offsets(min_offset), wait_ms=wait_ms
        )
        return [self._newest(response) for response in answers]

    async def range(
        self,
        first: str | None = None,
        before: str | None = None,
        *,
        prefix: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        min_offset: MinOffset = None,
        wait_ms: int | None = None,
    ) -> AsyncIterator[TableRow]:
        """Yield rows in the order of their keys' bytes, then of windows; pages are read as they are needed.

        Args:
            first, before: the first key, and the key before which the range ends; None: no bound.
            prefix: of all keys, instead of these.
            from_ms, to_ms: windows that start in [from_ms, to_ms).
        """
        cursor, limit = "", _PAGE
        while True:
            try:
                response = await self._admin.range_rows(
                    self.name,
                    first,
                    before,
                    prefix=prefix,
                    from_ms=from_ms,
                    to_ms=to_ms,
                    limit=limit,
                    cursor=cursor,
                    min_offset=_offsets(min_offset),
                    wait_ms=wait_ms,
                )
            except KafkaError as error:
                if error.code is not ErrorCode.RECORD_LIST_TOO_LARGE or limit == 1:
                    raise
                limit = max(1, limit // 4)  # large rows
                continue
            self.covered = response.covered
            for row in response.rows:
                yield row
            cursor = response.cursor
            if not cursor:
                return

    async def changes(
        self, key: str | None = None, *, after: str | None = None, wait_ms: int | None = None
    ) -> AsyncIterator[TableChange]:
        """Yield changes of the table, or of a key, as they come: from now on, without end.

        Args:
            after: go on after this place (`place`); None: from now on.
            wait_ms: how long one request waits for a change.
        """
        position = after
        while True:
            changes, position = await self._admin.table_changes(self.name, key, after=position, wait_ms=wait_ms)
            for change in changes:
                yield change

    async def describe(self) -> TableStatus:
        """Return what the table covers of each partition."""
        return await self._admin.describe_table(self.name)

    def _newest(self, response: TableAnswer) -> TableRow | None:
        self.covered = response.covered
        return response.rows[-1] if response.rows else None


class Table(SyncFace[AsyncTable], of=AsyncTable):
    """A served table: the synchronous face of `odradek.aio.Table`. Use it as a context manager, or `close` it.

    Args:
        name: of the table.
        config, configs: as of `odradek.Admin`.
    """

    def __init__(self, name: str, config: AdminConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        super().__init__(AsyncTable(name, config, **configs).start)

    @property
    def name(self) -> str:
        """Its name."""
        return self._client.name

    @property
    def covered(self) -> Mapping[int, int]:
        """Of the last answer: per partition, the offset below which every record is in it."""
        return self._client.covered

    def get(
        self, key: str, *, window: int | None = None, min_offset: MinOffset = None, wait_ms: int | None = None
    ) -> TableRow | None:
        return self._loop.call(self._client.get(key, window=window, min_offset=min_offset, wait_ms=wait_ms))

    def windows(
        self,
        key: str,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        min_offset: MinOffset = None,
        wait_ms: int | None = None,
    ) -> list[TableRow]:
        return self._loop.call(
            self._client.windows(key, from_ms=from_ms, to_ms=to_ms, min_offset=min_offset, wait_ms=wait_ms)
        )

    def get_many(
        self,
        keys: Sequence[str],
        *,
        window: int | None = None,
        min_offset: MinOffset = None,
        wait_ms: int | None = None,
    ) -> list[TableRow | None]:
        return self._loop.call(self._client.get_many(keys, window=window, min_offset=min_offset, wait_ms=wait_ms))

    def range(
        self,
        first: str | None = None,
        before: str | None = None,
        *,
        prefix: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        min_offset: MinOffset = None,
        wait_ms: int | None = None,
    ) -> Iterator[TableRow]:
        return self._each(
            self._client.range(
                first,
                before,
                prefix=prefix,
                from_ms=from_ms,
                to_ms=to_ms,
                min_offset=min_offset,
                wait_ms=wait_ms,
            )
        )

    def changes(
        self, key: str | None = None, *, after: str | None = None, wait_ms: int | None = None
    ) -> Iterator[TableChange]:
        return self._each(self._client.changes(key, after=after, wait_ms=wait_ms))

    def describe(self) -> TableStatus:
        return self._loop.call(self._client.describe())

    def _each(self, rows: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> T:
            return await anext(rows)

        while True:
            try:
                row = self._loop.call(following())
            except StopAsyncIteration:
                return
            yield row


def _offsets(min_offset: MinOffset) -> Mapping[int, int] | None:
    if isinstance(min_offset, RecordMetadata):
        if min_offset.offset < 0:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the record's offset is not known (acks=0, or a transaction): wait otherwise"
            )
        return {min_offset.partition: min_offset.offset}
    return min_offset
