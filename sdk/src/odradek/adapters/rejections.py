"""Requests that a store rejects permanently: they are logged and counted, for an alarm."""

from __future__ import annotations

import logging
from types import TracebackType

from odradek.errors import StoreRejected
from odradek.ports.meter import Meter, Usage

logger = logging.getLogger(__name__)


class RejectionsTold:
    """A block around one request: a StoreRejected that leaves it is logged and counted.

    Args:
        meter: counts it under `rejected_requests`.
        operation: the name of the AWS operation.
        what: the key or the location of the request.
    """

    __slots__ = ("_meter", "_operation", "_what")

    def __init__(self, meter: Meter, operation: str, what: object) -> None:
        self._meter = meter
        self._operation = operation
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, StoreRejected):
            self._meter.add(self._operation, Usage(rejected_requests=1))
            logger.error("the store rejects this %s of %.200r permanently: %s", self._operation, self._what, error)
