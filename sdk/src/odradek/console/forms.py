"""Fields of requests: queries and forms, read within bounds, as text, numbers and choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from starlette.requests import Request

from odradek.errors import ErrorCode, KafkaError

_FIELDS_MAX = 2_000
_CONTENT_TYPE = "application/x-www-form-urlencoded"


class Fields:
    """The fields of a query or a form; a missing one is ""."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = list(pairs)
        self._values: Mapping[str, str] = dict(pairs)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        """Return a field without white space around it."""
        return self._values.get(name, default).strip()

    def exactly(self, name: str) -> str:
        """Return a field as it was sent, with Unix line breaks."""
        return self._values.get(name, "").replace("\r\n", "\n")

    def number(self, name: str, default: int, low: int = -(2**63), high: int = 2**63 - 1) -> int:
        """Return a whole number. Raises KafkaError(INVALID_CONFIG) that names the field and the bounds."""
        text = self.text(name)
        if not text:
            return default
        try:
            number = int(text) if len(text) <= 20 else None
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{name} must be a whole number from {low} to {high}, not {text[:40]!r}"
            )
        return number

    def flag(self, name: str) -> bool:
        return self.text(name) in ("1", "on", "true", "yes")

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return a field that is one of the choices, else the default."""
        text = self.text(name)
        return text if text in choices else default

    def all(self, name: str) -> list[str]:
        """Return every value of a field."""
        return [value for each, value in self._pairs if each == name]

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Return the fields whose names begin with a prefix, without it."""
        return {name.removeprefix(prefix): value.strip() for name, value in self._pairs if name.startswith(prefix)}

    def shown(self) -> dict[str, str]:
        """Return all fields, to show a form again with what was written into it."""
        return dict(self._values)


def query_of(request: Request) -> Fields:
    """Return the query of a request."""
    return Fields(request.query_params.multi_items()[:_FIELDS_MAX])


async def form_of(request: Request, body_bytes_max: int) -> Fields:
    """Read a form. Raises KafkaError(INVALID_REQUEST) for one that is too large or of another type."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _CONTENT_TYPE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a form has the content type {_CONTENT_TYPE}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > body_bytes_max:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the form has more than {body_bytes_max:,} bytes")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except (ValueError, UnicodeDecodeError) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the form cannot be read: {error}") from None
    return Fields(pairs)


def place_of(text: str) -> tuple[int, int] | None:
    """Return partition and offset of `partition:offset`; None for what is none, or beyond a partition's last offset."""
    number, _, offset = text.partition(":")
    if not (number.isdecimal() and offset.isdecimal() and len(number) < 10 and len(offset) < 20):
        return None
    return (int(number), int(offset)) if int(offset) < 2**63 else None
