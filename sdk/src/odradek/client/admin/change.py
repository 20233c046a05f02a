"""Requests that change something, and the errors of their results: what the parts of the admin client share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from odradek.client.connection import Connection, error_code
from odradek.client.retry import may_have_applied
from odradek.errors import ErrorCode, KafkaError

R = TypeVar("R")


class Changing:
    """Base of the admin client; `_connection` is its connection."""

    _connection: Connection

    async def _change(
        self,
        request: Any,
        response_type: type[R],
        operation: str,
        results: Callable[[R], Iterable[tuple[str, int, str | None]]],
        *,
        reached: ErrorCode | None,
        accepts_reached: bool = False,
    ) -> None:
        """Send a request that changes something, and raise the first error of its results.

        Args:
            results: (name, error code, message) of each changed resource.
            reached: the code that means success after an attempt without an answer; None if there is none.
            accepts_reached: that code means success in any case.
        """
        in_doubt = accepts_reached
        names: list[str] = []

        async def attempt(timeout_s: float) -> None:
            nonlocal in_doubt
            try:
                response = await self._connection.attempt(request, response_type, timeout_s)
            except KafkaError as error:
                in_doubt |= may_have_applied(error)
                raise
            names.clear()
            for name, code, message in results(response):
                names.append(name)
                if in_doubt and error_code(code) is reached:
                    continue
                if error_code(code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    # Retryable for a producer, that waits for a topic; who manages topics wants to know at once.
                    raise NotThere(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _sentence(name, error_code(code), message))
                raise_for(name, code, message)

        await self._connection.retrying(attempt, operation)
        self._connection.log.info("%s: %s", operation, ", ".join(names))


def names_of(names: Iterable[str]) -> list[str]:
    """Return names; a single one may be given as it is, for text is an iterable of letters."""
    return [names] if isinstance(names, str) else list(names)


class NotThere(KafkaError):
    """A retryable code, such as UNKNOWN_TOPIC_OR_PARTITION, as a final answer, which is not retried."""

    @property
    def is_retryable(self) -> bool:
        return False


def raise_for(name: str, code: int, message: str | None) -> None:
    error = error_code(code)
    if error is not ErrorCode.NONE:
        raise KafkaError(error, _sentence(name, error, message))


_UNSAID = {  # texts for responses that have no field for a message
    ErrorCode.GROUP_ID_NOT_FOUND: "does not exist",
    ErrorCode.NON_EMPTY_GROUP: "has members: stop them first",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "is not allowed by any ACL",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "does not exist",
}


def _sentence(name: str, code: ErrorCode, message: str | None) -> str:
    """Return a message about the named resource, in which the name appears once."""
    if not message:
        return f"{name} {_UNSAID[code]}" if code in _UNSAID else f"{name}: {code.name}"
    return message if message.startswith(name) else f"{name}: {message}"
