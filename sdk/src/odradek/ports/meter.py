"""Billable units of every call at the ports, so that cost is measured."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import add, attrgetter, sub
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Usage:
    """Units that AWS bills, as on the price list; embedded and memory adapters count what S3 and DynamoDB would.

    A DynamoDB write unit is 1 KB rounded up (a transactional write two), a read unit 4 KB (eventual half).
    """

    table_read_units: float = 0.0
    table_write_units: float = 0.0
    table_requests: int = 0
    object_put_requests: int = 0  # PUT, LIST
    object_get_requests: int = 0  # GET, HEAD
    object_delete_requests: int = 0  # free, counted all the same
    object_bytes_written: int = 0
    object_bytes_read: int = 0
    express_put_requests: int = 0  # of the WAL in a directory bucket (S3 Express One Zone), which has prices of its own
    express_get_requests: int = 0
    express_bytes_written: int = 0  # billed, too
    express_bytes_read: int = 0
    function_requests: int = 0
    function_gb_seconds: float = 0.0
    payload_bytes_in: int = 0
    payload_bytes_out: int = 0
    queue_requests: int = 0
    damaged_ranges: int = 0  # stored bytes that cannot be read (engine/damage.py): each counted once a process
    rejected_requests: int = 0  # rejected permanently (errors.StoreRejected); free, but counted

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, _amounts(self), _amounts(other)))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*map(sub, _amounts(self), _amounts(other)))

    def on_express(self) -> Usage:
        """Return the same with its object requests and bytes as those of S3 Express One Zone."""
        return replace(
            self,
            object_put_requests=0,
            object_get_requests=0,
            object_bytes_written=0,
            object_bytes_read=0,
            express_put_requests=self.express_put_requests + self.object_put_requests,
            express_get_requests=self.express_get_requests + self.object_get_requests,
            express_bytes_written=self.express_bytes_written + self.object_bytes_written,
            express_bytes_read=self.express_bytes_read + self.object_bytes_read,
        )


# Several are added in each request: this way one takes 2 us, and by getattr 60.
_amounts = attrgetter(*(field.name for field in fields(Usage)))


class Meter(Protocol):
    def add(self, operation: str, usage: Usage) -> None:
        """Count the usage of one call; `operation` is the AWS operation's name (UpdateItem, PutObject ...)."""
        ...


class NullMeter:
    """Counts nothing."""

    def add(self, operation: str, usage: Usage) -> None:
        return None
