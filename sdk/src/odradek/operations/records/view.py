"""A record as people see it, and the choice of formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.client.consumer.record import ConsumerRecord
from odradek.operations.records.formats import FORMATS, Decoded, Decoder


@dataclass(frozen=True, slots=True)
class Formats:
    """How keys, values and headers are decoded: names of formats.FORMATS."""

    key: str = "auto"
    value: str = "auto"

    def checked(self) -> Formats:
        """Return the formats, with `auto` in place of unknown ones."""
        return Formats(*(each if each in FORMATS else "auto" for each in (self.key, self.value)))


@dataclass(frozen=True, slots=True)
class HeaderView:
    """A header of a record."""

    name: str
    value: Decoded


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record with its key, value and headers decoded."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Decoded
    value: Decoded
    headers: tuple[HeaderView, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of key and value."""
        return self.key.size_bytes + self.value.size_bytes


class Candidate:
    """A record that a filter looks at: decoded only as far as the filter asks, since most records do not match.

    It is the scope of an expression (expression.py).
    """

    __slots__ = ("_decoder", "_formats", "_names", "record")

    def __init__(self, record: ConsumerRecord, decoder: Decoder, formats: Formats) -> None:
        self.record = record
        self._decoder = decoder
        self._formats = formats
        self._names: dict[str, Any] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name of an expression; `default` for an unknown one."""
        if name not in self._names:
            read = _SCOPE.get(name)
            self._names[name] = default if read is None else read(self)
        return self._names[name]

    def key(self) -> Any:
        return self._decoder.data(self.record.key, self._formats.key)

    def value(self) -> Any:
        return self._decoder.data(self.record.value, self._formats.value)

    def text(self) -> str:
        return self._decoder.decode(self.record.value, self._formats.value).text

    def headers(self) -> dict[str, Any]:
        return {name: self._decoder.data(value, "auto") for name, value in self.record.headers}

    def view(self) -> RecordView:
        """Return the record decoded."""
        return view(self.record, self._decoder, self._formats)


_SCOPE: dict[str, Callable[[Candidate], Any]] = {
    "key": Candidate.key,
    "value": Candidate.value,
    "text": Candidate.text,
    "headers": Candidate.headers,
    "partition": lambda each: each.record.partition,
    "offset": lambda each: each.record.offset,
    "timestamp": lambda each: each.record.timestamp_ms,
    "size": lambda each: len(each.record.key or b"") + len(each.record.value or b""),
}


def view(record: ConsumerRecord, decoder: Decoder, formats: Formats) -> RecordView:
    """Return a record decoded. It may block for the registry."""
    return RecordView(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        decoder.decode(record.key, formats.key),
        decoder.decode(record.value, formats.value),
        tuple(HeaderView(name, decoder.decode(value)) for name, value in record.headers),
    )
