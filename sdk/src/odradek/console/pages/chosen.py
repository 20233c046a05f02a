"""Topics chosen in the list: deleted, or purged of their records, all of them after one confirmation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.admin.admin import Admin
from odradek.console.forms import Fields, form_of
from odradek.console.pages.base import action, check_forgery, page, render, state_of
from odradek.console.state import ConsoleState
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.topics import TopicDetail, delete_records, describe_topic, plan_deletion

CHOSEN_MAX = 500
_AT_ONCE = 8
DEEDS = ("delete", "purge")
_ACTIONS = {"delete": "delete topic", "purge": "delete records"}
_DONE = {"delete": "were deleted", "purge": "have no records any more"}


@page
async def confirm(request: Request) -> Response:
    """Show what would be lost, and ask once. Nothing is changed."""
    form = await form_of(request, state_of(request).settings.body_bytes_max)
    check_forgery(request.scope["session"], form)
    return await _confirmation(request, form, _names(form))


async def _confirmation(request: Request, form: Fields, names: Sequence[str], problem: str = "") -> Response:
    admin = state_of(request).cluster.admin
    details = await asyncio.gather(*(_described(admin, name) for name in names))
    topics = [detail for detail in details if detail is not None]
    deed = _deed(form)
    return render(
        request, "chosen.html", topics=topics, deed=deed, phrase=_phrase(deed, len(topics)), problem=problem
    )  # fmt: skip


async def _described(admin: Admin, name: str) -> TopicDetail | None:
    """Return a topic, None if it does not exist (any more)."""
    try:
        return await describe_topic(admin, name)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise


async def _again(request: Request, problem: str, form: Mapping[str, str]) -> Response:
    fields = Fields(list(form.items()))
    return await _confirmation(request, fields, _names(fields), problem)


@action(_again)
async def change(request: Request, form: Fields) -> tuple[str, str]:
    """Change each topic by itself: one that is refused keeps none of the others."""
    state, deed, names = state_of(request), _deed(form), _names(form)
    phrase = _phrase(deed, len(names))
    if form.text("confirm") != phrase:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"type {phrase} to confirm: nothing was changed")
    limit = asyncio.Semaphore(_AT_ONCE)

    async def change_one(name: str) -> KafkaError | None:
        async with limit:
            try:
                with state.audit.noting(_ACTIONS[deed], name):
                    await (_delete if deed == "delete" else _purge)(state, name)
            except KafkaError as error:
                return error
        return None

    outcomes = await asyncio.gather(*(change_one(name) for name in names))
    refusals = {name: error for name, error in zip(names, outcomes, strict=True) if error is not None}
    done = f"{len(names) - len(refusals)} of {len(names)} topics {_DONE[deed]}"
    if refusals:
        reasons = "; ".join(f"{name}: {error.message}" for name, error in refusals.items())
        raise KafkaError(next(iter(refusals.values())).code, f"{done}. Refused: {reasons}")
    return "/topics", f"{done}: {', '.join(names)}."


async def _delete(state: ConsoleState, name: str) -> None:
    await asyncio.shield(state.cluster.admin.delete_topics([name]))
    await state.topics.changed(name)


async def _purge(state: ConsoleState, name: str) -> None:
    await delete_records(state.cluster.admin, await plan_deletion(state.cluster.admin, name, [], -1))


def _names(form: Fields) -> list[str]:
    """Return the topics that a form names. Raises KafkaError(INVALID_REQUEST) for none, and for too many."""
    names = sorted({*form.all("topic"), *form.text("topics").split()})
    if not 0 < len(names) <= CHOSEN_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"tick 1 to {CHOSEN_MAX} topics in the list: {len(names):,} are ticked"
        )
    return names


def _deed(form: Fields) -> str:
    return form.choice("do", DEEDS, "purge")


def _phrase(deed: str, count: int) -> str:
    """Return what is to be typed: it says what happens to how many, so that no habit of the hand confirms it."""
    return f"{deed} {count} topic{'' if count == 1 else 's'}"
