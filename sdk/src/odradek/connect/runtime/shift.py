"""A shift: a worker that works while there is something to do, and within a time, as a function on AWS has.

    look    no connector is to run, nothing is left to settle      -> NOTHING, after one read
    work    a worker like any other one, with the same leases      -> IDLE: no unit found work for a while
                                                                    -> BUSY: the time is over, and there is more

At the end every task commits, gives its offsets and its slots back, and the next shift, or another worker that is there
already, continues. A shift that ends idle lets sinks write what would wait for more records (SinkTask.rest).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from odradek.connect.runtime.cluster import Configs
from odradek.connect.runtime.worker import Worker
from odradek.connect.settings import WorkerSettings
from odradek.connect.state.cluster_state import STARTED, STOPPED, ClusterState
from odradek.ports.clock import Clock
from odradek.system import SystemClock

_log = logging.getLogger("odradek.connect.shift")
_LOOK_S = 0.25


class Ended(Enum):
    """Why a shift is over."""

    NOTHING = "nothing"
    IDLE = "idle"
    BUSY = "busy"


@dataclass(frozen=True)
class Shift:
    """The bounds of a shift.

    Args:
        work_s: the longest time of work, in seconds; joining and stopping need some more.
        idle_s: how long there must have been nothing to do.
    """

    work_s: float
    idle_s: float


def has_work(state: ClusterState) -> bool:
    """Return whether a worker has anything to do: a connector that is to run, or one that is not stopped yet."""
    for name in state.names():
        connector = state.get(name)
        if connector.target == STARTED or (
            connector.target == STOPPED and (connector.tasks or not connector.has_current_tasks)
        ):
            return True
    return False


def run_shift(
    settings: WorkerSettings,
    shift: Shift,
    *,
    clock: Clock | None = None,
    look: Callable[[ClusterState], None] | None = None,
) -> Ended:
    """Work, and return when and why it is over. Raises KafkaError, ConnectError, and what has ended the worker.

    Args:
        look: is shown the connectors before the work begins.
    """
    clock = clock or SystemClock()
    until_s = clock.monotonic() + shift.work_s
    configs = Configs(settings, clock)
    try:
        state = configs.read()
        if look is not None:
            look(state)
        if not has_work(state):
            return Ended.NOTHING
    finally:
        configs.close()
    pause = threading.Event()
    worker = Worker(settings, clock=clock).start()
    ended = Ended.BUSY
    try:
        while clock.monotonic() < until_s:
            worker.check()
            if worker.idle_s() >= shift.idle_s:
                ended = Ended.IDLE
                break
            pause.wait(_LOOK_S)
    finally:
        # What sinks write now takes as long as it takes: the rest of the shift is theirs.
        is_idle = ended is Ended.IDLE
        worker.stop(resting=is_idle, within_s=until_s - clock.monotonic() if is_idle else 0.0)
    _log.info("the shift has ended: %s", ended.value)
    return ended
