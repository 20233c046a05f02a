"""Shifts on AWS: what the function `connect` does when it is called, whoever calls it.

A schedule calls it for sources that poll, triggers on the topics of sinks for those (wakes.py). A trigger waits for the
answer, and a shift takes minutes: so the function calls itself, and answers. Calls that were made before the last shift
of this process began have been answered by it. A shift ends before the function's time does. If there was more to do,
the function calls itself once more and returns, so that work without an end goes on from shift to shift, and nothing
runs when there is none.

    ODRADEK_BOOTSTRAP_SERVERS    URL of the coordinator
    ODRADEK_CONNECT_CONFIG       the worker's configurations, JSON
    ODRADEK_CONNECT_IDLE_S       how long there must be nothing to do before a shift ends
    ODRADEK_CONNECT_WAKES        true: triggers on the topics of sinks call the function
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from odradek.connect.errors import ConfigError
from odradek.connect.runtime.shift import Ended, Shift, run_shift
from odradek.connect.runtime.wakes import keep_wakes
from odradek.connect.settings import WorkerSettings
from odradek.connect.state.cluster_state import ClusterState
from odradek.ports.clock import Clock
from odradek.system import SystemClock

BOOTSTRAP_SERVERS = "ODRADEK_BOOTSTRAP_SERVERS"
CONNECT_CONFIG = "ODRADEK_CONNECT_CONFIG"
IDLE_S = "ODRADEK_CONNECT_IDLE_S"
WAKES = "ODRADEK_CONNECT_WAKES"
WOKEN = {"source": "odradek.connect", "detail-type": "wake"}
HANDED_OVER = {"source": "odradek.connect", "detail-type": "handover"}

EVENT_SOURCE = "aws:kafka"  # of a trigger's event

_DEFAULT_IDLE_S = 10.0
_CLOCKS_APART_MS = 5_000  # of two processes of the function, which AWS sets
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
        self._call_again, self._clock = call_again, clock or SystemClock()
        self._keeps_wakes = (environ.get(WAKES) or "").lower() == "true"
        self._began_ms = 0  # the last shift that has not ended busy

    def answer(self, event: object, remaining_ms: int, function_arn: str = "") -> dict[str, str]:
        """Do what a call asks for: work for a shift, or, called by a trigger, have that done.

        Args:
            event: of a trigger, of this function itself, or of anybody.
            remaining_ms: what is left of the function's time.
            function_arn: of this function; empty: triggers are not kept.
        """
        said = event if isinstance(event, Mapping) else {}
        if said.get("eventSource") == EVENT_SOURCE:
            self._call_again({**WOKEN, "asked_ms": self._clock.now_ms()})
            return {"ended": "handed over"}
        asked_ms = said.get("asked_ms")
        if isinstance(asked_ms, int) and asked_ms + _CLOCKS_APART_MS < self._began_ms:
            return {"ended": "done before"}
        return self.work(remaining_ms, function_arn)

    def work(self, remaining_ms: int, function_arn: str = "") -> dict[str, str]:
        """Work for one shift, and return how it has ended.

        Args:
            remaining_ms: what is left of the function's time.
            function_arn: of this function, for triggers to call; empty: they are not kept.
        """
        grace_s = self._settings["task.shutdown.graceful.timeout.ms"] / 1000
        work_s = remaining_ms / 1000 - grace_s - _LEAVING_S
        if work_s <= 0:
            raise ConfigError(
                f"the function's time of {remaining_ms / 1000:.0f} s is too short: the end of a shift takes up to "
                f"{grace_s + _LEAVING_S:.0f} s"
            )
        began_ms = self._clock.now_ms()
        look = None
        if self._keeps_wakes and function_arn:

            def look(state: ClusterState) -> None:
                keep_wakes(self._settings, state, function_arn)

        ended = run_shift(self._settings, Shift(work_s, self._idle_s), clock=self._clock, look=look)
        if ended is Ended.BUSY:
            self._call_again(HANDED_OVER)
        else:
            self._began_ms = began_ms
        return {"ended": ended.value}
