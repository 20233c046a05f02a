"""One running unit: a connector or a task in a thread of its own, its state, and how it is paused and stopped."""

from __future__ import annotations

import logging
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from odradek.backoff import Backoff
from odradek.connect.errors import RetriableError
from odradek.connect.settings import WorkerSettings
from odradek.connect.state.offsets import SourceOffsets
from odradek.connect.state.statuses import (
    FAILED,
    PAUSED,
    RUNNING,
    UNASSIGNED,
    Status,
    Statuses,
    Unit,
)
from odradek.errors import KafkaError, OdradekError
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng

_log = logging.getLogger("odradek.connect.worker")


@dataclass(frozen=True)
class Environment:
    """The worker's services and settings, shared by the units that it runs."""

    settings: WorkerSettings
    statuses: Statuses
    offsets: SourceOffsets
    clock: Clock
    rng: Rng
    worker_id: str


class Superseded(Exception):
    """Another worker runs this unit now, or a newer generation of it: end without a word."""


class Stopped(Exception):
    """The unit was asked to stop while it waited: what was not written is read again."""


class Run(ABC):
    """A unit that runs. `start` returns at once; `stop` asks for the end, `join` waits for it.

    Args:
        generation: of the tasks; a unit of an older one is replaced.
        paused: whether it begins paused.
    """

    def __init__(self, unit: Unit, environment: Environment, generation: int, *, paused: bool) -> None:
        self.unit, self.environment, self.generation = unit, environment, generation
        self.failed = False
        self.forgotten = False  # the connector was deleted: its state is deleted as well
        self.abandoned = False  # another worker may have the unit already: write no state
        self.superseded = False  # it ended because another worker seemed to have it
        self.is_resting = False  # it ends because there is nothing to do, and nobody takes it over now
        self._before: Status | None = None  # the state when it began
        self._quiet_since_s: float | None = None
        self._stopping = threading.Event()
        self._resumed = threading.Event()
        self._paused = paused
        if not paused:
            self._resumed.set()
        self._thread = threading.Thread(target=self._main, name=f"connect-{unit}", daemon=True)

    # --- called by the worker -------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end. May be repeated."""
        self._stopping.set()
        self._resumed.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end, and return whether it came."""
        self._thread.join(max(timeout_s, 0))
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_paused(self) -> bool:
        return self._paused

    def pause(self, paused: bool) -> None:
        """Pause or resume; the state is written when the unit has noticed."""
        if paused != self._paused:
            self._paused = paused
            if paused:
                self._resumed.clear()
            else:
                self._resumed.set()

    def quiet_since_s(self) -> float | None:
        """Return since when the unit has found nothing to do, by the clock's `monotonic`; None while it has work."""
        if self.failed or self._paused or not self.is_alive:
            return float("-inf")
        return self._quiet_since_s

    # --- called by the unit's thread ------------------------------------------------------------------------------

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait, at most so long, and return True if the unit is to stop."""
        return self._stopping.wait(seconds)

    def note_work(self, *, found: bool) -> None:
        """Note whether the last look for work has found some."""
        if found:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = self.environment.clock.monotonic()

    def begin(self, start: Callable[[], object]) -> None:
        """Call `start` of a plugin; while what it needs is away (RetriableError), again and again. Raises Stopped."""
        backoff, failures = Backoff(self.environment.clock, self.environment.rng, first_s=0.1, max_s=10.0), 0
        while True:
            try:
                start()
                return
            except RetriableError as error:
                _log.warning("%s starts again: %s", self.unit, error)
                if self.wait(backoff.delay_s(failures)):
                    raise Stopped(f"it has not started: {error}") from error
                failures += 1

    @abstractmethod
    def run(self) -> None:
        """Work until `is_stopping`. Raises Superseded, or anything for a failure."""

    def _main(self) -> None:
        state, trace = UNASSIGNED, None
        self._before = self._state()
        try:
            self.run()
        except Superseded as reason:
            _log.info("%s ends here: %s", self.unit, reason)
            self.superseded = self.abandoned = True
        except Stopped as reason:
            _log.info("%s stops: %s", self.unit, reason)
        except Exception as error:  # a plugin may raise anything; it ends the unit, not the worker
            state, trace = FAILED, _trace(error)
            self.failed = True
            _log.error("%s failed: %s", self.unit, error)
        if self.abandoned and not self.forgotten:
            return
        try:
            if self.forgotten:
                self.environment.statuses.forget(self.unit)
            elif not self._is_elsewhere():
                self.put(state, trace)
        except KafkaError as error:
            _log.warning("the state of %s could not be written: %s", self.unit, error)

    def _is_elsewhere(self) -> bool:
        """Return whether another worker, or a newer generation, has begun to run the unit meanwhile. Raises KafkaError.

        What was there at the beginning does not count: it may be of a worker that is dead.
        """
        status = self.environment.statuses.all().get(self.unit)
        if status is None or status == self._before or status.worker_id == self.environment.worker_id:
            return status is not None and status.generation > self.generation
        return status.generation > self.generation or status.state == RUNNING

    def _state(self) -> Status | None:
        try:
            return self.environment.statuses.all().get(self.unit)
        except KafkaError as error:
            _log.info("the state of %s is not known: %s", self.unit, error)
            return None

    def put(self, state: str, trace: str | None = None) -> None:
        """Write the state; its trace has configurations as they were written. Raises KafkaError."""
        if trace is not None:
            trace = self.environment.settings.providers.as_written(trace)
        self.environment.statuses.put(self.unit, Status(state, self.environment.worker_id, trace, self.generation))

    def put_activity(self) -> None:
        """Write RUNNING or PAUSED."""
        self.put(PAUSED if self._paused else RUNNING)


def _trace(error: BaseException) -> str:
    """Return what a status shows: one line for an error that says what to do, the stack trace for others."""
    if isinstance(error, OdradekError):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))
