"""Jobs: scripts that run beside the console, a deployment's jobs on Glue with their runs, and the installed ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.console.forms import Fields, query_of
from odradek.console.pages.base import action, page, render, state_of
from odradek.console.rendering import url
from odradek.console.state import ConsoleState
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import MissingExtra
from odradek.operations.jobs.installed import installed_jobs
from odradek.operations.jobs.runs import job_rows, metrics_of, parse_arguments, runs_of, start_run, stop_run
from odradek.operations.sql.graph import graph_of
from odradek.operations.sql.script import check_script
from odradek.ports.job_runs import JobRuns

_RUNS_SHOWN = 50
_CHART = (300, 60)  # width and height of a drawing of lag


@page
async def jobs(request: Request) -> Response:
    return await _list(request)


async def _list(request: Request, problem: str = "", form: Mapping[str, str] | None = None) -> Response:
    state = state_of(request)
    rows: list[Any] = []
    has_glue, unavailable = True, ""
    try:
        rows = await asyncio.to_thread(job_rows, await _glue(state))
    except MissingExtra as error:
        unavailable = str(error)
    except KafkaError as error:
        has_glue = error.code is not ErrorCode.RESOURCE_NOT_FOUND
        unavailable = error.message
    here = [] if state.sql_jobs is None else await asyncio.to_thread(state.sql_jobs.rows)
    return render(
        request,
        "jobs.html",
        rows=rows,
        has_glue=has_glue,
        unavailable=unavailable,
        scripts=here,
        graphs={each.name: graph_of(check_script(each.script).statements) for each in here},
        can_run=state.sql_jobs is not None,
        installed=await asyncio.to_thread(installed_jobs),
        now_ms=state.clock.now_ms(),
        problem=problem,
        form=form or {},
    )


async def _glue(state: ConsoleState) -> JobRuns:
    """Return the deployment's jobs. Raises KafkaError(RESOURCE_NOT_FOUND) where there are none."""
    found = await asyncio.to_thread(state.cluster.job_runs)
    if found is None:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "this service has no jobs on Glue")
    return found


@page
async def runs(request: Request) -> Response:
    return await _runs(request)


async def _runs(request: Request, problem: str = "", form: Mapping[str, str] | None = None) -> Response:
    state = state_of(request)
    name = (form or {}).get("name") or query_of(request).text("name")
    glue, now_ms = await _glue(state), state.clock.now_ms()
    found = await asyncio.to_thread(runs_of, glue, name, _RUNS_SHOWN)
    queries, untold = [], ""
    try:
        queries = await asyncio.to_thread(metrics_of, glue, name, now_ms)
    except KafkaError as error:
        untold = error.message
    return render(
        request,
        "job.html",
        name=name,
        runs=found,
        active=[each for each in found if each.is_active],
        queries=queries,
        untold=untold,
        lines={each.query: _line(each.lag_history) for each in queries},
        shown_max=_RUNS_SHOWN,
        now_ms=now_ms,
        problem=problem,
        form=form or {},
    )


def _line(points: tuple[tuple[int, float], ...]) -> str:
    """Return the path of a chart, empty for less than two points."""
    if len(points) < 2:
        return ""
    width, height = _CHART
    begin, end = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1
    return "M" + " L".join(
        f"{width * (at - begin) / max(end - begin, 1):.1f},{height - 2 - (height - 6) * value / top:.1f}"
        for at, value in points
    )


@action(_runs)
async def start(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("name")
    arguments = parse_arguments([line for line in form.exactly("arguments").splitlines() if line.strip()])
    glue = await _glue(state)
    with state.audit.noting("start job", name):
        run_id = await asyncio.to_thread(start_run, glue, name, arguments)
    return url("/jobs/runs", name=name), f"Run {run_id} of {name} is starting."


@action(_runs)
async def stop(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("name")
    glue = await _glue(state)
    with state.audit.noting("stop job", name):
        run_id = await asyncio.to_thread(stop_run, glue, name, form.text("run_id"))
    return url("/jobs/runs", name=name), f"Run {run_id} of {name} is stopping."
