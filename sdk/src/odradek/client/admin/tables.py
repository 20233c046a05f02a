"""Served tables, for the admin client: their function's REST API, which is reached over HTTPS only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from odradek.client.admin.change import NotThere
from odradek.client.config import AdminConfig
from odradek.client.connection import Connection
from odradek.client.transport.base import RequestFailed
from odradek.errors import ErrorCode, KafkaError
from odradek.model.table import (
    LIMIT_DEFAULT,
    ServedTable,
    TableAnswer,
    TableChange,
    TableStatus,
    answer_of,
    status_of,
    table_of,
)

MinOffset = Mapping[int, int]
"""Offsets of records that an answer must contain, by partition."""


class TableAdmin:
    """The calls about served tables of `Admin`; `odradek.Table` has those about rows by one name."""

    config: AdminConfig
    _connection: Connection

    async def serve_table(self, name: str, topic: str = "", **options: Any) -> ServedTable:
        """Serve a compacted topic as a table: its rows are read by key, over HTTPS.

        Args:
            topic: the name of the table unless given.
            options: of odradek.model.table.ServedTable, by name: key_format, value_format, window ...

        Raises:
            KafkaError: INVALID_REQUEST, DUPLICATE_RESOURCE, UNKNOWN_TOPIC_OR_PARTITION,
                TOPIC_AUTHORIZATION_FAILED ...
        """
        document = {"name": name, "topic": topic or name, **options}
        table_of(document)  # what is misspelt is told here
        return table_of(await self._tables("POST", (), document))

    async def list_tables(self) -> list[ServedTable]:
        """Return all served tables that the caller may describe, by name."""
        response = await self._tables("GET", ())
        return [table_of(entry) for entry in response["tables"]]

    async def describe_table(self, name: str) -> TableStatus:
        """Return a table with what it covers of each partition.

        Raises:
            KafkaError: RESOURCE_NOT_FOUND ...
        """
        return status_of(await self._tables("GET", (name,)))

    async def stop_table(self, name: str) -> ServedTable:
        """Let a table follow its topic no more; its rows are read as they are."""
        return table_of(await self._tables("POST", (name, "stop")))

    async def resume_table(self, name: str) -> ServedTable:
        """Let a table follow its topic again, from where it was."""
        return table_of(await self._tables("POST", (name, "resume")))

    async def drop_table(self, name: str) -> None:
        """Serve a table no more, and remove its rows. The topic stays."""
        await self._tables("DELETE", (name,))

    async def get_row(
        self,
        name: str,
        key: str,
        *,
        window: int | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        min_offset: MinOffset | None = None,
        wait_ms: int | None = None,
    ) -> TableAnswer:
        """Return the rows of a key: one at most, or one for each window.

        Args:
            key: as text; a JSON key as JSON, bytes in base64.
            window: the window that starts then, in ms.
            from_ms, to_ms: windows that start at `from_ms` or later, and before `to_ms`.
            min_offset: records that must be in the answer.
            wait_ms: how long to wait for them, at most 20,000.

        Raises:
            KafkaError: RESOURCE_NOT_FOUND, OFFSET_NOT_AVAILABLE: the records are not in the table yet ...
        """
        query = [*_times(window, from_ms, to_ms), *_fresh(min_offset, wait_ms)]
        return answer_of(await self._tables("GET", (name, key), query=query))

    async def get_rows(
        self,
        name: str,
        keys: Sequence[str],
        *,
        window: int | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        min_offset: MinOffset | None = None,
        wait_ms: int | None = None,
    ) -> list[TableAnswer]:
        """Return the rows of up to 100 keys, in their order. Otherwise as `get_row`."""
        query = [*_times(window, from_ms, to_ms), *_fresh(min_offset, wait_ms)]
        response = await self._tables("POST", (name,), {"keys": list(keys)}, query=query)
        return [answer_of(entry) for entry in response["answers"]]

    async def range_rows(
        self,
        name: str,
        first: str | None = None,
        before: str | None = None,
        *,
        prefix: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int = LIMIT_DEFAULT,
        cursor: str = "",
        min_offset: MinOffset | None = None,
        wait_ms: int | None = None,
    ) -> TableAnswer:
        """Return a page of rows in the order of keys.

        Args:
            first, before: the first key, and the key before which the range ends.
            prefix: of all keys, instead of these.
            from_ms, to_ms: windows that start at `from_ms` or later, and before `to_ms`.
            limit: rows of a page, at most 1,000; a page may have fewer, and still a cursor.
            cursor: of the answer before.
        """
        bounds = {"from": first, "to": before, "prefix": prefix, "cursor": cursor or None}
        query = [(name, text) for name, text in bounds.items() if text is not None]
        query += [("limit", str(limit)), *_fresh(min_offset, wait_ms)]
        query += [(f"{bound}_window", text) for bound, text in _times(None, from_ms, to_ms)]
        return answer_of(await self._tables("GET", (name,), query=query))

    async def table_changes(
        self, name: str, key: str | None = None, *, after: str | None = None, wait_ms: int | None = None
    ) -> tuple[list[TableChange], str]:
        """Return changes of a table, or of a key, and where the next ones begin; wait for one if there is none.

        Args:
            after: what the call before returned; None: nothing yet, only where changes from now on begin.
            wait_ms: how long to wait, at most 20,000.
        """
        query = [("changes", "json"), *_fresh(None, wait_ms)]
        if after is not None:
            query.append(("after", after))
        response = await self._tables("GET", (name,) if key is None else (name, key), query=query)
        return [TableChange(**change) for change in response["changes"]], response["after"]

    async def _tables(
        self,
        method: str,
        path: Sequence[str],
        document: Mapping[str, Any] | None = None,
        *,
        query: Sequence[tuple[str, str]] = (),
    ) -> dict[str, Any]:
        if path and not path[0]:  # the path of no table is that of their list
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "there is no served table without a name")
        body = b"" if document is None else json.dumps(document).encode()
        target = "/" + "/".join(quote(part, safe="", errors="surrogateescape") for part in path)
        if path and not path[-1]:
            target = "/" + "/".join(quote(part, safe="") for part in path[:-1])
            query = [("key", ""), *query]
        if query:
            target += "?" + urlencode(query, quote_via=quote, safe="", errors="surrogateescape")

        async def attempt(timeout_s: float) -> dict[str, Any]:
            call = getattr(self._connection.transport, "call_function", None)
            if call is None:
                raise RequestFailed(
                    ErrorCode.UNSUPPORTED_VERSION,
                    "tables are read over HTTPS: connect to the coordinator's URL",
                    may_have_applied=False,
                    retryable=False,
                )
            try:
                response: dict[str, Any] = await call("tables", method, target, body, timeout_s)
            except KafkaError as error:
                if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_NOT_AVAILABLE):
                    raise NotThere(error.code, error.message) from None  # the service has waited as long as was asked
                raise
            return response

        return await self._connection.retrying(attempt, "a call about tables")


def _times(window: int | None, from_ms: int | None, to_ms: int | None) -> list[tuple[str, str]]:
    times = {"window": window, "from": from_ms, "to": to_ms}
    return [(name, str(time_ms)) for name, time_ms in times.items() if time_ms is not None]


def _fresh(min_offset: MinOffset | None, wait_ms: int | None) -> list[tuple[str, str]]:
    query = [("min_offset", f"{number}:{offset}") for number, offset in (min_offset or {}).items()]
    return query + ([] if wait_ms is None else [("wait_ms", str(wait_ms))])
