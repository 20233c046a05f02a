"""Tokens and sessions. A token signs in once; a session is a random id in a cookie, and its state is kept here.

token     in the URL that `odradek console` prints; the first request with it makes a session, the second is refused
session   256 random bits; ends when it is idle for long, at sign-out, or with the process
csrf      256 random bits of a session, in every form
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

from odradek.console.settings import ConsoleSettings
from odradek.ports.clock import Clock


@dataclass(slots=True)
class Session:
    """One browser that signed in.

    Attributes:
        messages: of changes, shown once on the next page.
        seen_s: when the last request came, on the scale of `monotonic`.
        principal: who it acts as, in a console for many; "": with the rights of the console.
        is_reader: changes nothing, whatever ACLs allow.
    """

    session_id: str
    csrf: str
    seen_s: float
    messages: list[str] = field(default_factory=list)
    user: str = ""
    principal: str = ""
    is_reader: bool = False


class Sessions:
    """The tokens and sessions of a console."""

    def __init__(self, settings: ConsoleSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._tokens: set[str] = set()
        self._sessions: dict[str, Session] = {}

    def new_token(self) -> str:
        """Return a token that signs in once."""
        token = secrets.token_urlsafe(32)
        self._tokens.add(token)
        return token

    def sign_in(self, token: str) -> Session | None:
        """Use a token up; return a new session, or None for a token that is unknown or was used."""
        known = next((each for each in self._tokens if hmac.compare_digest(each.encode(), token.encode())), None)
        if known is None:
            return None
        self._tokens.discard(known)
        return self._new()

    def _new(self) -> Session:
        self._drop_idle()
        while len(self._sessions) >= self._settings.sessions_max:
            oldest = min(self._sessions.values(), key=lambda each: each.seen_s)
            del self._sessions[oldest.session_id]
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._clock.monotonic())
        self._sessions[session.session_id] = session
        return session

    def find(self, session_id: str) -> Session | None:
        """Return the session of a cookie and count it as seen, or None."""
        session = self._sessions.get(session_id)
        if session is None:
            return None
        now_s = self._clock.monotonic()
        if now_s - session.seen_s > self._settings.session_idle_s:
            del self._sessions[session_id]
            return None
        session.seen_s = now_s
        return session

    def is_open(self, session: Session) -> bool:
        """Return False for a session that has ended; a live page that asks does not keep it open."""
        is_listed = self._sessions.get(session.session_id) is session
        return is_listed and self._clock.monotonic() - session.seen_s <= self._settings.session_idle_s

    def sign_out(self, session: Session) -> None:
        """End a session."""
        self._sessions.pop(session.session_id, None)

    def _drop_idle(self) -> None:
        idle_from = self._clock.monotonic() - self._settings.session_idle_s
        for session in [each for each in self._sessions.values() if each.seen_s < idle_from]:
            del self._sessions[session.session_id]
