"""Requests that a store never takes: logged with what was rejected, and counted, so that an alarm can ask for them."""

from __future__ import annotations

import logging
from types import TracebackType

from odradek.errors import StoreRejected
from odradek.ports.meter import Meter, Usage

logger = logging.getLogger(__name__)


class RejectionsTold:
    """A block of one request: a StoreRejected that leaves it is logged and counted.

    Args:
        meter: counts it under `rejected_requests`.
        operation: the AWS operation's name.
        what: the key of what was asked for, or where it was.
    """

    __slots__ = ("_meter", "_operation", "_what")

    def __init__(self, meter: Meter, operation: str, what: object) -> None:
        self._meter = meter
        self._operation = operation
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, StoreRejected):
            self._meter.add(self._operation, Usage(rejected_requests=1))
            logger.error("the store never takes this %s of %.200r: %s", self._operation, self._what, error)
