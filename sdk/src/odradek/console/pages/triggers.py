"""Triggers: list, options, partitions, errors; create, pause, resume, set offsets after a dry run, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.console.forms import Fields, query_of
from odradek.console.pages.base import action, confirm_name, is_read_only, page, render, state_of
from odradek.console.rendering import url
from odradek.errors import ErrorCode, KafkaError
from odradek.model.trigger import StartingPosition, TriggerState, document_of
from odradek.operations.places import parse_time
from odradek.operations.triggers import (
    TriggerProgress,
    TriggerRow,
    describe_trigger,
    list_triggers,
    preview_reset,
    progress_of,
    reset_trigger,
)

TABS = ("partitions", "options", "reset", "delete")
_SHOWN = 25  # of a page: each costs a request
_PLACES = ("earliest", "latest", "time")
_NUMBERS = {  # fields of the form: the option, its default, its bounds
    "batch_size": (100, 1, 10_000),
    "batching_window_s": (0, 0, 300),
    "parallelization_factor": (1, 1, 10),
    "retry_attempts": (-1, -1, 10_000),
    "maximum_record_age_s": (-1, -1, 604_800),
    "tumbling_window_s": (0, 0, 900),
    "timeout_s": (60, 1, 840),
}
_WITHOUT = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_CONFIG)  # the service has no triggers


@page
async def triggers(request: Request) -> Response:
    return await _list(request)


async def _list(request: Request, problem: str = "", form: Mapping[str, str] | None = None) -> Response:
    state, query = state_of(request), query_of(request)
    wanted = query.text("filter").lower()
    rows: list[TriggerRow] = []
    done: dict[str, TriggerProgress] = {}
    unavailable = ""
    try:
        rows = await list_triggers(state.cluster.admin)
    except KafkaError as error:
        if error.code not in _WITHOUT:
            raise
        unavailable = error.message
    found = [row for row in rows if any(wanted in text.lower() for text in (row.name, row.topic, row.function))]
    pages = max(1, -(-len(found) // _SHOWN))
    number = min(query.number("page", 1, 1, 1_000_000), pages)
    shown = found[(number - 1) * _SHOWN : number * _SHOWN]
    if shown:
        done = await progress_of(state.cluster.admin, [row.name for row in shown])
    return render(
        request,
        "triggers.html",
        rows=shown,
        done=done,
        all_triggers=len(rows),
        total=len(found),
        number=number,
        pages=pages,
        filter=query.text("filter"),
        unavailable=unavailable,
        topics=[] if unavailable else sorted(await state.topics.get())[:1_000],
        positions=[each.value for each in StartingPosition],
        numbers=_NUMBERS,
        problem=problem,
        form=form or {},
    )


@page
async def trigger(request: Request) -> Response:
    return await _detail(request)


async def _detail(
    request: Request, problem: str = "", form: Mapping[str, str] | None = None, tab: str = ""
) -> Response:
    state, query = state_of(request), query_of(request)
    name = (form or {}).get("name") or query.text("name")
    found = await describe_trigger(state.cluster.admin, name)
    tabs = [each for each in TABS if each in ("partitions", "options") or not is_read_only(request)]
    shown = tab or query.choice("tab", tabs, "partitions")
    planned = None
    values = {**query.shown(), **(form or {})}
    if shown == "reset" and values.get("to") and not problem:
        try:
            planned = await preview_reset(state.cluster.admin, name, _place(Fields(list(values.items()))), "to")
        except KafkaError as error:
            problem = error.message
    return render(
        request,
        "trigger.html",
        422 if problem else 200,
        found=found,
        trigger=found.trigger,
        options={
            option: value
            for option, value in document_of(found.trigger, with_secret=False).items()
            if option not in ("name", "topic", "function", "state")
        },
        is_paused=found.trigger.state == TriggerState.PAUSED,
        tabs=tabs,
        tab=shown,
        planned=planned,
        problem=problem,
        form=values,
    )


def _again(tab: str) -> Any:
    async def again(request: Request, problem: str, form: Mapping[str, str]) -> Response:
        return await _detail(request, problem, form, tab)

    return again


def _place(form: Fields) -> str:
    """Return the place of a form as a command has it. Raises KafkaError(INVALID_CONFIG)."""
    to = form.text("to")
    return f"@{form.text('time')}" if to == "time" else to


@action(_list)
async def create(request: Request, form: Fields) -> tuple[str, str]:
    state = state_of(request)
    name, topic, function = form.text("name"), form.text("topic"), form.text("function")
    options: dict[str, Any] = {
        option: form.number(option, default, low, high) for option, (default, low, high) in _NUMBERS.items()
    }
    options |= {
        "starting_position": form.choice("starting_position", tuple(StartingPosition), StartingPosition.LATEST),
        "filters": [line.strip() for line in form.exactly("filters").splitlines() if line.strip()],
        "bisect": form.flag("bisect"),
        "on_failure": form.text("on_failure"),
        "group_id": form.text("group_id"),
    }
    if options["starting_position"] == StartingPosition.AT_TIMESTAMP:
        options["starting_timestamp_ms"] = parse_time(form.text("starting_timestamp"), "starting timestamp")
    with state.audit.noting("create trigger", name):
        created = await state.cluster.admin.create_trigger(name, topic, function, **options)
    done = f"Trigger {created.name} was created."
    if created.secret:
        done += f" This secret signs its calls, and is not shown again: {created.secret}"
    return url("/triggers/detail", name=created.name), done


@action(_again("partitions"))
async def steer(request: Request, form: Fields) -> tuple[str, str]:
    """Pause or resume."""
    state, name, do = state_of(request), form.text("name"), form.text("do")
    if do not in ("pause", "resume"):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a trigger can be paused and resumed, not {do!r}")
    with state.audit.noting(f"{do} trigger", name):
        if do == "pause":
            await state.cluster.admin.pause_trigger(name)
            done = f"{name} is paused: calls that are under way end."
        else:
            await state.cluster.admin.resume_trigger(name)
            done = f"{name} is enabled again."
    return url("/triggers/detail", name=name), done


@action(_again("reset"))
async def reset(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("name")
    if form.text("to") not in _PLACES:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "choose where to: the earliest record, the end, or a time")
    with state.audit.noting("reset trigger", name):
        offsets = await reset_trigger(state.cluster.admin, name, _place(form), "to")
    return url("/triggers/detail", name=name), f"Offsets of {len(offsets)} partitions were set; {name} is still paused."


@action(_again("delete"))
async def delete(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("name")
    confirm_name(form, name)
    with state.audit.noting("delete trigger", name):
        await state.cluster.admin.delete_trigger(name)
    return "/triggers", f"Trigger {name} and its offsets were deleted."
