"""Groups: the list, members and lag, new offsets with a dry run, deletion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.console.events import Event
from odradek.console.forms import Fields, query_of
from odradek.console.pages.base import action, confirm_name, is_read_only, page, render, state_of, streamed
from odradek.console.rendering import url
from odradek.console.state import ConsoleState
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.groups import GroupDetail, GroupRow, describe_group, describe_rows, list_groups
from odradek.operations.places import parse_place
from odradek.operations.redrive import RECORDS_MAX, dead_letters, redrive, redrive_group
from odradek.operations.resets import Reset, apply_reset, plan_reset

PAGE_ROWS = 50
_ALL_AT_ONCE = 500  # groups whose offsets are read for a sort: a request each
_ALL_AT_ONCE_REMOTE = 100  # where each is billed
BY_DETAIL = ("members", "topics", "lag")
SORTS = ("group", "type", "state", *BY_DETAIL)
KINDS = ("consumer", "classic", "share", "streams")
TABS = ("partitions", "members", "lag", "reset", "delete")
SHARE_TABS = ("partitions", "members", "lag", "flight", "letters", "reset", "delete")
READ_TABS = ("partitions", "members", "lag", "flight", "letters")
_RUNS_SHOWN = 500
_POINTS = 120


@page
async def groups(request: Request) -> Response:
    state, query = state_of(request), query_of(request)
    wanted, kind = query.text("filter").lower(), query.choice("type", KINDS, "")
    sort, descending = query.choice("sort", SORTS, "group"), query.flag("desc")
    everything = await list_groups(state.cluster.admin)
    found = [each for each in everything if wanted in each.group.lower() and kind in ("", each.type)]
    note, most = "", _ALL_AT_ONCE if state.cluster.is_loopback else _ALL_AT_ONCE_REMOTE
    if sort in BY_DETAIL and len(found) > most:
        note = f"Sorting {len(found):,} groups by {sort} would read them all: filter them to {most:,} first."
        sort = "group"
    details = await _details(state, found) if sort in BY_DETAIL else {}
    found.sort(key=lambda row: _sort_key(sort, row, details.get(row.group)), reverse=descending)
    pages = max(1, -(-len(found) // PAGE_ROWS))
    number = min(query.number("page", 1, 1, 10_000_000), pages)
    shown = found[(number - 1) * PAGE_ROWS : number * PAGE_ROWS]
    if sort not in BY_DETAIL:
        details = await _details(state, shown)
    return render(
        request,
        "groups.html",
        rows=[(row, details.get(row.group)) for row in shown],
        total=len(found),
        all_groups=len(everything),
        number=number,
        pages=pages,
        filter=query.text("filter"),
        kind=kind,
        kinds=KINDS,
        sort=sort,
        desc=descending,
        note=note,
    )


async def _details(state: ConsoleState, rows: Sequence[GroupRow]) -> dict[str, GroupDetail]:
    return {detail.group: detail for detail in await describe_rows(state.cluster.admin, rows)}


def _sort_key(sort: str, row: GroupRow, detail: GroupDetail | None) -> tuple[Any, str]:
    """Return what a row is sorted by; a number that is not known is below all others."""
    if sort in BY_DETAIL:
        values = {} if detail is None else {
            "members": len(detail.members), "topics": len(detail.topics), "lag": detail.lag
        }  # fmt: skip
        value = values.get(sort)
        return -1 if value is None else value, row.group
    return getattr(row, sort), row.group


@page
async def group(request: Request) -> Response:
    return await _detail(request)


async def _detail(
    request: Request,
    problem: str = "",
    form: Mapping[str, str] | None = None,
    tab: str = "",
    reset: Reset | None = None,
) -> Response:
    query = query_of(request)
    group_id = (form or {}).get("id") or query.text("id")
    state = state_of(request)
    found = await describe_group(state.cluster.admin, group_id)
    everything = SHARE_TABS if found.is_share else TABS
    tabs = [each for each in everything if each in READ_TABS or not is_read_only(request)]
    shown = tab or query.choice("tab", tabs, "partitions")
    values: dict[str, Any] = {}
    if shown == "lag":
        values["points"] = state.sampler.past.lag_of(group_id)
    elif shown == "flight":
        values |= await _in_flight(state, group_id)
    elif shown == "letters":
        values["letters"] = await dead_letters(state.cluster, group_id)
        values["redrive_group"] = redrive_group(group_id)
    return render(
        request,
        "group.html",
        group=found,
        tab=shown,
        tabs=tabs,
        **values,
        problem=problem,
        form=form or {},
        reset=reset,
    )


async def _in_flight(state: ConsoleState, group_id: str) -> dict[str, Any]:
    try:
        async with state.cluster.open_store() as store:
            runs = await store.in_flight(group_id)
    except KafkaError as error:
        return {"runs": [], "runs_problem": error.message, "now_ms": 0, "counts": {}}
    counts: dict[str, int] = {}
    for each in runs:
        counts[each.state] = counts.get(each.state, 0) + each.end_offset - each.first_offset
    return {"runs": runs[:_RUNS_SHOWN], "runs_problem": "", "now_ms": state.clock.now_ms(), "counts": counts}


@page
async def lag_events(request: Request) -> Response:
    """The lag of a group: what was seen, then what is."""
    state = state_of(request)
    group_id = query_of(request).text("id")
    await describe_group(state.cluster.admin, group_id)  # a group that does not exist is an error here, not later
    return streamed(request, _lags(state, group_id))


async def _lags(state: ConsoleState, group_id: str) -> AsyncGenerator[Event]:
    past = state.sampler.past
    for _, lag in past.lag_of(group_id)[-_POINTS:]:
        yield "rates", {"lag": lag, "topics": []}
    while True:
        look = state.sampler.last if not state.cluster.is_loopback else await state.sampler.look()
        known = None if look is None or look.numbers is None else look.numbers.lag.get(group_id)
        if known is None:  # the service does not say, or the group is new
            known = (await describe_group(state.cluster.admin, group_id)).lag or 0
        past.note_lag(group_id, state.clock.now_ms(), int(known))
        yield "rates", {"lag": int(known), "topics": []}
        await asyncio.sleep(state.sampler.every_s)


def _again(tab: str) -> Any:
    async def again(request: Request, problem: str, form: Mapping[str, str]) -> Response:
        return await _detail(request, problem, form, tab)

    return again


async def _planned(request: Request, form: Fields) -> Reset:
    """Return the reset that a form asks for. Raises KafkaError."""
    to, shift = form.text("to"), form.text("shift")
    if bool(to) == bool(shift):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "choose where to: an offset, a time, or a number of records to move by"
        )
    return await plan_reset(
        state_of(request).cluster.admin,
        form.text("id"),
        topics=[form.text("topic")] if form.text("topic") else [],
        place=parse_place(to, "to") if to else None,
        shift=form.number("shift", 0) if shift else None,
    )


@page
async def preview(request: Request) -> Response:
    """The dry run: a GET, since it changes nothing."""
    form = query_of(request)
    try:
        reset = await _planned(request, form)
    except KafkaError as error:
        answer = await _detail(request, error.message, form.shown(), "reset")
        answer.status_code = 422
        return answer
    return await _detail(request, "", form.shown(), "reset", reset)


@action(_again("reset"))
async def reset_offsets(request: Request, form: Fields) -> tuple[str, str]:
    state, group_id = state_of(request), form.text("id")
    reset = await _planned(request, form)
    with state.audit.noting("reset offsets", f"{group_id}: {len(reset.target)} partitions"):
        await apply_reset(state.cluster.admin, reset)
    return url(
        "/groups/detail", id=group_id
    ), f"Group {group_id} continues at new offsets in {len(reset.target)} partitions."


@action(_again("letters"))
async def redrive_letters(request: Request, form: Fields) -> tuple[str, str]:
    state, group_id = state_of(request), form.text("id")
    limit = form.number("limit", RECORDS_MAX, 1, RECORDS_MAX)
    with state.audit.noting("redrive dead letters", group_id):
        done = await redrive(state.cluster, group_id, limit)
    return (
        url("/groups/detail", id=group_id, tab="letters"),
        f"{done.sent:,} records were sent back, {done.passed_over:,} passed over, {done.left:,} are left.",
    )


@action(_again("delete"))
async def delete(request: Request, form: Fields) -> tuple[str, str]:
    state, group_id = state_of(request), form.text("id")
    confirm_name(form, group_id)
    with state.audit.noting("delete group", group_id):
        await state.cluster.admin.delete_consumer_groups([group_id])
    return "/groups", f"Group {group_id} was deleted."
