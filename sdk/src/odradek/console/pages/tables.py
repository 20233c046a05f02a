"""Served tables: what each follows, rows by key and range, and how far they are; serve, stop, resume, drop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.console.forms import Fields, query_of
from odradek.console.pages.base import action, confirm_name, is_read_only, page, render, state_of
from odradek.console.rendering import url
from odradek.console.state import ConsoleState
from odradek.errors import ErrorCode, KafkaError
from odradek.model.table import FOREVER, Format, TableState, WindowType, plain
from odradek.operations.tables import TableListing, TableRows, describe_table, get_row, list_tables, range_rows

TABS = ("rows", "partitions", "options", "drop")
_ROWS = 50
_WITHOUT = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_CONFIG)  # the service serves no tables
_RETENTION_MAX = 2**53


@page
async def tables(request: Request) -> Response:
    return await _list(request)


async def _list(request: Request, problem: str = "", form: Mapping[str, str] | None = None) -> Response:
    state, query = state_of(request), query_of(request)
    wanted = query.text("filter").lower()
    rows: list[TableListing] = []
    unavailable = ""
    try:
        rows = await list_tables(state.cluster.admin)
    except KafkaError as error:
        if error.code not in _WITHOUT:
            raise
        unavailable = error.message
    return render(
        request,
        "tables.html",
        rows=[row for row in rows if wanted in row.name.lower() or wanted in row.topic.lower()],
        total=len(rows),
        filter=query.text("filter"),
        unavailable=unavailable,
        topics=[] if unavailable else sorted(await state.topics.get())[:1_000],
        formats=[each.value for each in Format],
        windows=[each.value for each in WindowType],
        problem=problem,
        form=form or {},
    )


@page
async def table(request: Request) -> Response:
    return await _detail(request)


async def _detail(
    request: Request, problem: str = "", form: Mapping[str, str] | None = None, tab: str = ""
) -> Response:
    state, query = state_of(request), query_of(request)
    name = (form or {}).get("name") or query.text("name")
    found = await describe_table(state.cluster.admin, name)
    tabs = [each for each in TABS if each != "drop" or not is_read_only(request)]
    shown = tab or query.choice("tab", tabs, "rows")
    rows = None
    if shown == "rows" and not problem:
        try:
            rows = await _rows(state, name, query)
        except KafkaError as error:
            problem = error.message
    options = plain(found.table)
    return render(
        request,
        "table.html",
        422 if problem else 200,
        found=found,
        table=found.table,
        is_stopped=found.table.state == TableState.STOPPED,
        rows=rows,
        as_json=_as_json,
        options={each: value for each, value in options.items() if each not in ("name", "topic", "state")},
        tabs=tabs,
        tab=shown,
        problem=problem,
        form={**query.shown(), **(form or {})},
    )


async def _rows(state: ConsoleState, name: str, query: Fields) -> TableRows:
    """Return the rows of a key, or a page of a range. Raises KafkaError."""
    admin = state.cluster.admin
    key, start, end = query.exactly("key"), query.text("start"), query.text("end")
    if query.text("by") == "key":
        return await get_row(admin, name, key, start=start, end=end)
    cursor = query.text("cursor")
    return await range_rows(admin, name, prefix=key or None, start=start, end=end, limit=_ROWS, cursor=cursor)


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _again(tab: str) -> Any:
    async def again(request: Request, problem: str, form: Mapping[str, str]) -> Response:
        return await _detail(request, problem, form, tab)

    return again


@action(_list)
async def serve(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("name")
    options: dict[str, Any] = {
        "key_format": form.choice("key_format", tuple(Format), Format.STRING),
        "value_format": form.choice("value_format", tuple(Format), Format.JSON),
        "window": form.choice("window", tuple(WindowType), ""),
        "window_size_ms": form.number("window_size_ms", 0, 0, _RETENTION_MAX),
        "retention_ms": form.number("retention_ms", FOREVER, FOREVER, _RETENTION_MAX),
        "shards": form.number("shards", 0, 0, 64),
    }
    with state.audit.noting("serve table", name):
        made = await state.cluster.admin.serve_table(name, form.text("topic"), **options)
    return url("/tables/detail", name=made.name), f"Table {made.name} is served: it reads {made.topic} from its start."


@action(_again("partitions"))
async def steer(request: Request, form: Fields) -> tuple[str, str]:
    """Stop or resume."""
    state, name, do = state_of(request), form.text("name"), form.text("do")
    if do not in ("stop", "resume"):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a table can be stopped and resumed, not {do!r}")
    with state.audit.noting(f"{do} table", name):
        if do == "stop":
            await state.cluster.admin.stop_table(name)
            done = f"{name} follows its topic no more; its rows are read as they are."
        else:
            await state.cluster.admin.resume_table(name)
            done = f"{name} follows its topic again."
    return url("/tables/detail", name=name), done


@action(_again("drop"))
async def drop(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("name")
    confirm_name(form, name)
    with state.audit.noting("drop table", name):
        await state.cluster.admin.drop_table(name)
    return "/tables", f"Table {name} was dropped; its topic stays."
