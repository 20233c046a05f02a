"""Connectors of a Connect cluster: list, states, tasks, configuration, offsets; create, change, restart, delete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.console.forms import Fields, form_of, query_of
from odradek.console.pages.base import action, check_forgery, confirm_name, is_read_only, page, render, state_of
from odradek.console.rendering import url
from odradek.errors import ErrorCode, KafkaError
from odradek.http.json_body import NotJson, parse_json
from odradek.operations.connectors import DEFAULT_GROUP, Connectors, groups_of

TABS = ("tasks", "configuration", "offsets", "delete")
TARGETS = {"pause": ("PAUSED", "paused"), "resume": ("STARTED", "resumed"), "stop": ("STOPPED", "stopped")}
EXAMPLE = {"connector.class": "FileStreamSource", "file": "/path/to/lines.txt", "topic": "lines", "tasks.max": "1"}


@page
async def connectors(request: Request) -> Response:
    return await _list(request)


async def _list(
    request: Request, problem: str = "", form: Mapping[str, str] | None = None, checked: Any = None
) -> Response:
    state = state_of(request)
    found = groups_of(await state.topics.get())
    group = (form or {}).get("group") or query_of(request).text("group") or (found[0] if found else DEFAULT_GROUP)
    rows = await asyncio.to_thread(state.connect(group).rows) if group in found else []
    return render(
        request,
        "connectors.html",
        groups=found,
        group=group,
        rows=rows,
        failed=sum(each.failed for each in rows),
        plugins=await asyncio.to_thread(_plugins),
        problem=problem,
        checked=checked,
        form={"config": json.dumps(EXAMPLE, indent=2), **(form or {})},
    )


def _plugins() -> list[str]:
    from odradek.connect.plugins import names

    return sorted(names("connectors"))


async def _named(
    request: Request, form: Mapping[str, str] | None = None, *, creates: bool = False
) -> tuple[Connectors, str, str]:
    """Return the cluster, its group and the connector that a query or a form names.

    Args:
        creates: the cluster may be new; else one without topics is refused, since opening it would create them.
    """
    state, query = state_of(request), query_of(request)
    group = (form or {}).get("group") or query.text("group") or DEFAULT_GROUP
    name = (form or {}).get("name") or query.text("name")
    if not creates and group not in groups_of(await state.cluster.admin.list_topics()):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no Connect cluster {group!r}")
    return state.connect(group), group, name


@page
async def connector(request: Request) -> Response:
    return await _detail(request)


async def _detail(
    request: Request,
    problem: str = "",
    form: Mapping[str, str] | None = None,
    tab: str = "",
    checked: Any = None,
) -> Response:
    cluster, group, name = await _named(request, form)
    found = await asyncio.to_thread(cluster.describe, name)
    tabs = [each for each in TABS if each != "delete" or not is_read_only(request)]
    texts = {
        "config": json.dumps(found.config, indent=2, ensure_ascii=False),
        "offsets": json.dumps(
            [{"partition": each.partition, "offset": each.offset} for each in found.offsets],
            indent=2,
            ensure_ascii=False,
        ),
    }
    return render(
        request,
        "connector.html",
        group=group,
        connector=found,
        tabs=tabs,
        tab=tab or query_of(request).choice("tab", tabs, "tasks"),
        problem=problem,
        checked=checked,
        form={**texts, **(form or {})},
    )


def _again(tab: str) -> Any:
    async def again(request: Request, problem: str, form: Mapping[str, str]) -> Response:
        return await _detail(request, problem, form, tab)

    return again


async def _again_saving(request: Request, problem: str, form: Mapping[str, str]) -> Response:
    """Show the page that the form was on: of the connector if it exists, else the list."""
    if form.get("is_new"):
        return await _list(request, problem, form)
    return await _detail(request, problem, form, "configuration")


def _json(text: str, what: str, kind: type[Any]) -> Any:
    """Return JSON of a form. Raises KafkaError(INVALID_CONFIG)."""
    try:
        found = parse_json(text)
    except NotJson as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the {what} is not JSON: {error}") from None
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the {what} must be {wanted} of JSON")
    return found


def _config(form: Fields) -> dict[str, Any]:
    """Return the configuration of a form; as Connect's REST API takes it, it may be within {"config": ...}."""
    found: dict[str, Any] = _json(form.exactly("config"), "configuration", dict)
    inner = found.get("config")
    return inner if isinstance(inner, dict) else found


