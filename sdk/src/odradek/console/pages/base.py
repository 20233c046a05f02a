"""What every page does: render within the frame, show an error in place, carry out a form and lead on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

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
    state: ConsoleState = request.app.state.console
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
            "theme": theme if theme in THEMES else "auto",
        },
    )
    return HTMLResponse(html, http_status)


def status_of(error: KafkaError) -> int:
    """Return the HTTP status of an error."""
    if error.code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_RECORD):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    if error.code is ErrorCode.RESOURCE_NOT_FOUND:
        return HTTPStatus.NOT_FOUND
    return error.code.http_status


def page(show: Callable[..., Awaitable[Response]]) -> Handler:
    """Turn a function that shows a page into a handler: an error is shown within the frame, in plain words."""

    async def handle(request: Request) -> Response:
        try:
            return await show(request)
        except KafkaError as error:
            return render(request, "problem.html", status_of(error), error=error)

    return handle


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
                form = await form_of(request, state.settings.body_bytes_max)
                check_forgery(session, form)
                location, message = await carry(request, form)
            except KafkaError as error:
                try:
                    answer = await again(request, problem=error.message, form=form.shown())
                except KafkaError as worse:
                    return render(request, "problem.html", status_of(worse), error=worse)
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
