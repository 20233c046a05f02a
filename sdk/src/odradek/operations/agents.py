"""The tools of agents: bounded looks at a log, and two changes, each with a plain result that fits a model's context.

A tool is an asynchronous method; its docstring tells an agent when to call it, and its annotations are the schema of
its arguments. Every call is made with the caller's own credentials, so ACLs apply. SQL reads the store itself: its rows
are returned only if the caller may read each of its topics over the service, too.

Bounds: records and rows of one result, characters of one value, records that a search looks at. A result that was cut
says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.operations import groups, plain, topics
from odradek.operations.cluster import Cluster
from odradek.operations.health.checks import trigger_findings
from odradek.operations.metrics import backlog_warnings, read_numbers
from odradek.operations.places import parse_place
from odradek.operations.records.browse import browse
from odradek.operations.records.export import iso_time
from odradek.operations.records.filters import Filter
from odradek.operations.records.formats import Decoder
from odradek.operations.records.produce import RecordForm, encoded, produce
from odradek.operations.records.search import Progress, search
from odradek.operations.records.view import RecordView

RECORDS_MAX = 200  # of one result; rows of SQL, too
VALUE_CHARACTERS_MAX = 2_000  # of one key or value
SCANNED_MAX = 1_000_000  # records that one search looks at
NAMES_MAX = 500  # topics or groups of one list
_QUERY_BYTES_MAX = 512 * 1024 * 1024
_LAGGING_MAX = 10

READING = (
    "list_topics", "describe_topic", "read_records", "search_records", "query_sql", "list_groups", "describe_group",
    "list_schemas", "describe_schema", "health",
)  # fmt: skip
WRITING = ("create_topic", "produce_record")
"""Names of the tools; the methods of AgentTools."""


class AgentTools:
    """The tools over one connection. Every method raises KafkaError, whose message says what to do."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._admin = cluster, cluster.admin

    # --- topics and records

    async def list_topics(self, contains: str = "") -> dict[str, Any]:
        """List topics with their partitions. Args: contains: only names with this text."""
        described = await self._admin.describe_topics()
        names = sorted(name for name in described if contains in name)
        rows = [{"topic": name, "partitions": described[name].partition_count} for name in names[:NAMES_MAX]]
        return {"topics": rows, "total": len(names)}

    async def describe_topic(self, topic: str) -> dict[str, Any]:
        """Show a topic: offsets of each partition, configurations that are not defaults, and the groups that read it
        with their lag.
        """
        detail = await topics.describe_topic(self._admin, topic)
        found = plain(detail)
        found["configs"] = {each.name: each.value for each in detail.configs if not each.is_default}
        places = (await self._admin.describe_topics([topic]))[topic].partitions
        _, ends = await topics.offsets_of(self._admin, places)
        found["consumers"] = [plain(each) for each in await topics.consumers_of(self._admin, topic, ends)]
        return {**found, "records": detail.records, "size_bytes": detail.size_bytes}

    async def read_records(
        self, topic: str, count: int = 10, start: str = "", partitions: list[int] | None = None
    ) -> dict[str, Any]:
        """Read records of a topic: the newest ones, newest first, or from a start on, oldest first.

        Args:
            count: at most 200.
            start: earliest, an offset, -N before the end, or @TIME in ISO 8601; empty: the newest records.
            partitions: only these.
        """
        page = await browse(
            self._cluster, topic, partitions=partitions or (), place=parse_place(start, "start") if start else None,
            newest_first=not start, limit=min(max(count, 1), RECORDS_MAX), decoder=await self._decoder(),
        )  # fmt: skip
        return {"records": [_record(each) for each in page.records], "next_offsets": page.ends}

    async def search_records(
        self, topic: str, text: str = "", key: str = "", where: str = "", since: str = "earliest", count: int = 20
    ) -> dict[str, Any]:
        """Search a topic for records, the newest first.

        Args:
            text: occurs in the key or the value, in any case.
            key: occurs in the key.
            where: an expression, as value.country == "CH" and offset > 100.
            since: the oldest to look at: earliest, an offset, -N, or @TIME in ISO 8601.
            count: at most 200.
        """
        limit = min(max(count, 1), RECORDS_MAX)
        records: list[RecordView] = []
        progress = Progress(0, 0, 0)
        finding = search(
            self._cluster, topic, Filter(text, key, "", where), place=parse_place(since, "since"), limit=limit,
            decoder=await self._decoder(),
        )  # fmt: skip
        async with aclosing(finding) as parts:
            async for part in parts:
                if isinstance(part, Progress):
                    progress = part
                    if part.scanned >= SCANNED_MAX:
                        break
                else:
                    records += part
        is_whole = progress.scanned >= progress.total or len(records) >= limit
        found = {"records": [_record(each) for each in records], "scanned": progress.scanned, "total": progress.total}
        return found if is_whole else found | {"note": "the search ended early: narrow it with `since`"}

    async def query_sql(self, sql: str) -> dict[str, Any]:
        """Run one SELECT of DuckDB's SQL over topics, up to the last acknowledged record; 200 rows at most.

        Tables are topics. Their columns are offset, partition, timestamp, key, value, headers and one for each field
        of JSON, Avro or Protobuf values; DESCRIBE a topic shows them.
        """
        from odradek.operations.query.query_bounds import QueryBounds
        from odradek.operations.query.rows import rows_of
        from odradek.operations.query.run import run_query

        if self._cluster.store is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "SQL reads the store itself, to which there is no access here")
        bounds = QueryBounds(_QUERY_BYTES_MAX, 100 * RECORDS_MAX)
        query = partial(run_query, sql, self._cluster.store.options(), bounds=bounds)
        try:
            answer = await asyncio.to_thread(query)
        finally:
            bounds.stop()  # whoever no longer waits for the rows wants no query
        for topic in answer.ends:  # the store knows no ACLs: the service tells whether the caller may read the topic
            await browse(self._cluster, topic, limit=1)
        rows = [{name: _cut(value) for name, value in row.items()} for row in rows_of(answer.table)[:RECORDS_MAX]]
        return {"rows": rows, "total_rows": answer.table.num_rows}

    # --- groups, schemas, health

    async def list_groups(self) -> dict[str, Any]:
        """List consumer, share and streams groups with their state, members and lag, the largest lag first."""
        described = sorted(await groups.describe_all(self._admin), key=lambda each: -(each.lag or 0))
        return {"groups": [_group(each) for each in described[:NAMES_MAX]], "total": len(described)}

    async def describe_group(self, group: str) -> dict[str, Any]:
        """Show a group: members, and for each partition the committed offset and the lag."""
        detail = await groups.describe_group(self._admin, group)
        return {**plain(detail), "lag": detail.lag}

    async def list_schemas(self) -> dict[str, Any]:
        """List the subjects of the schema registry with their latest versions."""
        registry = await self._cluster.registry()
        rows = await asyncio.to_thread(registry.subjects)
        return {"subjects": [plain(each) for each in rows[:NAMES_MAX]], "total": len(rows)}

    async def describe_schema(self, subject: str) -> dict[str, Any]:
        """Show the compatibility level of a subject and its versions, the newest first."""
        registry = await self._cluster.registry()
        found: dict[str, Any] = plain(await asyncio.to_thread(registry.subject, subject))
        return found

    async def health(self) -> dict[str, Any]:
        """Tell what needs attention: backlogs, errors of requests, the largest lags, triggers that wait."""
        numbers = await read_numbers(self._cluster.address) if self._cluster.has_metrics else None
        described = await groups.describe_all(self._admin)
        lagging = sorted((each for each in described if each.lag), key=lambda each: -(each.lag or 0))
        names = [each.name for each in await self._admin.list_triggers()] if not self._cluster.is_kafka_port else []
        statuses = [await self._admin.describe_trigger(name) for name in names]
        return {
            "address": self._cluster.address,
            "warnings": [] if numbers is None else backlog_warnings(numbers.gauges),
            "request_errors": {} if numbers is None else _largest(numbers.errors),
            "lagging_groups": [_group(each) for each in lagging[:_LAGGING_MAX]],
            "triggers": [each._asdict() for each in trigger_findings(statuses)],
        }

    # --- changes

    async def create_topic(
        self, topic: str, partitions: int = -1, configs: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Create a topic. Args: partitions: -1 takes the service's default; configs: by Kafka's names."""
        await topics.create_topic(self._admin, topic, partitions, configs or {})
        return {"created": topic}

    async def produce_record(
        self, topic: str, value: str | None, key: str | None = None, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Write one record as UTF-8 text, and wait until it is stored. Args: value: null is a tombstone."""
        record = await encoded(self._cluster, topic, RecordForm(key, value))
        record.headers.extend((name, text.encode()) for name, text in (headers or {}).items())
        written = await produce(self._cluster, topic, [record])
        return {"topic": topic, **plain(written)}

    async def _decoder(self) -> Decoder:
        registry = await self._cluster.registry_or_none()
        return Decoder() if registry is None else Decoder(registry)


def _record(record: RecordView) -> dict[str, Any]:
    found: dict[str, Any] = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": iso_time(record.timestamp_ms),
        "key": None if record.key.is_null else _cut(record.key.text),
        "value": None if record.value.is_null else _cut(record.value.text),
    }
    headers = {each.name: None if each.value.is_null else _cut(each.value.text) for each in record.headers}
    return found | ({"headers": headers} if headers else {})


def _cut(value: Any) -> Any:
    """Return a value, text of at most VALUE_CHARACTERS_MAX."""
    if isinstance(value, str) and len(value) > VALUE_CHARACTERS_MAX:
        return f"{value[:VALUE_CHARACTERS_MAX]}... ({len(value):,} characters)"
    return value


def _group(detail: groups.GroupDetail) -> dict[str, Any]:
    return {
        "group": detail.group,
        "type": detail.protocol,
        "state": detail.state,
        "members": len(detail.members),
        "topics": sorted({each.partition.rpartition("-")[0] for each in detail.partitions}),
        "lag": detail.lag,
    }


def _largest(counts: Mapping[str, float]) -> dict[str, int]:
    ordered: Iterable[tuple[str, float]] = sorted(counts.items(), key=lambda item: -item[1])
    return {name: int(count) for name, count in ordered}
