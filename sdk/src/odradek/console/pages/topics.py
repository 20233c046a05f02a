"""Topics: the list, and what a topic is made of: partitions, configuration, consumers, ACLs, deletion."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.types import TopicDescription
from odradek.console.forms import Fields, query_of
from odradek.console.pages.base import action, confirm_name, is_read_only, page, render, state_of
from odradek.console.rendering import url
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import AclFilter, PatternType, ResourceType
from odradek.model.topic_partition import TopicPartition
from odradek.operations import topics as ops
from odradek.operations.cluster import Cluster
from odradek.operations.security import acl_row
from odradek.operations.skew import SAMPLE_MAX, key_skew
from odradek.operations.storage import SegmentMap
from odradek.patterns import PatternInvalid, compile_pattern

PAGE_ROWS = 50
BY_NUMBERS, BY_CONFIGS = ("records", "size"), ("cleanup", "retention")
SORTS = ("name", "partitions", *BY_NUMBERS, *BY_CONFIGS)
COLUMNS = ("cleanup.policy", "retention.ms")
_ALL_AT_ONCE = 2_000  # topics whose records and sizes are read for a sort
TABS = ("partitions", "storage", "keys", "configuration", "consumers", "acls", "delete")
_PIECES_SHOWN = 200
_SAMPLE = 1_000
_LINE = 0.4  # percent of a picture's width
_APART = 2.5  # percent: numbers of two marks need so much room
COMMON = ("cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes")


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in the list; None where the caller may not see it."""

    name: str
    partitions: int
    records: int | None = None
    size_bytes: int | None = None
    cleanup: str = ""  # cleanup.policy
    retention_ms: int | None = None  # -1: unlimited; None: the topic is only compacted


_KEYS: Mapping[str, Callable[[TopicRow], Any]] = {
    "name": lambda row: row.name,
    "partitions": lambda row: row.partitions,
    "records": lambda row: row.records or 0,
    "size": lambda row: row.size_bytes or 0,
    "cleanup": lambda row: (row.cleanup, row.name),
    "retention": lambda row: math.inf if row.retention_ms in (None, -1) else row.retention_ms,
}


@page
async def topics(request: Request) -> Response:
    return await _list(request)


async def _list(request: Request, problem: str = "", form: Mapping[str, str] | None = None) -> Response:
    state, query = state_of(request), query_of(request)
    everything = list((await state.topics.get()).values())
    shows_internal = query.flag("internal")
    offered = [topic for topic in everything if shows_internal or not ops.is_internal(topic)]
    wanted, sort, descending = query.text("filter"), query.choice("sort", SORTS, "name"), query.flag("desc")
    matching, note = _matching(offered, wanted), ""
    if sort in (*BY_NUMBERS, *BY_CONFIGS) and len(matching) > _ALL_AT_ONCE:
        note = f"Sorting {len(matching):,} topics by {sort} would read them all: filter them to {_ALL_AT_ONCE:,} first."
        sort = "name"
    rows = await _read_rows(state.cluster, matching, numbers=sort in BY_NUMBERS, configs=sort in BY_CONFIGS)
    rows.sort(key=_KEYS[sort], reverse=descending)
    pages, number = _pages(len(rows), query.number("page", 1, 1, 10_000_000))
    shown = {row.name for row in rows[(number - 1) * PAGE_ROWS : number * PAGE_ROWS]}
    complete = await _read_rows(state.cluster, [topic for topic in matching if topic.name in shown])
    complete.sort(key=_KEYS[sort], reverse=descending)
    creates = (form or {}).get("name") or query.text("create")
    return render(
        request,
        "topics.html",
        rows=complete,
        total=len(matching),
        all_topics=len(offered),
        hidden=len(everything) - len(offered),
        internal=shows_internal,
        number=number,
        pages=pages,
        filter=wanted,
        sort=sort,
        desc=descending,
        note=note,
        problem=problem,
        form=form or ({"name": creates} if creates else {}),
        common=COMMON,
    )


def _matching(everything: Any, wanted: str) -> list[TopicDescription]:
    """Return the topics with a part of their name; between slashes it is a pattern (RE2). Raises KafkaError."""
    if len(wanted) > 2 and wanted[0] == wanted[-1] == "/":
        try:
            pattern = compile_pattern(wanted[1:-1])
        except PatternInvalid as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid pattern {wanted}: {error}") from None
        return [each for each in everything if pattern.occurs_in(each.name)]
    part = wanted.lower()
    return [each for each in everything if part in each.name.lower()]


