"""Shifts on AWS: what the function `connect` does when it is called, whoever calls it.

A schedule calls it for sources that poll, a trigger on the topics of sinks for those; the event says nothing that is
needed. A shift ends before the function's time does. If there was more to do, the function calls itself once more and
returns, so that work without an end goes on from shift to shift, and nothing runs when there is none.

    ODRADEK_BOOTSTRAP_SERVERS    URL of the coordinator
    ODRADEK_CONNECT_CONFIG       the worker's configurations, JSON
    ODRADEK_CONNECT_IDLE_S       how long there must be nothing to do before a shift ends
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from odradek.connect.errors import ConfigError
from odradek.connect.runtime.shift import Ended, Shift, run_shift
from odradek.connect.settings import WorkerSettings
from odradek.ports.clock import Clock

BOOTSTRAP_SERVERS = "ODRADEK_BOOTSTRAP_SERVERS"
CONNECT_CONFIG = "ODRADEK_CONNECT_CONFIG"
IDLE_S = "ODRADEK_CONNECT_IDLE_S"
HANDED_OVER = {"source": "odradek.connect", "detail-type": "handover"}

_DEFAULT_IDLE_S = 10.0
_GRACE_MS = 30_000  # for tasks to commit at the end of a shift
_LEAVING_S = 15.0  # beside it: leaving the group, closing clients, calling the next shift
_log = logging.getLogger("odradek.connect.function")


class ConnectFunction:
    """The function.

    Args:
        environ: the variables above.
        call_again: calls the function asynchronously with an event.
        client: more arguments of clients, beside the address.

    Raises:
        ConfigError: for variables that are missing or wrong.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        call_again: Callable[[Mapping[str, Any]], None],
        *,
        client: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        address = environ.get(BOOTSTRAP_SERVERS)
        if not address:
            raise ConfigError({BOOTSTRAP_SERVERS: [f"{BOOTSTRAP_SERVERS} is required: the coordinator's URL"]})
        try:
            configs = json.loads(environ.get(CONNECT_CONFIG) or "{}")
            self._idle_s = float(environ.get(IDLE_S) or _DEFAULT_IDLE_S)
        except ValueError as error:
            raise ConfigError(f"{CONNECT_CONFIG} must be a JSON object, {IDLE_S} a number: {error}") from None
        graceful = {"task.shutdown.graceful.timeout.ms": str(_GRACE_MS), **configs}
        self._settings = WorkerSettings.of(graceful, {"bootstrap_servers": address, **(client or {})}, environ)
        self._call_again, self._clock = call_again, clock

    def work(self, remaining_ms: int) -> dict[str, str]:
        """Work for one shift, and return how it has ended.

        Args:
            remaining_ms: what is left of the function's time.
        """
        grace_s = self._settings["task.shutdown.graceful.timeout.ms"] / 1000
        work_s = remaining_ms / 1000 - grace_s - _LEAVING_S
        if work_s <= 0:
            raise ConfigError(
                f"the function's time of {remaining_ms / 1000:.0f} s is too short: the end of a shift takes up to "
                f"{grace_s + _LEAVING_S:.0f} s"
            )
        ended = run_shift(self._settings, Shift(work_s, self._idle_s), clock=self._clock)
        if ended is Ended.BUSY:
            self._call_again(HANDED_OVER)
        return {"ended": ended.value}
