"""Produce: a record from a form, many from lines of JSON, one again as it was or changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from odradek.console.forms import Fields, place_of, query_of
from odradek.console.pages.base import action, is_read_only, page, render, state_of
from odradek.console.rendering import url
from odradek.console.state import ConsoleState
from odradek.operations.records.browse import read_one
from odradek.operations.records.formats import Decoded
from odradek.operations.records.produce import RecordForm, encoded, parse_lines, produce
from odradek.operations.records.view import Formats, RecordView

WRITABLE = ("text", "json", "hex", "base64", "avro", "protobuf")


@page
async def produce_page(request: Request) -> Response:
    return await _show(request)


async def _show(request: Request, problem: str = "", form: Mapping[str, str] | None = None) -> Response:
    state, query, name = state_of(request), query_of(request), request.path_params["name"]
    if is_read_only(request):
        raise HTTPException(403, "This console is read-only: it produces nothing.")
    count = (await state.cluster.admin.describe_topics([name]))[name].partition_count
    values: dict[str, str] = dict(form or {})
    again = query.text("again")
    if form is None and again:
        values = await _again(state, name, again)
    return render(
        request,
        "produce.html",
        name=name,
        partition_count=count,
        writable=WRITABLE,
        problem=problem,
        form=values,
        again=again,
        tab="lines" if values.get("kind") == "lines" or query.text("tab") == "lines" else "form",
    )


async def _again(state: ConsoleState, name: str, place: str) -> dict[str, str]:
    """Return the fields of the form for a record that exists, so that producing it writes the same bytes again."""
    there = place_of(place)
    if there is None:
        return {}
    found = await read_one(state.cluster, name, *there, await state.decoder(), Formats())
    return {} if found is None else form_of_record(found)


def form_of_record(record: RecordView) -> dict[str, str]:
    """Return the fields of a record."""
    values = {"headers": "\n".join(_header(each.name, each.value) for each in record.headers)}
    for part, shown in (("key", record.key), ("value", record.value)):
        if shown.is_null:
            values[f"{part}_null"] = "on"
            values[part], values[f"{part}_form"] = "", "text"
        else:
            values[part] = shown.pretty if shown.form in ("json", "avro", "protobuf") else shown.text
            values[f"{part}_form"] = shown.form
    return values


def _header(name: str, value: Decoded) -> str:
    return name if value.is_null else f"{name}: {value.text}"


@action(_show)
async def produce_records(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), request.path_params["name"]
    if form.text("kind") == "lines":
        records = await asyncio.to_thread(parse_lines, form.exactly("lines"))
    else:
        records = [await encoded(state.cluster, name, _form(form))]
    partition = None if form.text("partition") == "" else form.number("partition", 0, 0, 2**31 - 1)
    with state.audit.noting("produce", f"{name}: {len(records)} records"):
        written = await produce(state.cluster, name, records, partition=partition)
    if written.records > 1:
        return url(f"/topics/{name}/records"), f"{written.records:,} records were written to {name}."
    return (
        f"/topics/{name}/records/{written.partition}/{written.offset}",
        f"The record was written to {name}-{written.partition} at offset {written.offset}.",
    )


def _form(form: Fields) -> RecordForm:
    return RecordForm(
        None if form.flag("key_null") else form.exactly("key"),
        None if form.flag("value_null") else form.exactly("value"),
        form.exactly("headers"),
        form.choice("key_form", WRITABLE, "text"),
        form.choice("value_form", WRITABLE, "text"),
        form.text("key_subject"),
        form.text("value_subject"),
    )