def _pages(total: int, number: int) -> tuple[int, int]:
    pages = max(1, -(-total // PAGE_ROWS))
    return pages, min(number, pages)


async def _read_rows(
    cluster: Cluster, topics: Sequence[TopicDescription], *, numbers: bool = True, configs: bool = True
) -> list[TopicRow]:
    """Return rows with records and sizes, and with configurations, as far as they are asked for."""
    (counts, sizes), values = await asyncio.gather(
        _numbers(cluster, topics if numbers else ()),
        ops.configs_of(cluster.admin, [topic.name for topic in topics] if configs else [], COLUMNS),
    )
    return [_row(topic, counts, sizes, values.get(topic.name, {})) for topic in topics]


def _row(
    topic: TopicDescription,
    counts: Mapping[TopicPartition, int],
    sizes: Mapping[TopicPartition, int],
    configs: Mapping[str, str],
) -> TopicRow:
    policy, retention = configs.get("cleanup.policy", ""), configs.get("retention.ms", "")
    return TopicRow(
        topic.name,
        topic.partition_count,
        sum(counts[partition] for partition in topic.partitions)
        if all(partition in counts for partition in topic.partitions)
        else None,
        sum(sizes[partition] for partition in topic.partitions)
        if all(partition in sizes for partition in topic.partitions)
        else None,
        policy,
        int(retention) if "delete" in policy and retention else None,
    )


async def _numbers(
    cluster: Cluster, topics: Sequence[TopicDescription]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return records and bytes of partitions; none where a topic was deleted meanwhile or may not be seen."""
    partitions = [partition for topic in topics for partition in topic.partitions]
    if not partitions:
        return {}, {}
    try:
        begins, ends = await ops.offsets_of(cluster.admin, partitions)
        sizes = await ops.sizes_of(cluster.admin, topics)
    except KafkaError as error:
        if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            raise
        return {}, {}
    return {partition: ends[partition] - begins[partition] for partition in partitions}, sizes


@action(_list)
async def create(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("name")
    configs = {key: value for key, value in form.prefixed("config.").items() if value}
    for line in filter(None, map(str.strip, form.text("more").splitlines())):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid configuration {line[:80]!r}: use name=value")
        configs[key.strip()] = value.strip()
    with state.audit.noting("create topic", name):
        await ops.create_topic(state.cluster.admin, name, form.number("partitions", -1, -1, 100_000), configs)
    await state.topics.changed(name)
    return f"/topics/{name}", f"Topic {name} was created."


# --- one topic --------------------------------------------------------------------------------------------------------


@page
async def topic(request: Request) -> Response:
    return await _detail(request)


async def _detail(
    request: Request, problem: str = "", form: Mapping[str, str] | None = None, tab: str = ""
) -> Response:
    state, query, name = state_of(request), query_of(request), request.path_params["name"]
    tabs = [each for each in TABS if each != "delete" or not is_read_only(request)]
    shown = tab or query.choice("tab", tabs, "partitions")
    detail = await ops.describe_topic(state.cluster.admin, name)
    values: dict[str, Any] = {}
    if shown == "consumers":
        ends = {TopicPartition(name, each.partition): each.next_offset for each in detail.partitions}
        values["consumers"] = await ops.consumers_of(state.cluster.admin, name, ends)
    elif shown == "acls":
        values |= await _acls(state.cluster, name)
    elif shown == "storage":
        values |= await _storage(state.cluster, name, query)
    elif shown == "keys":
        values |= {"sample": query.number("sample", _SAMPLE, 1, SAMPLE_MAX), "sample_max": SAMPLE_MAX}
        values["skew"] = await key_skew(state.cluster, name, values["sample"]) if query.flag("read") else None
    elif shown == "configuration":
        values |= _configuration(state.cluster, detail)
    return render(
        request,
        "topic.html",
        topic=detail,
        tab=shown,
        tabs=tabs,
        largest=max((each.records for each in detail.partitions), default=0),
        problem=problem,
        form=form or {},
        **values,
    )


async def _storage(cluster: Cluster, name: str, query: Fields) -> dict[str, Any]:
    """Return how a partition is stored, and how far groups have come; a sentence where the store cannot be read."""
    number = query.number("partition", 0, 0, 2**31 - 1)
    try:
        async with cluster.open_store() as store:
            segments = await store.segments(name, number)
    except KafkaError as error:
        return {"map": None, "map_problem": error.message, "chosen": number}
    positions = await ops.positions_in(cluster.admin, TopicPartition(name, number))
    return {
        "map": segments,
        "map_problem": "",
        "chosen": number,
        "pieces": list(reversed(segments.pieces[-_PIECES_SHOWN:])),
        "boxes": boxes(segments),
        "marks": marks(segments, positions),
    }


def boxes(segments: SegmentMap) -> list[tuple[str, float, float, str]]:
    """Return kind, x and width in percent of each piece in a picture, and what it is; as wide as its bytes.

    Neighbours of one kind that are narrower than a line are drawn as one.
    """
    total = segments.size_bytes or 1
    drawn: list[tuple[str, float, float, str]] = []
    at = 0.0
    for piece in segments.pieces:
        width = 100 * piece.size_bytes / total
        if drawn and drawn[-1][0] == piece.kind and drawn[-1][2] < _LINE and width < _LINE:
            kind, x, before, text = drawn[-1]
            drawn[-1] = (kind, x, before + width, f"{text.partition(' to ')[0]} to {piece.end_offset:,}")
        else:
            drawn.append(
                (piece.kind, at, width, f"{piece.kind}: offsets {piece.base_offset:,} to {piece.end_offset:,}")
            )
        at += width
    return [(kind, round(x, 3), round(max(width, 0.1), 3), text) for kind, x, width, text in drawn]


@dataclass(frozen=True, slots=True)
class Mark:
    """Groups at one place of the picture."""

    number: int  # of the mark, from 1
    x: float  # percent
    positions: tuple[ops.Position, ...]


def marks(segments: SegmentMap, positions: Sequence[ops.Position]) -> list[Mark]:
    """Return where groups stand in the picture of `boxes`, within a piece by its offsets; close ones as one mark."""
    drawn: list[tuple[float, list[ops.Position]]] = []
    for position in positions:
        x = _place_of(segments, position.offset)
        if drawn and x - drawn[-1][0] < _APART:
            drawn[-1][1].append(position)
        else:
            drawn.append((x, [position]))
    return [Mark(number, round(x, 3), tuple(group)) for number, (x, group) in enumerate(drawn, 1)]


def _place_of(segments: SegmentMap, offset: int) -> float:
    """Return the place of an offset in percent of the bytes before it; records of a piece count as equally large."""
    before = 0.0
    for piece in segments.pieces:
        if offset < piece.end_offset:
            within = max(0, offset - piece.base_offset) / (piece.end_offset - piece.base_offset)
            before += within * piece.size_bytes
            break
        before += piece.size_bytes
    return 100 * before / (segments.size_bytes or 1)


def _configuration(cluster: Cluster, detail: ops.TopicDetail) -> dict[str, Any]:
    """Return what differs from the defaults, with these, and what does not."""
    changed = [row for row in detail.configs if not row.is_default]
    defaults = {}
    for row in changed:
        default = row.default
        if default is None and not cluster.is_kafka_port:
            default = ops.own_default(row.name)
        defaults[row.name] = "not told by the service" if default is None else default
    return {
        "changed": changed,
        "unchanged": [row for row in detail.configs if row.is_default],
        "defaults": defaults,
    }


async def _acls(cluster: Cluster, name: str) -> dict[str, Any]:
    try:
        found = await cluster.admin.describe_acls(AclFilter(ResourceType.TOPIC, name, PatternType.MATCH))
    except KafkaError as error:
        return {"acls": [], "acls_problem": error.message}
    return {"acls": [acl_row(each) for each in found], "acls_problem": ""}


def _again(tab: str) -> Any:
    async def again(request: Request, problem: str, form: Mapping[str, str]) -> Response:
        return await _detail(request, problem, form, tab)

    return again


@action(_again("configuration"))
async def configure(request: Request, form: Fields) -> tuple[str, str]:
    """Set what differs from what the form showed: an empty field resets to the default."""
    state, name = state_of(request), request.path_params["name"]
    before = form.prefixed("was.")
    changes = {key: value for key, value in form.prefixed("config.").items() if value != before.get(key, "")}
    where = f"/topics/{name}?tab=configuration"
    if not changes:
        return where, "Nothing was changed."
    with state.audit.noting("configure topic", f"{name}: {', '.join(sorted(changes))}"):
        await ops.change_configs(state.cluster.admin, name, changes)
    return where, f"Changed {', '.join(sorted(changes))}."


@action(_again("partitions"))
async def add_partitions(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), request.path_params["name"]
    count = form.number("count", 0, 1, 100_000)
    with state.audit.noting("add partitions", f"{name}: {count} in total"):
        await state.cluster.admin.create_partitions({name: count})
    await state.topics.changed(name)
    return f"/topics/{name}", f"Topic {name} has {count} partitions."


@action(_again("delete"))
async def delete_records(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), request.path_params["name"]
    confirm_name(form, name)
    numbers = [] if form.text("partition") in ("", "all") else [form.number("partition", 0, 0, 2**31 - 1)]
    before = -1 if form.text("before") == "" else form.number("before", -1, 0)
    plan = await ops.plan_deletion(state.cluster.admin, name, numbers, before)
    with state.audit.noting("delete records", f"{name}: {len(plan.places)} partitions"):
        deleted = await ops.delete_records(state.cluster.admin, plan)
    count = sum(each.deleted for each in deleted)
    return url(f"/topics/{name}", tab="partitions"), f"Deleted {count:,} records of {name}."


@action(_again("delete"))
async def delete(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), request.path_params["name"]
    confirm_name(form, name)
    with state.audit.noting("delete topic", name):
        await asyncio.shield(state.cluster.admin.delete_topics([name]))
    await state.topics.changed(name)
    return "/topics", f"Topic {name} was deleted."
