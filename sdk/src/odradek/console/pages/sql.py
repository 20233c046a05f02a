"""SQL: scripts of stream SQL, checked as they are typed and run as jobs; queries over topics; records by their key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from odradek.console.forms import Fields, form_of, query_of
from odradek.console.pages.base import action, check_forgery, page, render, state_of
from odradek.console.state import ConsoleState
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import MissingExtra
from odradek.operations.records.formats import FORMATS
from odradek.operations.records.lookup import lookup
from odradek.operations.records.view import Formats
from odradek.operations.sql.graph import graph_of
from odradek.operations.sql.script import ScriptCheck, check_script, words_of

EXAMPLE = """CREATE STREAM orders (order_id INT, customer STRUCT<country STRING>, paid BOOLEAN)
  WITH (kafka_topic='orders', value_format='json');

CREATE TABLE paid_by_country AS
  SELECT customer->country AS country, COUNT(*) AS orders
  FROM orders WHERE paid GROUP BY customer->country;
"""
TABS = ("script", "query", "jobs", "lookup")
LABELS = {"script": "Stream SQL", "query": "Query", "jobs": "Jobs", "lookup": "By key"}
EXPORTS = {"csv": "text/csv; charset=utf-8", "json": "application/json", "parquet": "application/vnd.apache.parquet"}
_ROWS_SHOWN = 500
_BARS_SHOWN = 30
_PATIENCE_S = 60.0


@page
async def sql(request: Request) -> Response:
    return await _show(request)


async def _show(
    request: Request,
    problem: str = "",
    form: Mapping[str, str] | None = None,
    tab: str = "",
    text: str | None = None,
    checked: ScriptCheck | None = None,
) -> Response:
    """Show the page. A script is checked; a query and a key are looked up."""
    state, query = state_of(request), query_of(request)
    shown = tab or query.choice("tab", TABS, "script")
    script = text if text is not None else (form or {}).get("text", EXAMPLE)
    values: dict[str, Any] = {"checked": checked, "answer": None, "record": None, "graph": None, "jobs": []}
    if shown == "script" and checked is None:
        values["checked"] = await asyncio.to_thread(check_script, script)
    if values["checked"] is not None:
        values["graph"] = graph_of(values["checked"].statements)
    elif shown == "jobs" and state.sql_jobs is not None:
        values["jobs"] = await asyncio.to_thread(state.sql_jobs.rows)
        values["graphs"] = {each.name: graph_of(check_script(each.script).statements) for each in values["jobs"]}
    elif shown == "query" and query.text("text"):
        values["answer"], problem = await _answered(state, query.exactly("text"))
    elif shown == "lookup" and query.text("key"):
        values["record"], problem = await _looked_up(state, query)
    return render(
        request,
        "sql.html",
        422 if problem else 200,
        tab=shown,
        tabs=TABS,
        labels=LABELS,
        text=query.exactly("text") if shown == "query" and text is None else script,
        topics=sorted(await state.topics.get()) if shown == "lookup" else [],
        can_query=state.cluster.store is not None,
        can_run=state.sql_jobs is not None,
        formats=FORMATS,
        problem=problem,
        form={**query.shown(), **(form or {})},
        **values,
    )


@page
async def check(request: Request) -> Response:
    """Check a script: nothing is run, so that a read-only console does it, too."""
    form = await form_of(request, state_of(request).settings.body_bytes_max)
    check_forgery(request.scope["session"], form)
    text = form.exactly("text")
    checked: ScriptCheck = await asyncio.to_thread(check_script, text)
    if form.flag("fragment"):
        return render(request, "sql_check.html", text=text, checked=checked, graph=graph_of(checked.statements))
    return await _show(request, tab="script", text=text, checked=checked)


@page
async def words(request: Request) -> Response:
    """What an editor completes: words of SQL, topics, and columns of the topics that a script names."""
    state = state_of(request)
    text = query_of(request).exactly("text")[:20_000]
    registry = await state.cluster.registry_or_none()
    found = await asyncio.to_thread(words_of, text, list(await state.topics.get()), registry)
    return JSONResponse(found)


# --- queries ----------------------------------------------------------------------------------------------------------


async def _answered(state: ConsoleState, text: str) -> tuple[dict[str, Any] | None, str]:
    """Run a query; return what the page shows of the answer, or the problem."""
    from odradek.operations.query.rows import cell, is_number, names_of, numbers_of, rows_of

    try:
        answer = await state.query(text, _PATIENCE_S)
    except (KafkaError, MissingExtra) as error:
        return None, getattr(error, "message", str(error))
    table = answer.table
    names = names_of(table)
    rows = await asyncio.to_thread(rows_of, table.slice(0, _ROWS_SHOWN))
    heights = numbers_of(rows, names)
    bars: list[tuple[str, float, float]] = []
    if heights and len(names) > 1 and 0 < len(rows) <= _BARS_SHOWN:
        height = heights[-1]
        largest = max(abs(row[height] or 0) for row in rows) or 1
        bars = [
            (", ".join(str(row[name]) for name in names if name != height), row[height] or 0,
             round(abs(row[height] or 0) / largest, 4))
            for row in rows
        ]  # fmt: skip
    shown = [[cell(value) for value in row.values()] for row in rows]
    numeric = [all(is_number(row[name]) for row in rows) for name in names]
    return {
        "names": table.column_names,
        "rows": shown,
        "numeric": numeric,
        "total": table.num_rows,
        "bars": bars,
        "height": heights[-1] if heights else "",
        "misfits": answer.misfits,
    }, ""


@page
async def export(request: Request) -> Response:
    """The rows of a query as a file."""
    state, query = state_of(request), query_of(request)
    kind = query.choice("as", tuple(EXPORTS), "csv")
    answer = await state.query(query.exactly("text"), _PATIENCE_S)
    body = await asyncio.to_thread(_file, answer.table, kind)
    headers = {"Content-Disposition": f'attachment; filename="query.{kind}"'}
    return Response(body, media_type=EXPORTS[kind], headers=headers)


def _file(table: Any, kind: str) -> bytes:
    from odradek.operations.query.rows import as_csv, rows_of

    if kind == "parquet":
        import io

        import pyarrow.parquet as pq

        out = io.BytesIO()
        pq.write_table(table, out)
        return out.getvalue()
    if kind == "json":
        return (json.dumps(rows_of(table), ensure_ascii=False, indent=1) + "\n").encode()
    return as_csv(table).encode()


async def _looked_up(state: ConsoleState, query: Fields) -> tuple[Any, str]:
    formats = Formats("auto", query.choice("values", FORMATS, "auto"))
    try:
        topic, key = query.text("topic"), query.exactly("key")
        found = await lookup(state.cluster, topic, key, await state.decoder(), formats)
    except KafkaError as error:
        return None, error.message
    return found, "" if found is not None else f"no record of {topic} has the key {key!r}"


# --- jobs -------------------------------------------------------------------------------------------------------------


async def _again(request: Request, problem: str, form: Mapping[str, str]) -> Response:
    return await _show(request, problem, form, "script" if "text" in form else "jobs")


@action(_again)
async def start(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("name")
    if state.sql_jobs is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "jobs run beside an embedded service alone: `odradek sql`, or Glue")
    with state.audit.noting("start SQL job", name):
        await asyncio.to_thread(state.sql_jobs.start, name, form.exactly("text"), once=form.flag("once"))
    return "/sql?tab=jobs", f"{name} is starting: Spark takes some seconds."


@action(_again)
async def stop(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("name")
    if state.sql_jobs is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no job {name!r} runs")
    with state.audit.noting("stop SQL job", name):
        await asyncio.to_thread(state.sql_jobs.stop, name)
    return "/sql?tab=jobs", f"{name} ends after its micro-batch."