@page
async def check(request: Request) -> Response:
    """Check a configuration while it is typed: nothing is created."""
    form = await form_of(request, state_of(request).settings.body_bytes_max)
    check_forgery(request.scope["session"], form)
    cluster, _, name = await _named(request, form.shown(), creates=True)  # which is not opened
    try:
        config = _config(form)
        checked = await asyncio.to_thread(cluster.problems, {"name": name, **config})
    except KafkaError as error:
        checked = [("", error.message)]
    if form.flag("fragment"):
        return render(request, "connector_check.html", checked=checked)
    if form.flag("is_new"):
        return await _list(request, form=form.shown(), checked=checked)
    return await _detail(request, form=form.shown(), tab="configuration", checked=checked)


@action(_again_saving)
async def save(request: Request, form: Fields) -> tuple[str, str]:
    state = state_of(request)
    cluster, group, name = await _named(request, form.shown(), creates=form.flag("is_new"))
    if not name:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give the connector a name")
    config = _config(form)
    with state.audit.noting("save connector", f"{group}: {name}"):
        is_new = await asyncio.to_thread(cluster.save, name, config)
    for each in ("configs", "status", "offsets"):
        await state.topics.changed(f"{group}-{each}")
    where = url("/connectors/detail", group=group, name=name, tab="" if is_new else "configuration")
    return where, f"Connector {name} was {'created' if is_new else 'changed'}."


@action(_again("tasks"))
async def steer(request: Request, form: Fields) -> tuple[str, str]:
    """Pause, resume, stop or restart."""
    state = state_of(request)
    cluster, group, name = await _named(request, form.shown())
    do = form.text("do")
    if do not in (*TARGETS, "restart"):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"a connector can be paused, resumed, stopped and restarted, not {do!r}"
        )
    task = None if form.text("task") == "" else form.number("task", 0, 0, 10_000)
    with state.audit.noting(f"{do} connector", f"{group}: {name}" + ("" if task is None else f", task {task}")):
        if do == "restart":
            await asyncio.to_thread(cluster.restart, name, task, only_failed=form.flag("only_failed"))
            done = "restarts"
        else:
            target, done = TARGETS[do]
            await asyncio.to_thread(cluster.set_target, name, target)
            done = f"is being {done}"
    return url("/connectors/detail", group=group, name=name), f"{name} {done}; its workers carry it out."


@action(_again("offsets"))
async def change_offsets(request: Request, form: Fields) -> tuple[str, str]:
    state = state_of(request)
    cluster, group, name = await _named(request, form.shown())
    if form.text("do") == "reset":
        confirm_name(form, name)
        with state.audit.noting("reset offsets of connector", f"{group}: {name}"):
            done = await asyncio.to_thread(cluster.reset_offsets, name)
    else:
        offsets = _json(form.exactly("offsets"), "list of offsets", list)
        with state.audit.noting("alter offsets of connector", f"{group}: {name}"):
            done = await asyncio.to_thread(cluster.alter_offsets, name, offsets)
    return url("/connectors/detail", group=group, name=name, tab="offsets"), f"{done}."


@action(_again("delete"))
async def delete(request: Request, form: Fields) -> tuple[str, str]:
    state = state_of(request)
    cluster, group, name = await _named(request, form.shown())
    confirm_name(form, name)
    with state.audit.noting("delete connector", f"{group}: {name}"):
        await asyncio.to_thread(cluster.delete, name)
    return url("/connectors", group=group), f"Connector {name} was deleted; its offsets stay."
