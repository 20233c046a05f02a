"""What every page does: render within the frame, show an error in place, carry out a form and lead on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from odradek.console.events import Event
from odradek.console.forms import Fields, form_of
from odradek.console.sessions import Session
from odradek.console.state import ConsoleState
from odradek.errors import ErrorCode, KafkaError

Handler = Callable[[Request], Awaitable[Response]]
Carry = Callable[[Request, Fields], Awaitable[tuple[str, str]]]
"""Carries out a form: returns the path that follows, and a sentence about what was done."""
Again = Callable[..., Awaitable[Response]]
"""Shows the page of a form again: (request, problem=..., form=...)."""

_REFRESH_S = 5  # between two looks of parts that change by themselves
_REFRESH_REMOTE_S = 30  # where each look is billed
THEMES = ("light", "dark", "auto")


def state_of(request: Request) -> ConsoleState:
    """Return what the pages of a console share."""
    root: ConsoleState = request.app.state.console
    state = root.named(request.scope.get("cluster", ""))
    session: Session | None = request.scope.get("session")
    return state if session is None else state.of(session)


def is_read_only(request: Request) -> bool:
    """Return True if the session changes nothing."""
    session: Session = request.scope["session"]
    return state_of(request).settings.read_only or session.is_reader


def render(request: Request, template: str, http_status: int = 200, /, **values: Any) -> Response:
    """Render a page within the frame."""
    state = state_of(request)
    session: Session = request.scope["session"]
    messages, session.messages = session.messages, []
    theme = request.cookies.get("odradek_theme", "auto")
    html = state.templates.render(
        template,
        **{
            "problem": "",
            "form": {},
            **values,
            "path": request.url.path,
            "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            "csrf": session.csrf,
            "messages": messages,
            "read_only": is_read_only(request),
            "refresh": _REFRESH_S if state.cluster.is_loopback else _REFRESH_REMOTE_S,
            "user": session.user,
            "address": state.cluster.address,
            "cluster_name": state.name,
            "others": state.others.values(),
            "home_address": request.app.state.console.cluster.address,
            "theme": theme if theme in THEMES else "auto",
        },
    )
    return HTMLResponse(html, http_status)


def streamed(request: Request, events: AsyncGenerator[Event]) -> Response:
    """Return a response that streams events while the session lasts."""
    state, session = state_of(request), request.scope["session"]
    return state.streams.response(events, lambda: state.sessions.is_open(session))


def status_of(error: KafkaError) -> int:
    """Return the HTTP status of an error."""
    if error.code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_RECORD):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    if error.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION):
        return HTTPStatus.BAD_GATEWAY
    if error.code is ErrorCode.RESOURCE_NOT_FOUND:
        return HTTPStatus.NOT_FOUND
    return error.code.http_status


def page(show: Callable[..., Awaitable[Response]]) -> Handler:
    """Turn a function that shows a page into a handler: an error is shown within the frame, in plain words."""

    async def connected(request: Request) -> Response:
        await state_of(request).connect_once()
        return await show(request)

    return session_page(connected)


def session_page(show: Callable[..., Awaitable[Response]]) -> Handler:
    """The same for a page of the session alone, which works while its cluster cannot be reached."""

    async def handle(request: Request) -> Response:
        try:
            return await show(request)
        except KafkaError as error:
            return await _problem(request, error)

    return handle


async def _problem(request: Request, error: KafkaError) -> Response:
    missing_topic = await _missing_topic(request, error)
    return render(request, "problem.html", status_of(error), error=error, missing_topic=missing_topic)


async def _missing_topic(request: Request, error: KafkaError) -> str:
    """Return the topic of a page's path if there is none of that name; "" for every other error."""
    name: str = request.path_params.get("name", "")
    if not name or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ""
    try:
        await state_of(request).cluster.admin.describe_topics([name])
    except KafkaError as missing:
        return name if missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ""
    return ""  # another partition, or a topic of another name, is missing


def action(again: Again) -> Callable[[Carry], Handler]:
    """Turn a function that carries out a form into a handler: done, it leads on (303); refused, it is shown again.

    Args:
        again: shows the page of the form.
    """

    def wrap(carry: Carry) -> Handler:
        async def handle(request: Request) -> Response:
            session: Session = request.scope["session"]
            state = state_of(request)
            form = Fields([])
            try:
                await state.connect_once()
            except KafkaError as error:  # the page of the form needs the cluster, too
                return await _problem(request, error)
            try:
                form = await form_of(request, state.settings.body_bytes_max)
                check_forgery(session, form)
                location, message = await carry(request, form)
            except KafkaError as error:
                try:
                    answer = await again(request, problem=error.message, form=form.shown())
                except KafkaError as worse:
                    return await _problem(request, worse)
                answer.status_code = status_of(error)
                return answer
            session.messages.append(message)
            return RedirectResponse(location, HTTPStatus.SEE_OTHER)

        return handle

    return wrap


def check_forgery(session: Session, form: Fields) -> None:
    """Refuse a form without the session's token."""
    import hmac

    if not hmac.compare_digest(form.text("csrf").encode(), session.csrf.encode()):
        raise HTTPException(403, "The form does not belong to this session: go back, reload the page and try again.")


def confirm_name(form: Fields, name: str) -> None:
    """Refuse a deletion that was not confirmed by typing the name. Raises KafkaError(INVALID_REQUEST)."""
    if form.text("confirm") != name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"type {name} to confirm: nothing was deleted")
