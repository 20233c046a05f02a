"""A console for many: who signed in, and the cluster as each of them sees it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from odradek.console.oidc import Oidc, User
from odradek.console.sealing import Sealer
from odradek.console.sessions import Session, Sessions
from odradek.console.settings import ConsoleSettings
from odradek.operations.cluster import Cluster
from odradek.ports.clock import Clock

_SESSION_S = 8 * 3600  # a working day; then the provider is asked again
_ENDED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Hosted:
    """What a console for many has beside others.

    Attributes:
        cluster_of: a principal -> the cluster as that principal sees it; ACLs are the service's.
    """

    oidc: Oidc
    sealer: Sealer
    cluster_of: Callable[[str], Cluster]


class SealedSessions(Sessions):
    """Sessions in the cookies themselves: any process with the secret knows them.

    A session ends after eight hours, or at sign-out in the process that is told; another process takes its cookie, if
    somebody kept it, until then.
    """

    def __init__(self, settings: ConsoleSettings, clock: Clock, sealer: Sealer) -> None:
        super().__init__(settings, clock)
        self._sealer = sealer
        self._ended: dict[str, None] = {}

    def begin(self, user: User) -> Session:
        """Return a new session of a user."""
        csrf = secrets.token_urlsafe(32)
        cookie = self._sealer.seal(
            {"for": "session", "csrf": csrf, "user": user.name, "principal": user.principal, "reader": user.is_reader}
        )
        return self._session(cookie, csrf, user.name, user.principal, user.is_reader)

    def _session(self, cookie: str, csrf: str, user: str, principal: str, is_reader: bool) -> Session:
        session = Session(cookie, csrf, self._clock.monotonic(), user=user, principal=principal, is_reader=is_reader)
        while len(self._sessions) >= self._settings.sessions_max:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[cookie] = session
        return session

    def find(self, session_id: str) -> Session | None:
        found = self._sealer.opened(session_id, _SESSION_S)
        if found is None or found.get("for") != "session" or session_id in self._ended:
            return None
        known = self._sessions.get(session_id)
        if known is not None:
            return known
        return self._session(
            session_id, str(found["csrf"]), str(found["user"]), str(found["principal"]), bool(found["reader"])
        )

    def is_open(self, session: Session) -> bool:
        return self.find(session.session_id) is not None

    def sign_out(self, session: Session) -> None:
        super().sign_out(session)
        if len(self._ended) >= _ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        self._ended[session.session_id] = None
