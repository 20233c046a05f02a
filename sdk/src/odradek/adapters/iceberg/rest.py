"""PyIceberg's catalog over REST, with time limits: its own requests have none, so that a server which takes a request
and never answers would hold a maintainer for good."""

from __future__ import annotations

from functools import partial

from odradek.extras import extra

with extra("iceberg"):
    from pyiceberg.catalog.rest import RestCatalog
    from requests import Session

TIME_LIMITS_S = (5.0, 20.0)
"""To connect; and without a byte of the answer."""


class LimitedRestCatalog(RestCatalog):
    """The same catalog; a request that takes longer raises requests.Timeout."""

    time_limits_s = TIME_LIMITS_S

    def _config_headers(self, session: Session) -> None:
        # PyIceberg calls this with each new session, before its first request, which is for a token.
        super()._config_headers(session)
        session.request = partial(session.request, timeout=self.time_limits_s)  # type: ignore[method-assign]
