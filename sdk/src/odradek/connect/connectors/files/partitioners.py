"""Partitioners: which folder below its topic a record's file is in; Confluent's names and configurations."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from odradek.connect.config import Allowed, ConfigDef, Kind, between, one_of
from odradek.connect.data.logical import moment_of, ms_of
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import to_text
from odradek.connect.errors import ConfigError, DataError
from odradek.connect.record import SinkRecord
from odradek.connect.transforms.date_format import DateFormat

NAMES = ("DefaultPartitioner", "FieldPartitioner", "TimeBasedPartitioner", "DailyPartitioner", "HourlyPartitioner")


def _zones() -> Allowed:
    def refuse(value: Any) -> str | None:
        try:
            ZoneInfo(str(value))
        except (ValueError, OSError, KeyError):  # not found is a KeyError
            return "must be a time zone that this machine knows, such as UTC or Europe/Berlin"
        return None

    return Allowed("a time zone", refuse)


PARTITIONERS = (
    ConfigDef()
    .define(
        "partitioner.class", Kind.CLASS, NAMES[0], f"How files are divided into folders: {', '.join(NAMES)}.",
        importance="HIGH",
    )
    .define("partition.field.name", Kind.LIST, [], "Fields of FieldPartitioner: a folder field=value for each.")
    .define("partition.duration.ms", Kind.LONG, 3_600_000, "Length of a folder's time of TimeBasedPartitioner.",
            allowed=between(1))
    .define(
        "path.format", Kind.STRING, "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
        "Folders of TimeBasedPartitioner: Java's date format.",
    )
    .define(
        "timezone", Kind.STRING, "UTC", "Time zone of folders by time, such as Europe/Berlin.", allowed=_zones(),
    )
    .define(
        "timestamp.extractor", Kind.STRING, "Record",
        "Time of a record: Record, its timestamp; RecordField, a field; Wallclock, the time of writing.",
        allowed=one_of("Record", "RecordField", "Wallclock"),
    )
    .define("timestamp.field", Kind.STRING, "timestamp", "The field of RecordField: a timestamp, ms, or text in "
            "ISO 8601; also a path such as meta.at.")
)  # fmt: skip


class Partitioner(ABC):
    """Chooses folders. `is_repeatable` is False if the same record may get another folder when it is read again."""

    is_repeatable = True

    @abstractmethod
    def folder(self, record: SinkRecord, now_ms: int) -> str:
        """Return the folder below the topic's. Raises DataError."""

    def time_ms(self, record: SinkRecord, now_ms: int) -> int:
        """Return the time of a record, which rotation by time goes by."""
        return now_ms if record.timestamp_ms is None else record.timestamp_ms


class _ByPartition(Partitioner):
    def folder(self, record: SinkRecord, now_ms: int) -> str:
        return f"partition={record.source.partition}"


class _ByField(Partitioner):
    def __init__(self, names: list[str]) -> None:
        self._names = names

    def folder(self, record: SinkRecord, now_ms: int) -> str:
        return "/".join(f"{name}={to_text(_field(record, name)).replace('/', '_')}" for name in self._names)


class _ByTime(Partitioner):
    def __init__(self, path: str, duration_ms: int, extractor: str, field: str, zone: str) -> None:
        # In Joda's notation, which Confluent takes, Y is the year of the era; in SimpleDateFormat it belongs to weeks.
        self._format = DateFormat(path.replace("Y", "y"))
        self._duration_ms, self._extractor, self._field_name = duration_ms, extractor, field
        self._zone = ZoneInfo(zone)
        self.is_repeatable = extractor != "Wallclock"

    def time_ms(self, record: SinkRecord, now_ms: int) -> int:
        if self._extractor == "Wallclock":
            return now_ms
        if self._extractor == "RecordField":
            value = _field(record, self._field_name)
            if isinstance(value, int):
                return value
            if isinstance(value, str):
                return _ms_of_text(value)
            if hasattr(value, "tzinfo"):
                return ms_of(value)
            raise DataError(f"the field {self._field_name!r} is not a timestamp: {value!r:.80}")
        return super().time_ms(record, now_ms)

    def folder(self, record: SinkRecord, now_ms: int) -> str:
        time_ms = self.time_ms(record, now_ms)
        # Folders begin at multiples of the duration by the clock on the wall, as Confluent's do.
        local_ms = ms_of(moment_of(time_ms).astimezone(self._zone).replace(tzinfo=dt.UTC))
        return self._format.format(moment_of(local_ms - local_ms % self._duration_ms))


def _ms_of_text(text: str) -> int:
    """Return the time of a text in ISO 8601."""
    try:
        return ms_of(dt.datetime.fromisoformat(text))
    except ValueError:
        raise DataError(f"not a timestamp in ISO 8601: {text!r:.80}") from None


def _field(record: SinkRecord, name: str) -> Any:
    """Return a field of the value, or one within it by a path such as meta.at. Raises DataError."""
    value = record.value
    if not isinstance(value, Struct | Mapping):
        raise DataError(f"the value has no fields, so none with the name {name!r}")
    field_value = value.get(name)
    if field_value is None and "." in name:
        field_value = value
        for part in name.split("."):
            field_value = field_value.get(part) if isinstance(field_value, Struct | Mapping) else None
    if field_value is None:
        raise DataError(f"the value has no field {name!r}, after which its file is named")
    return field_value


def make_partitioner(options: Mapping[str, Any]) -> Partitioner:
    """Return the configured partitioner. Raises ConfigError."""
    name = str(options["partitioner.class"]).rpartition(".")[2]
    if name == "DefaultPartitioner":
        return _ByPartition()
    if name == "FieldPartitioner":
        if not options["partition.field.name"]:
            raise ConfigError({"partition.field.name": ["partition.field.name is required by FieldPartitioner"]})
        return _ByField(options["partition.field.name"])
    by = options["timestamp.extractor"], options["timestamp.field"], options["timezone"]
    if name == "DailyPartitioner":
        return _ByTime("'year'=yyyy/'month'=MM/'day'=dd", 86_400_000, *by)
    if name == "HourlyPartitioner":
        return _ByTime("'year'=yyyy/'month'=MM/'day'=dd/'hour'=HH", 3_600_000, *by)
    if name == "TimeBasedPartitioner":
        return _ByTime(options["path.format"], options["partition.duration.ms"], *by)
    raise ConfigError({"partitioner.class": [f"unknown partitioner {name!r}: use {', '.join(NAMES)}"]})
