"""Transactions, cost, health, the audit trail, and the choice of colours."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from odradek.console.forms import Fields, form_of, query_of
from odradek.console.guard import is_same_site
from odradek.console.pages.base import THEMES, action, check_forgery, page, render, session_page, state_of
from odradek.console.state import ConsoleState
from odradek.errors import KafkaError
from odradek.operations.costs import estimate, parse_rate, parse_time
from odradek.operations.health.checks import check_deployment, check_reach
from odradek.operations.history import storage_dollars_month
from odradek.operations.topics import sizes_of
from odradek.operations.transactions import list_transactions

_YEAR_S = 365 * 86_400
_TOPICS_SIZED = 500  # whose sizes are read for the page of cost
_TOPICS_SHOWN = 50


@page
async def transactions(request: Request) -> Response:
    return await _transactions(request)


async def _transactions(request: Request, problem: str = "", form: Mapping[str, str] | None = None) -> Response:
    state, query = state_of(request), query_of(request)
    found = await list_transactions(state.cluster.admin, state.clock.now_ms())
    wanted, only_open = query.text("filter").lower(), query.flag("open")
    rows = [each for each in found if wanted in each.transactional_id.lower() and (each.is_open or not only_open)]
    return render(
        request,
        "transactions.html",
        rows=rows[:1_000],
        total=len(found),
        open_count=sum(each.is_open for each in found),
        filter=query.text("filter"),
        only_open=only_open,
        problem=problem,
        form=form or {},
    )


@action(_transactions)
async def abort(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("transactional_id")
    with state.audit.noting("abort transaction", name):
        await state.cluster.admin.fence_producers([name])
    return "/transactions", f"The transaction of {name} was aborted and its producer fenced."


@page
async def costs(request: Request) -> Response:
    """The what-if: a GET, so that an estimate can be shared by its URL."""
    state, query = state_of(request), query_of(request)
    values: dict[str, Any] = {"estimate": None, "problem": "", **await _spent(state)}
    defaults = {
        "rate": "5MiB/s",
        "record_bytes": "1024",
        "producers": "20",
        "consumers": "3",
        "retention": "7d",
        "partitions": "16",
    }
    form = defaults | query.shown()
    if "rate" in query:
        try:
            estimating = estimate(
                parse_rate(form["rate"]),
                record_bytes=query.number("record_bytes", 1024, 1, 4_000_000),
                producers=query.number("producers", 1, 1, 1_000_000),
                consumers=query.number("consumers", 1, 0, 1_000_000),
                retention_s=min(parse_time(form["retention"]), 100 * _YEAR_S),
                partitions=query.number("partitions", 16, 1, 100_000),
            )
            values["estimate"] = await asyncio.to_thread(
                asyncio.run, estimating
            )  # a run of the engine keeps a loop busy
        except KafkaError as error:
            values["problem"] = error.message
    return render(request, "costs.html", 422 if values["problem"] else 200, form=form, **values)


async def _spent(state: ConsoleState) -> dict[str, Any]:
    """Return what was spent by hour and topic, as far as the console watched, and what storage costs a month."""
    past = state.sampler.past
    topics = await state.topics.get()
    chosen = list(topics.values())[:_TOPICS_SIZED]
    sizes: dict[str, int] = {}
    if chosen:
        try:
            for place, size in (await sizes_of(state.cluster.admin, chosen)).items():
                sizes[place.topic] = sizes.get(place.topic, 0) + size
        except KafkaError:
            sizes = {}  # a topic was deleted meanwhile: the next look has them
    dollars = past.topics()
    names = sorted({*dollars, *sizes}, key=lambda name: (-dollars.get(name, 0.0), -sizes.get(name, 0), name))
    rows = [(name, dollars.get(name), sizes.get(name), storage_dollars_month(sizes.get(name, 0))) for name in names]
    return {
        "hours": past.hours(),
        "by_topic": rows[:_TOPICS_SHOWN],
        "more_topics": max(0, len(rows) - _TOPICS_SHOWN) + len(topics) - len(chosen),
        "has_meter": state.cluster.has_metrics,
    }


@page
async def health(request: Request) -> Response:
    """The checks that change nothing; `odradek doctor` also makes a round trip, in a topic of its own."""
    state = state_of(request)
    is_kafka_port = state.cluster.is_kafka_port
    findings = (
        []
        if not state.cluster.address.startswith("http")
        else await asyncio.to_thread(check_reach, state.cluster.address)
    )
    store = state.cluster.store
    if store is not None and store.outputs:
        findings += await asyncio.to_thread(lambda: list(check_deployment(store.outputs or {}, store.region)))
    cluster = await state.cluster.admin.describe_cluster()
    look = await state.sampler.look()
    return render(
        request,
        "health.html",
        is_kafka_port=is_kafka_port,
        findings=findings,
        cluster=cluster,
        numbers=look.numbers,
    )


@page
async def audit(request: Request) -> Response:
    state = state_of(request)
    lines = [(round(1000 * datetime.fromisoformat(line.time).timestamp()), line) for line in state.audit.lines()]
    return render(request, "audit.html", lines=lines, file=state.settings.audit_file)


@session_page
async def theme(request: Request) -> Response:
    """Remember the choice of colours in a cookie."""
    state = state_of(request)
    form = await form_of(request, state.settings.body_bytes_max)
    check_forgery(request.scope["session"], form)
    back = form.text("back")
    answer = RedirectResponse(back if is_same_site(back) else "/", 303)
    chosen = form.choice("theme", THEMES, "auto")
    answer.set_cookie("odradek_theme", chosen, max_age=_YEAR_S, samesite="strict", httponly=True)
    return answer


@session_page
async def sign_out(request: Request) -> Response:
    state = state_of(request)
    form = await form_of(request, state.settings.body_bytes_max)
    check_forgery(request.scope["session"], form)
    state.sessions.sign_out(request.scope["session"])
    return RedirectResponse("/", 303)
