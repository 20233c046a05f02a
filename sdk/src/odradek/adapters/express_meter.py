"""What the WAL's directory bucket is asked, counted as S3 Express One Zone bills it: requests and bytes."""

from __future__ import annotations

from odradek.ports.meter import Meter, Usage


class ExpressMeter:
    """ports.meter.Meter for an object store over a directory bucket.

    Args:
        meter: is told of each call, with its object requests and bytes as those of S3 Express One Zone.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def add(self, operation: str, usage: Usage) -> None:
        self._meter.add(operation, usage.on_express())
