"""The door of the console: everything that a request must pass before a page sees it.

    host       the Host header must name this console: a foreign name that resolves to it (DNS rebinding) is refused
    rates      of requests, of changes and of sign-ins, for each address
    session    a cookie that a one-time token was exchanged for: HttpOnly, SameSite=Strict, of this port alone
    forgery    a change must come from a page of this origin (Origin, Sec-Fetch-Site) and carry the session's token
    read-only  refuses every change
    sign-in    in a console for many: by OpenID Connect (oidc.py), in place of tokens
    headers    of every answer: a strict Content-Security-Policy, no framing, no referrer, no sniffing, no store

A GET changes nothing. Source: OWASP's cheat sheets on CSRF and CSP; Fetch Metadata Request Headers (W3C).
"""

from __future__ import annotations

from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odradek.console.rates import RateLimit
from odradek.console.rendering import Templates
from odradek.console.sessions import Session, Sessions
from odradek.console.settings import ConsoleSettings
from odradek.http.browsers import STRICT_TRANSPORT
from odradek.ports.clock import Clock

if TYPE_CHECKING:
    from odradek.console.accounts import Hosted

STATIC = "/static/"
_SIGN_IN, _CALLBACK = "/sign-in", "/callback"
_PENDING_COOKIE = "odradek_console_sign_in"
_OF_HOST = "__Host-"  # a cookie that no other host, no subdomain and no page without TLS can set
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_SAFE = ("GET", "HEAD")
_CHANGES_NOTHING = ("/sign-out", "/theme", "/schemas/check", "/connectors/check", "/sql")  # of the log
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types odradek",
    ]
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",  # with no-referrer a form would send "Origin: null"
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """ASGI middleware around the pages. A page finds its session in `scope["session"]`.

    Args:
        port: that the console listens on, for the names of the loopback interface; None takes any port (tests).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        sessions: Sessions,
        settings: ConsoleSettings,
        templates: Templates,
        clock: Clock,
        port: int | None = None,
        hosted: Hosted | None = None,
    ) -> None:
        self._app = app
        self._hosted = hosted
        self._sessions = sessions
        self._settings = settings
        self._templates = templates
        self._port = port
        self._requests = RateLimit(settings.requests_per_s, 3 * settings.requests_per_s, clock)
        self._changes = RateLimit(settings.changes_per_s, 3 * settings.changes_per_s, clock)
        self._sign_ins = RateLimit(settings.sign_ins_per_min / 60, settings.sign_ins_per_min, clock)

    @property
    def cookie(self) -> str:
        """The name of the session's cookie: browsers share cookies between the ports of a host."""
        return f"{_OF_HOST if self._is_secure else ''}odradek_console_{self._port or 0}"

    @property
    def _pending_cookie(self) -> str:
        return f"{_OF_HOST if self._is_secure else ''}{_PENDING_COOKIE}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                if self._is_secure:
                    headers.update(STRICT_TRANSPORT)
            await send(message)

        refusal = self._refuse(scope)
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        if self._hosted is not None and path in (_SIGN_IN, _CALLBACK):
            answer = await (self._begin() if path == _SIGN_IN else self._finish(scope))
            await answer(scope, receive, send_guarded)
            return
        if self._hosted is None and path == "/" and "token" in parse_qs(scope["query_string"].decode("latin-1")):
            await self._sign_in(scope)(scope, receive, send_guarded)
            return
        if not path.startswith(STATIC):
            session = self._session(Headers(scope=scope))
            if session is None:
                template = "sign_in.html" if self._hosted is None else "sign_in_oidc.html"
                await self._page(401, template, problem="")(scope, receive, send_guarded)
                return
            if session.is_reader and scope["method"] not in _SAFE and path not in _CHANGES_NOTHING:
                await self._page(403, "read_only.html")(scope, receive, send_guarded)
                return
            scope["session"] = session
        await self._app(scope, receive, send_guarded)

    # --- refusals -------------------------------------------------------------------------------------------------

    def _refuse(self, scope: Scope) -> Response | None:
        """Return the answer of a request that no page may see, or None."""
        headers = Headers(scope=scope)
        caller = self._caller(scope, headers)
        host = headers.get("host", "")
        if host.lower() not in self._hosts():
            return _plain(421, f"This console does not answer under the name {host[:100]!r}: use its own address.")
        if not self._requests.allows(caller):
            return _plain(429, "Too many requests: wait a moment.", retry=True)
        if scope["method"] in _SAFE:
            return None
        if not self._changes.allows(caller):
            return _plain(429, "Too many changes: wait a moment.", retry=True)
        if headers.get("origin", "").lower() not in self._origins(scope):
            return _plain(403, "The request does not come from a page of this console.")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _plain(403, "The request does not come from a page of this console.")
        if self._settings.read_only and scope["path"] not in _CHANGES_NOTHING:
            return self._page(403, "read_only.html")
        return None

    def _caller(self, scope: Scope, headers: Headers) -> str:
        """Return the address of the caller; behind a function URL the last one that AWS added."""
        if self._hosted is not None and headers.get("x-forwarded-for"):
            return headers["x-forwarded-for"].rpartition(",")[2].strip()
        return str((scope.get("client") or ("", 0))[0])

    def _hosts(self) -> Sequence[str]:
        if self._hosted is not None:
            return [urlsplit(self._hosted.oidc.settings.url).netloc.lower()]
        names = [*_LOOPBACK, *self._settings.hosts]
        if self._port is None:
            return names
        return [*(f"{name}:{self._port}" for name in names), *self._settings.hosts]

    def _origins(self, scope: Scope) -> Sequence[str]:
        return [f"{scheme}://{host}" for host in self._hosts() for scheme in ("http", "https")]

    # --- sessions -------------------------------------------------------------------------------------------------

    def _session(self, headers: Headers) -> Session | None:
        found = _cookie(headers, self.cookie)
        return None if found is None else self._sessions.find(found)

    def _sign_in(self, scope: Scope) -> Response:
        """Exchange the token in the URL for a session.

        The answer is a page that leads on, not a redirect: after a redirect from another site's link, a browser would
        not send the new cookie of SameSite=Strict.
        """
        caller = (scope.get("client") or ("", 0))[0]
        if not self._sign_ins.allows(caller):
            return _plain(429, "Too many attempts to sign in: wait a minute.", retry=True)
        token = parse_qs(scope["query_string"].decode("latin-1"))["token"][0]
        session = self._sessions.sign_in(token)
        if session is None:
            if self._session(Headers(scope=scope)) is not None:  # the link was opened again in the same browser
                return self._page(200, "signed_in.html")
            return self._page(401, "sign_in.html", was_used=True)
        answer = self._page(200, "signed_in.html")
        answer.set_cookie(
            self.cookie, session.session_id, httponly=True, samesite="strict", secure=scope["scheme"] == "https"
        )
        return answer

    async def _begin(self) -> Response:
        """Send a browser to the provider, with a cookie that belongs to this sign-in."""
        from odradek.console.oidc import PENDING_S, SignInRefused

        assert self._hosted is not None
        try:
            location, cookie = await self._hosted.oidc.begin()
        except SignInRefused as error:
            return self._page(502, "sign_in_oidc.html", problem=str(error))
        answer = RedirectResponse(location, 303)
        # Lax: the provider leads back by a redirect, which brings no Strict cookie.
        answer.set_cookie(
            self._pending_cookie, cookie, max_age=int(PENDING_S), httponly=True, samesite="lax",
            secure=self._is_secure,
        )  # fmt: skip
        return answer

    async def _finish(self, scope: Scope) -> Response:
        """Take a browser back from the provider, and begin its session."""
        from odradek.console.accounts import SealedSessions
        from odradek.console.oidc import SignInRefused

        assert self._hosted is not None
        assert isinstance(self._sessions, SealedSessions)
        headers = Headers(scope=scope)
        if not self._sign_ins.allows(self._caller(scope, headers)):
            return _plain(429, "Too many attempts to sign in: wait a minute.", retry=True)
        given = parse_qs(scope["query_string"].decode("latin-1"))
        try:
            user = await self._hosted.oidc.finish(
                {name: values[0] for name, values in given.items()}, _cookie(headers, self._pending_cookie) or ""
            )
        except SignInRefused as error:
            return self._page(401, "sign_in_oidc.html", problem=str(error))
        session = self._sessions.begin(user)
        answer = self._page(200, "signed_in.html")
        answer.set_cookie(self.cookie, session.session_id, httponly=True, samesite="strict", secure=self._is_secure)
        answer.delete_cookie(self._pending_cookie, httponly=True, samesite="lax", secure=self._is_secure)
        return answer

    @property
    def _is_secure(self) -> bool:
        return self._hosted is not None and self._hosted.oidc.settings.url.startswith("https:")

    def _page(self, status: int, template: str, **values: object) -> Response:
        return HTMLResponse(self._templates.render(template, **values), status)


def _cookie(headers: Headers, name: str) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _plain(status: int, text: str, *, retry: bool = False) -> Response:
    headers = {"Retry-After": "1"} if retry else None
    return Response(text + "\n", status, headers, media_type="text/plain; charset=utf-8")


def is_same_site(url: str) -> bool:
    """Return True for a path of this console, which a form may name to come back to."""
    parts = urlsplit(url)
    return not parts.scheme and not parts.netloc and url.startswith("/") and not url.startswith(("//", "/\\"))
