"""The errors of connectors, converters, transforms and the worker.

A plugin raises `RetriableError` if the same call may succeed later, `DataError` for a record that it cannot handle, and
`ConnectError` for everything that ends its task. `errors.tolerance` is about the first two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.errors import OdradekError


class ConnectError(OdradekError):
    """A connector, task or worker cannot go on (Connect's ConnectException)."""


class DataError(ConnectError):
    """A value does not fit its schema, or a record cannot be converted or handled (Connect's DataException)."""


class RetriableError(ConnectError):
    """The same call may succeed later (Connect's RetriableException)."""


class ConfigError(ConnectError):
    """Configurations are missing or invalid.

    Attributes:
        problems: messages by the name of the configuration.
    """

    def __init__(self, problems: Mapping[str, Sequence[str]] | str) -> None:
        self.problems = {"": [problems]} if isinstance(problems, str) else {k: list(v) for k, v in problems.items()}
        super().__init__("; ".join(message for messages in self.problems.values() for message in messages))


class RequestError(ConnectError):
    """A request to a worker was refused.

    Attributes:
        status: the HTTP status that says why, as Kafka Connect chooses it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotFound(RequestError):
    """The connector, task or plugin does not exist."""

    def __init__(self, message: str) -> None:
        super().__init__(404, message)


class BadRequest(RequestError):
    """The request itself is wrong; the message says what to change."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


class Conflict(RequestError):
    """The connector exists already, or the workers have not carried out an earlier request yet."""

    def __init__(self, message: str) -> None:
        super().__init__(409, message)
