"""Topics: the list, and what a topic is made of: partitions, configuration, consumers, ACLs, deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
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
SORTS = ("name", "partitions", "records", "size")
_ALL_AT_ONCE = 2_000  # topics whose records and sizes are read for a sort
TABS = ("partitions", "storage", "keys", "configuration", "consumers", "acls", "delete")
_PIECES_SHOWN = 200
_SAMPLE = 1_000
_LINE = 4.0  # of a picture 1,000 wide
COMMON = ("cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes")


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in the list; None where the caller may not see it."""

    name: str
    partitions: int
    records: int | None = None
    size_bytes: int | None = None


@page
async def topics(request: Request) -> Response:
    return await _list(request)


async def _list(request: Request, problem: str = "", form: Mapping[str, str] | None = None) -> Response:
    state, query = state_of(request), query_of(request)
    everything = await state.topics.get()
    wanted, sort = query.text("filter"), query.choice("sort", SORTS, "name")
    descending = query.flag("desc")
    note = ""
    found = _matching(everything.values(), wanted)
    number = query.number("page", 1, 1, 10_000_000)
    if sort in ("records", "size") and len(found) > _ALL_AT_ONCE:
        note = f"Sorting {len(found):,} topics by {sort} would read them all: filter them to {_ALL_AT_ONCE:,} first."
        sort = "name"
    if sort in ("records", "size"):
        rows = await _with_numbers(state.cluster, found)
        rows.sort(key=lambda row: (row.records if sort == "records" else row.size_bytes) or 0, reverse=descending)
        total = len(rows)
        pages, number = _pages(total, number)
        rows = rows[(number - 1) * PAGE_ROWS : number * PAGE_ROWS]
    else:
        found.sort(key=lambda each: each.partition_count if sort == "partitions" else each.name, reverse=descending)
        total = len(found)
        pages, number = _pages(total, number)
        rows = await _with_numbers(state.cluster, found[(number - 1) * PAGE_ROWS : number * PAGE_ROWS])
    return render(
        request,
        "topics.html",
        rows=rows,
        total=total,
        all_topics=len(everything),
        number=number,
        pages=pages,
        filter=wanted,
        sort=sort,
        desc=descending,
        note=note,
        problem=problem,
        form=form or {},
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


async def _with_numbers(cluster: Cluster, found: Sequence[TopicDescription]) -> list[TopicRow]:
    """Return rows with records and sizes; without them where a topic was deleted meanwhile or may not be seen."""
    places = [each for topic in found for each in topic.partitions]
    try:
        begins, ends = await ops.offsets_of(cluster.admin, places) if places else ({}, {})
        sizes = await ops.sizes_of(cluster.admin, found) if found else {}
    except KafkaError as error:
        if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            raise
        return [TopicRow(each.name, each.partition_count) for each in found]
    return [
        TopicRow(
            topic.name,
            topic.partition_count,
            sum(ends[each] - begins[each] for each in topic.partitions),
            sum(sizes[each] for each in topic.partitions) if all(each in sizes for each in topic.partitions) else None,
        )
        for topic in found
    ]


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
        values["defaults"] = sum(each.is_default for each in detail.configs)
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
    """Return how a partition is stored; a sentence where the store itself cannot be read."""
    number = query.number("partition", 0, 0, 2**31 - 1)
    try:
        async with cluster.open_store() as store:
            found = await store.segments(name, number)
    except KafkaError as error:
        return {"map": None, "map_problem": error.message, "chosen": number}
    return {
        "map": found,
        "map_problem": "",
        "chosen": number,
        "pieces": list(reversed(found.pieces[-_PIECES_SHOWN:])),
        "boxes": boxes(found),
    }


def boxes(found: SegmentMap) -> list[tuple[str, float, float, str]]:
    """Return kind, x and width of each piece in a picture 1,000 wide, and what it is; by bytes, so that none is lost.

    Neighbours of one kind that are narrower than a line are drawn as one.
    """
    total = sum(each.size_bytes for each in found.pieces) or 1
    drawn: list[tuple[str, float, float, str]] = []
    at = 0.0
    for each in found.pieces:
        width = 1000 * each.size_bytes / total
        if drawn and drawn[-1][0] == each.kind and drawn[-1][2] < _LINE and width < _LINE:
            kind, x, before, text = drawn[-1]
            drawn[-1] = (kind, x, before + width, f"{text.partition(' to ')[0]} to {each.end_offset:,}")
        else:
            drawn.append((each.kind, at, width, f"{each.kind}: offsets {each.base_offset:,} to {each.end_offset:,}"))
        at += width
    return [(kind, round(x, 2), round(max(width, 1.0), 2), text) for kind, x, width, text in drawn]


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
