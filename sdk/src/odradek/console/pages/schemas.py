"""Schemas: subjects, versions with their differences, checks of compatibility, registration, deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.serializers.registry import Schema
from odradek.console.forms import Fields, query_of
from odradek.console.pages.base import action, check_forgery, confirm_name, page, render, state_of
from odradek.console.rendering import url
from odradek.errors import KafkaError
from odradek.operations.schemas import KINDS, LEVELS, Compatibility, difference, parse_references, pretty


@page
async def schemas(request: Request) -> Response:
    return await _list(request)


async def _list(request: Request, problem: str = "", form: Mapping[str, str] | None = None) -> Response:
    state, query = state_of(request), query_of(request)
    registry = await state.cluster.registry()
    wanted = query.text("filter").lower()
    everything = await asyncio.to_thread(registry.subjects)
    return render(
        request,
        "schemas.html",
        rows=[each for each in everything if wanted in each.subject.lower()],
        all_subjects=len(everything),
        filter=query.text("filter"),
        kinds=KINDS,
        problem=problem,
        form=form or {},
        checked=None,
    )


@page
async def subject(request: Request) -> Response:
    return await _detail(request)


async def _detail(
    request: Request,
    problem: str = "",
    form: Mapping[str, str] | None = None,
    checked: Compatibility | None = None,
) -> Response:
    state, query = state_of(request), query_of(request)
    name = (form or {}).get("subject") or query.text("subject")
    registry = await state.cluster.registry()
    found = await asyncio.to_thread(registry.subject, name)
    numbers = [each.version for each in found.versions]
    number = query.number("version", numbers[0], 1, 2**31 - 1)
    shown = next((each for each in found.versions if each.version == number), found.versions[0])
    before = next((each for each in found.versions if each.version < shown.version), None)
    against = query.number("against", before.version if before else 0, 0, 2**31 - 1)
    other = next((each for each in found.versions if each.version == against and each is not shown), None)
    return render(
        request,
        "schema.html",
        subject=found,
        shown=shown,
        other=other,
        lines=difference(other.pretty, shown.pretty) if other else [],
        used_by=await asyncio.to_thread(registry.referenced_by, name, shown.version),
        levels=LEVELS,
        kinds=KINDS,
        problem=problem,
        form={"text": pretty(found.versions[0].text), "kind": found.versions[0].kind, **(form or {})},
        checked=checked,
    )


async def _again(request: Request, problem: str, form: Mapping[str, str]) -> Response:
    """Show the page that the form was on: of the subject if it exists, else the list."""
    try:
        return await _detail(request, problem, form)
    except KafkaError:
        return await _list(request, problem, form)


def _schema(form: Fields) -> Schema:
    return Schema(form.exactly("text"), form.choice("kind", KINDS, "AVRO"), parse_references(form.text("references")))


@page
async def check(request: Request) -> Response:
    """Check a schema while it is edited: nothing is registered, and a read-only console refuses it as any form."""
    state = state_of(request)
    from odradek.console.forms import form_of

    form = await form_of(request, state.settings.body_bytes_max)
    check_forgery(request.scope["session"], form)
    registry = await state.cluster.registry()
    try:
        found = await asyncio.to_thread(registry.check, form.text("subject"), _schema(form))
    except KafkaError as error:
        found = Compatibility(False, (error.message,))
    if form.flag("fragment"):
        return render(request, "schema_check.html", checked=found)
    try:
        return await _detail(request, "", form.shown(), found)
    except KafkaError:
        return await _list(request, "" if found.is_compatible else found.messages[0], form.shown())


@action(_again)
async def register(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("subject")
    registry = await state.cluster.registry()
    with state.audit.noting("register schema", name):
        schema_id = await asyncio.to_thread(registry.add, name, _schema(form))
    return url("/schemas/detail", subject=name), f"The schema has the id {schema_id} under {name}."


@action(_again)
async def set_level(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("subject")
    level = form.choice("level", LEVELS, "")
    registry = await state.cluster.registry()
    with state.audit.noting("set compatibility", f"{name}: {level or 'the default'}"):
        await asyncio.to_thread(registry.set_level, name, level)
    return url("/schemas/detail", subject=name), f"The compatibility of {name} is {level or 'the default'}."


@action(_again)
async def delete(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("subject")
    registry = await state.cluster.registry()
    version = form.number("version", 0, 0, 2**31 - 1)
    if version:
        with state.audit.noting("delete schema version", f"{name} {version}"):
            await asyncio.to_thread(registry.delete_version, name, version)
        try:
            await asyncio.to_thread(registry.subject, name)
        except KafkaError:
            return "/schemas", f"Version {version} of {name}, its last, was deleted."
        return url("/schemas/detail", subject=name), f"Version {version} of {name} was deleted."
    confirm_name(form, name)
    with state.audit.noting("delete subject", name):
        await asyncio.to_thread(registry.delete_subject, name)
    return "/schemas", f"Subject {name} was deleted."
