"""The .proto files that a schema may import without registering them, beside Google's own of google/protobuf.

These are the files that Confluent's registry and serializers know: confluent/meta.proto, confluent/type/decimal.proto
and the common types of google/type. A file is written here as its package, its imports, its messages with their fields
(`label type name number`, after the oneof that a field is in), its enums, and the extensions of Google's options that
it declares. Pure. Source: the interface definitions of googleapis and of Confluent's schema registry.

    DECIMAL    confluent.type.Decimal: the unscaled value as big-endian two's complement, precision and scale; the
               field's option (confluent.field_meta) has both as parameters
    DATE       google.type.Date            TIME    google.type.TimeOfDay
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

META = "confluent/meta.proto"
META_NUMBER = 1088  # of Confluent's extension of each kind of options
DECIMAL = "confluent.type.Decimal"
DATE = "google.type.Date"
TIME = "google.type.TimeOfDay"


@dataclass(frozen=True, slots=True)
class BuiltInField:
    """A field; `type` is a scalar, or a full name with a leading dot."""

    name: str
    number: int
    type: str
    is_repeated: bool = False
    oneof: str = ""
    key: str = ""  # of a map: the type of its keys


@dataclass(frozen=True, slots=True)
class BuiltInFile:
    """A file of which every type is a message or an enum of the file itself."""

    path: str
    package: str
    messages: dict[str, tuple[BuiltInField, ...]]
    enums: dict[str, tuple[str, ...]]  # values from 0
    imports: tuple[str, ...] = ()
    extends: tuple[tuple[str, str], ...] = ()  # (options of google.protobuf, name); of META_NUMBER


_WEEK = "DAY_OF_WEEK_UNSPECIFIED MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"
_MONTHS = "MONTH_UNSPECIFIED JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER"
_PERIODS = "CALENDAR_PERIOD_UNSPECIFIED DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR"
_MESSAGES = {
    "google/type/color.proto": {
        "Color": "float red 1, float green 2, float blue 3, .google.protobuf.FloatValue alpha 4",
    },
    "google/type/date.proto": {"Date": "int32 year 1, int32 month 2, int32 day 3"},
    "google/type/datetime.proto": {
        "DateTime": "int32 year 1, int32 month 2, int32 day 3, int32 hours 4, int32 minutes 5, int32 seconds 6, "
        "int32 nanos 7, time_offset: .google.protobuf.Duration utc_offset 8, "
        "time_offset: .google.type.TimeZone time_zone 9",
        "TimeZone": "string id 1, string version 2",
    },
    "google/type/decimal.proto": {"Decimal": "string value 1"},
    "google/type/expr.proto": {"Expr": "string expression 1, string title 2, string description 3, string location 4"},
    "google/type/fraction.proto": {"Fraction": "int64 numerator 1, int64 denominator 2"},
    "google/type/interval.proto": {
        "Interval": ".google.protobuf.Timestamp start_time 1, .google.protobuf.Timestamp end_time 2",
    },
    "google/type/latlng.proto": {"LatLng": "double latitude 1, double longitude 2"},
    "google/type/money.proto": {"Money": "string currency_code 1, int64 units 2, int32 nanos 3"},
    "google/type/phone_number.proto": {
        "PhoneNumber": "kind: string e164_number 1, kind: .google.type.PhoneNumber.ShortCode short_code 2, "
        "string extension 3",
        "PhoneNumber.ShortCode": "string region_code 1, string number 2",
    },
    "google/type/postal_address.proto": {
        "PostalAddress": "int32 revision 1, string region_code 2, string language_code 3, string postal_code 4, "
        "string sorting_code 5, string administrative_area 6, string locality 7, string sublocality 8, "
        "repeated string address_lines 9, repeated string recipients 10, string organization 11",
    },
    "google/type/quaternion.proto": {"Quaternion": "double x 1, double y 2, double z 3, double w 4"},
    "google/type/timeofday.proto": {"TimeOfDay": "int32 hours 1, int32 minutes 2, int32 seconds 3, int32 nanos 4"},
    "confluent/type/decimal.proto": {"Decimal": "bytes value 1, uint32 precision 2, int32 scale 3"},
    META: {"Meta": "string doc 1, map<string,string> params 2, repeated string tags 3"},
}
_ENUMS = {
    "google/type/calendar_period.proto": ("CalendarPeriod", _PERIODS),
    "google/type/dayofweek.proto": ("DayOfWeek", _WEEK),
    "google/type/month.proto": ("Month", _MONTHS),
}
_IMPORTS = {
    "google/type/color.proto": ("google/protobuf/wrappers.proto",),
    "google/type/datetime.proto": ("google/protobuf/duration.proto",),
    "google/type/interval.proto": ("google/protobuf/timestamp.proto",),
    META: ("google/protobuf/descriptor.proto",),
}
_EXTENDS = {
    META: tuple((f"{struct}Options", f"{name}_meta") for struct, name in (
        ("File", "file"), ("Message", "message"), ("Field", "field"), ("Enum", "enum"), ("EnumValue", "enum_value"),
    )),
}  # fmt: skip
_FIELD = re.compile(
    r"(?:(?P<oneof>\w+): )?(?P<repeated>repeated )?(?:map<(?P<key>\w+),(?P<value>\w+)>|(?P<type>[\w.]+)) "
    r"(?P<name>\w+) (?P<number>\d+)"
)


def _fields(text: str) -> Iterator[BuiltInField]:
    for line in text.split(", "):
        match = _FIELD.fullmatch(line)
        assert match is not None, line
        yield BuiltInField(
            match["name"], int(match["number"]), match["type"] or match["value"], bool(match["repeated"]),
            match["oneof"] or "", match["key"] or "",
        )  # fmt: skip


def _file(path: str) -> BuiltInFile:
    package = "confluent" if path == META else path.rpartition("/")[0].replace("/", ".")
    messages = {name: tuple(_fields(text)) for name, text in _MESSAGES.get(path, {}).items()}
    enums = {_ENUMS[path][0]: tuple(_ENUMS[path][1].split())} if path in _ENUMS else {}
    return BuiltInFile(path, package, messages, enums, _IMPORTS.get(path, ()), _EXTENDS.get(path, ()))


BUILT_IN = {path: _file(path) for path in (*_MESSAGES, *_ENUMS)}
"""The files by the path that an import has."""
