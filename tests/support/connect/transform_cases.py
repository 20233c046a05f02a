"""Cases for every transform, predicate and header converter of Apache Kafka: what goes in, and what ours makes of it.

tests/golden/connect/transforms.jsonl.gz holds what Kafka's own jars make of them; tests/java/test_connect_transforms.py
writes it.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any

from odradek.connect import plugins
from odradek.connect.converters.base import Converter
from odradek.connect.converters.json import JsonConverter
from odradek.connect.data.values import NULL
from odradek.connect.errors import ConfigError, DataError
from odradek.connect.plugin import Predicate, Transformation
from odradek.connect.record import Header, SinkRecord

TRANSFORMS = "org.apache.kafka.connect.transforms."
MOMENT_MS = 1_700_000_123_456
_BEFORE_1970_MS = -1_500


def field(name: str, kind: str, /, **more: Any) -> dict[str, Any]:
    return {"field": name, "type": kind, "optional": False, **more}


def logical(name: str, kind: str, logical_name: str, /, **more: Any) -> dict[str, Any]:
    return field(name, kind, name=f"org.apache.kafka.connect.data.{logical_name}", version=1, **more)


def struct(payload: Any, *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"schema": {"type": "struct", "optional": False, "fields": list(fields), **more}, "payload": payload}


def plain(payload: Any) -> dict[str, Any]:
    return {"schema": None, "payload": payload}


def single(kind: str, payload: Any, /, **more: Any) -> dict[str, Any]:
    return {"schema": {"type": kind, "optional": False, **more}, "payload": payload}


_INNER = {
    "type": "struct",
    "optional": True,
    "name": "Inner",
    "fields": [field("a.b", "string", optional=True), field("n", "int16"), field("d", "string", default="deep")],
}
RICH = struct(
    {
        "i8": -5, "i16": 300, "i32": 70_000, "i64": 5_000_000_000, "f32": 0.1, "f64": 1e10, "yes": True, "text": "42",
        "data": "AAEC", "none": None, "defaulted": None, "inner": {"a.b": "x", "n": 7, "d": None},
        "list": [1, 2], "moment": MOMENT_MS, "day": 19_675, "time": 3_661_001, "price": "E4g=",
    },
    field("i8", "int8"), field("i16", "int16"), field("i32", "int32"), field("i64", "int64"), field("f32", "float"),
    field("f64", "double"), field("yes", "boolean"), field("text", "string"), field("data", "bytes"),
    field("none", "string", optional=True), field("defaulted", "string", optional=True, default="filled"),
    {**_INNER, "field": "inner"},
    field("list", "array", items={"type": "int32", "optional": False}),
    logical("moment", "int64", "Timestamp"), logical("day", "int32", "Date"), logical("time", "int32", "Time"),
    logical("price", "bytes", "Decimal", parameters={"scale": "2"}),
    name="Rich", version=3, doc="everything",
)  # fmt: skip
SMALL = struct(
    {"id": 7, "name": "ann", "note": None},
    field("id", "int64"), field("name", "string"), field("note", "string", optional=True, default="-"), name="Small",
)  # fmt: skip
OPTIONAL = {"schema": {**SMALL["schema"], "optional": True}, "payload": None}
MAPS = {**single("map", {"a": 1}), "schema": {
    "type": "map", "optional": False, "keys": {"type": "string", "optional": False},
    "values": {"type": "int32", "optional": False},
}}  # fmt: skip
SCHEMALESS = plain(
    {
        "i": 300,
        "f": 2.75,
        "yes": False,
        "text": "17",
        "none": None,
        "list": [1, "a"],
        "inner": {"a.b": {"c": 1}, "n": 2},
    }
)
VALUES = {
    "rich": RICH, "small": SMALL, "optional": OPTIONAL, "schemaless": SCHEMALESS, "null": None,
    "text": single("string", "12"), "number": plain(12), "map": MAPS, "time": single("int64", MOMENT_MS),
    "moment": single("int64", MOMENT_MS, name="org.apache.kafka.connect.data.Timestamp", version=1),
    "date text": plain("2023-11-14 22:15:23.456"), "early": single("int64", _BEFORE_1970_MS),
}  # fmt: skip


def record(value: Any, key: Any = None, **more: Any) -> dict[str, Any]:
    headers = [{"key": "h", "value": single("string", "one")}, {"key": "h", "value": plain(2)}]
    return {
        "topic": "orders", "partition": 3, "offset": 99, "timestamp": MOMENT_MS, "key": key, "value": value,
        "headers": headers, **more,
    }  # fmt: skip


_NULLS = ({}, {"replace.null.with.default": "false"})
_CONFIGS: dict[str, list[dict[str, str]]] = {
    "Cast": [
        *({"spec": kind} for kind in ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")),
        *(
            {"spec": f"i8:{kind},i16:{kind},i32:{kind},i64:{kind},f32:{kind},f64:{kind},yes:{kind},text:{kind}"}
            for kind in ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
        ),
        {"spec": "moment:string,day:string,time:string,price:string,data:string,defaulted:string"},
        {"spec": "moment:int64,day:int32,time:int32,price:float64"},
        {"spec": "defaulted:string", "replace.null.with.default": "false"},
        {"spec": "i:int8,f:int32,yes:string,text:float64,none:int32,missing:string"},
        {"spec": "inner:string"}, {"spec": "list:string"}, {"spec": "name:int32"}, {"spec": "id:bytes"},
        {"spec": "string,id:int8"}, {"spec": ""}, {},
    ],
    "ExtractField": [
        *({"field": "name", **nulls} for nulls in _NULLS), {"field": "note"}, {"field": "missing"}, {"field": "inner"},
        {"field": "note", "replace.null.with.default": "false"}, {"field": "inner.n"},
        *({"field": path, "field.syntax.version": "V2"}
          for path in ("inner.n", "inner.`a.b`", "inner.`a.b`.c", "inner.d", "text.x", "`inner", "none.x", "inner.")),
        {},
    ],
    "HoistField": [{"field": "whole"}, {}],
    "InsertField": [
        {"topic.field": "t", "partition.field": "p!", "offset.field": "o?", "timestamp.field": "ts!"},
        {"static.field": "s", "static.value": "v"}, {"static.field": "s!", "static.value": "v"},
        {"topic.field": "name"}, {"static.field": "s"}, {},
        {"topic.field": "t", "replace.null.with.default": "false"},
    ],
    "MaskField": [
        {"fields": "i8,i16,i32,i64,f32,f64,yes,text,list,moment,defaulted,none"},
        {"fields": "i8,i16,i32,i64,f32,f64,text,price", "replacement": "7"}, {"fields": "yes", "replacement": "1"},
        {"fields": "i,f,text,list,inner,none"}, {"fields": "i,f,text", "replacement": "5"},
        {"fields": "id", "replacement": "x"}, {"fields": "data"}, {"fields": "price"}, {"fields": "missing"},
        {"fields": ""}, {"fields": "note", "replace.null.with.default": "false"},
    ],
    "ReplaceField": [
        {"exclude": "i8,inner,moment"}, {"include": "i8,text,defaulted"}, {"include": "i,text", "exclude": "text"},
        {"renames": "id:number,name:who,text:words,none:nothing"}, {"renames": "broken"}, {},
        {"renames": "note:remark", "replace.null.with.default": "false"}, {"exclude": "id", "include": "id,name"},
    ],
    "Flatten": [{}, {"delimiter": "_"}],
    "SetSchemaMetadata": [
        {"schema.name": "N"}, {"schema.version": "9"}, {"schema.name": "N", "schema.version": "9"}, {},
        {"schema.name": "N", "replace.null.with.default": "false"}, {"schema.version": "x"},
    ],
    "HeaderFrom": [
        *({"fields": "id,note", "headers": "a,b", "operation": operation, **nulls}
          for operation in ("move", "copy") for nulls in _NULLS),
        {"fields": "i,inner,missing", "headers": "a,b,c", "operation": "move"},
        {"fields": "i", "headers": "a,b", "operation": "copy"}, {"fields": "i", "headers": "a", "operation": "steal"},
        {"fields": "moment,price,f32", "headers": "a,b,c", "operation": "copy"},
    ],
    "TimestampConverter": [
        *({"target.type": target, "format": "yyyy-MM-dd HH:mm:ss.SSS", "field": name}
          for target in ("string", "unix", "Date", "Time", "Timestamp")
          for name in ("", "moment", "i64", "day", "time", "i")),
        *({"target.type": "unix", "unix.precision": unit, "field": name}
          for unit in ("seconds", "microseconds", "nanoseconds") for name in ("", "moment", "i64")),
        *({"target.type": "string", "format": pattern}
          for pattern in ("yyyyMMdd'T'HHmmss", "EEE, d MMM yyyy hh:mm a", "yy/M/D u", "yyyy-MM-dd''HH", "bad b")),
        {"target.type": "string"}, {"target.type": "unix", "format": "yyyy-MM-dd HH:mm:ss.SSS"}, {"target.type": "x"},
        *({"target.type": "Timestamp", "field": "defaulted", "format": "yyyy-MM-dd", **nulls} for nulls in _NULLS),
        {"target.type": "unix", "field": "name"}, {"target.type": "Timestamp", "field": "missing"},
    ],
}  # fmt: skip
_WHOLE: dict[str, list[dict[str, str]]] = {
    "DropHeaders": [{"headers": "h"}, {"headers": "other"}, {"headers": ""}],
    "Filter": [{}],
    "InsertHeader": [
        *({"header": "n", "value.literal": text} for text in (
            "text", "12", "300", "70000", "5000000000", "99999999999999999999", "-1", "+3", "1.5", "1e3", "true",
            "null",
            "2023-11-14", "22:15:23.456Z", "2023-11-14T22:15:23.456Z", "[1, 2, 300]", '["a", "b"]', '{"a": 1, "b": 2}',
            "[1, a]", "[]", " 12 ", "12abc", "", '"quoted"', "[null, 1]", "0.1", "1234.5", "1:2", "-", "{}",
        )),
        {"header": "n"},
    ],
    "RegexRouter": [
        {"regex": "(.*)s", "replacement": "$1-x"}, {"regex": "ord", "replacement": "y"},
        {"regex": "(", "replacement": "y"},
        {"regex": "(?<head>or)(.*)", "replacement": "${head}$2$1"}, {"regex": ".*", "replacement": "a\\$b"},
        {"regex": "(o)rders", "replacement": "$12"}, {"regex": "orders", "replacement": "$1"},
    ],
    "TimestampRouter": [{}, {"topic.format": "${timestamp}/${topic}", "timestamp.format": "yyyy-MM-dd-HH"}],
    "ValueToKey": [
        {"fields": "id"}, {"fields": "id,note"}, {"fields": "note", "replace.null.with.default": "false"},
        {"fields": "i,missing"}, {"fields": ""},
    ],
    "predicates.HasHeaderKey": [{"name": "h"}, {"name": "other"}, {}],
    "predicates.RecordIsTombstone": [{}],
    "predicates.TopicNameMatches": [{"pattern": "ord.*"}, {"pattern": "ord"}, {"pattern": "("}],
}  # fmt: skip


def classes() -> list[str]:
    """Return every transform and predicate of Apache Kafka that is in the wheel."""
    listed = [*plugins.names("transforms"), *plugins.names("predicates")]
    return [name for name in listed if name.startswith(TRANSFORMS)]


def cases() -> Iterator[dict[str, Any]]:
    """Every case: class, configuration and record; and of each class what its options are."""
    for name in classes():
        yield {"class": name, "options": True}
    for name, configs in _CONFIGS.items():
        for each, (_, value) in itertools.product(configs, VALUES.items()):
            yield {"class": f"{TRANSFORMS}{name}$Value", "configs": each, "record": record(value)}
        for each in configs:
            yield {"class": f"{TRANSFORMS}{name}$Key", "configs": each, "record": record(SMALL, key=RICH)}
            yield {"class": f"{TRANSFORMS}{name}$Key", "configs": each, "record": record(SMALL, key=SCHEMALESS)}
    for name, configs in _WHOLE.items():
        for each, value in itertools.product(configs, (SMALL, SCHEMALESS, None)):
            yield {"class": f"{TRANSFORMS}{name}", "configs": each, "record": record(value)}
    yield from _odd()
    yield from _headers()
    yield {"class": f"{TRANSFORMS}TimestampRouter", "configs": {}, "record": record(SMALL, timestamp=None)}
    yield {
        "class": f"{TRANSFORMS}InsertField$Value",
        "configs": {"timestamp.field": "ts"},
        "record": record(SMALL, timestamp=None),
    }


_TOPICS = {  # expressions that find less than the whole topic, or something else first
    "orders-eu": ["orders|orders-eu", "(.*?)(-v\\d+)?-eu|.*", "x*.*", "(o|or)(ders|rders)-eu", "(?i)ORDERS-EU", "(.*)"],
    "orders-v1": ["(.*?)(-v\\d+)?", "(\\w+?)(-.*)?", "(.*)-v(\\d)"],
}
_MOMENTS_MS = (1_735_430_400_000, 1_735_516_800_000, 1_609_372_800_000, 1_672_531_200_000, 1_704_067_199_999, -1, 0,
               253_402_300_799_999)  # fmt: skip
_TEXTS = {  # what lenient calendars take
    "yyyy-MM-dd hh:mm a": ["2024-01-02 13:30 PM", "2024-01-02 12:10 AM", "2024-01-02 12:10 PM", "2024-01-02 00:10 PM"],
    "yyyy-MM-dd hh:mm": ["2024-01-02 13:30", "2024-01-02 12:00", "2024-01-02 24:00"],
    "yyyy-MM-dd KK:mm a": ["2024-01-02 12:10 PM", "2024-01-02 00:10 PM"],
    "yyyy-MM-dd kk:mm": ["2024-01-02 24:00", "2024-01-02 25:00", "2024-01-02 00:00"],
    "yyyy-MM-dd HH:mm": ["2024-13-32 25:61", "2024-02-30 00:00", "0001-01-01 00:00"],
    "YYYY-MM-dd": ["2024-03-05", "2025-01-01"],
    "YYYY": ["2023", "2024", "2026"],
    "EEE YYYY": ["Wed 2024", "Sunday 2025"],
    "yyyy-MM-dd'T'HH:mmX": ["2024-01-02T03:04Z", "2024-01-02T03:04+02", "2024-01-02T03:04-0230"],
    "yyyy-MM-dd HH:mm z": ["2024-01-02 03:04 GMT", "2024-01-02 03:04 UTC", "2024-01-02 03:04 GMT+02:00"],
    "yyyyMMddHHmmssSSS": ["20240102030405678"],
}
_NUMBERS = ("1e20", "-1E+30", "1e400", "0.5e1", "12345678901234567890.5", "1.000000059604644775390625000001",
            "1.00000005960464477539062500", "16777217.5", "3.4028236e38")  # fmt: skip


def _odd() -> Iterator[dict[str, Any]]:
    """Odd but valid inputs."""
    for topic, expressions in _TOPICS.items():
        for regex in expressions:
            configs = {"regex": regex, "replacement": "all"}
            yield {"class": f"{TRANSFORMS}RegexRouter", "configs": configs, "record": record(SMALL, topic=topic)}
    converter = f"{TRANSFORMS}TimestampConverter$Value"
    for pattern in ("YYYY-MM-dd", "YY", "yyyy D u", "hh KK kk a", "yyyyy"):
        for moment in _MOMENTS_MS:
            configs = {"target.type": "string", "format": pattern}
            yield {"class": converter, "configs": configs, "record": record(single("int64", moment))}
    for pattern, texts in _TEXTS.items():
        for text in texts:
            configs = {"target.type": "unix", "format": pattern}
            yield {"class": converter, "configs": configs, "record": record(single("string", text))}
    for text in _NUMBERS:
        configs = {"header": "n", "value.literal": text}
        yield {"class": f"{TRANSFORMS}InsertHeader", "configs": configs, "record": record(SMALL)}
        configs = {"spec": "float32"}
        yield {"class": f"{TRANSFORMS}Cast$Value", "configs": configs, "record": record(single("string", text))}
    for number in (16_777_217, 9_007_199_791_611_905, 2**63 - 1):
        configs = {"spec": "float32"}
        yield {"class": f"{TRANSFORMS}Cast$Value", "configs": configs, "record": record(single("int64", number))}


_HEADER_TEXTS = (
    "", " ", "1,5", "1.5", "1.50", "1e5", "1E5", "1e39", "3.4028236e38", "1e308", "1e309", "1e-400", "NaN", "Infinity",
    "-Infinity", "-0", "-0.0", "+1", "00012", "0x1F", "1.", ".5", "1f", "1d", "1L", "1_000", "127", "128", "-128",
    "-129", "32768", "2147483648", "9223372036854775807", "9223372036854775808", "123456789012345678901234567890.5",
    "16777217", "16777217.0", "0.1", "1.7976931348623157", "true", "TRUE", "True", "false ", "yes", "null", "NULL",
    "None", "'x'", '"x"', '"a\\"b"', '"a', '"1"', "\u00e9", "\u0661\u0662", "12e45678901234567890",
    "4bf92f3577b34da6a3ce929d0e0e4736",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "2024-02-30", "2024-02-29", "10000-01-01", "0001-01-01",
    "1500-01-01", "23:59:60.000Z", "24:00:00.000Z", "2024-02-29T12:34:56.789Z", "2024-02-29T12:34:56Z",
    "2024-02-29T12:34:56.789+02:00", "[", "]", "[]", "[1", "[1,]", "[,1]", "[1,2]", "[1, 2.5]", "[2.5, 1]", "[1,a]",
    "[true,1]", "[null]", "[null,1]", "[[1],[2]]", "[1,[2]]", '["a","b"]', '["a",1]', "[ 1 , 300 ]", "{", "{}", "{1}",
    "{a:1}", '{"a":1}', '{"a":1,"b":300}', '{"a":1,"b":"c"}', '{"a":null}', '{"a":[1]}', '{"a":{"b":1}}', '{"a":1,}',
    "{1:2}", "{true:false}", '{"a" : 1 }', "a:b", ":", "a,b", "a b", "\\", "\\\\", "\\n", "a\nb", "\0",
)  # fmt: skip
_HEADER_CONVERTERS = {  # what they read besides text
    "SimpleHeaderConverter": (b"\xff", b"a\xffb", b"\xc3", None),
    "StringConverter": (b"\xff", b"a\xffb", b"", None),
}


def _headers() -> Iterator[dict[str, Any]]:
    """Headers as bytes: what they are read as, and what is written of that."""
    for name, others in _HEADER_CONVERTERS.items():
        for data in (*(text.encode() for text in _HEADER_TEXTS), *others):
            encoded = None if data is None else base64.b64encode(data).decode()
            yield {"class": f"org.apache.kafka.connect.storage.{name}", "header": encoded}


def explained(case: dict[str, Any], java: dict[str, Any]) -> str:
    """Why our outcome may differ from Java's; empty where it may not."""
    if "options" in case:
        return ""
    if "header" in case:
        return _explained_header(case["header"])
    name, configs = case["class"].removeprefix(TRANSFORMS).partition("$")[0], case["configs"]
    schema = (case["record"]["value"] or {}).get("schema") or {}
    if name == "SetSchemaMetadata" and schema.get("type") != "struct" and java == {"refused": "record"}:
        return "Kafka asks schemas that are no structs for their fields, and fails"
    if name == "MaskField" and "price" in configs["fields"] and java == {"refused": "record"}:
        return "Kafka's mask of a Decimal has a scale of 0, and then does not fit its schema"
    if name == "TimestampConverter" and configs.get("unix.precision") == "seconds":
        return "a year after 9999, which Python's datetime does not have"
    if name == "TimestampConverter" and (case["record"]["value"] or {}).get("payload") == "0001-01-01 00:00":
        return "Java's calendar is Julian before 1582"
    if name == "Cast" and configs.get("spec") == "float32":
        return "Java before 19 prints more digits of a float than are needed"
    if name == "InsertHeader":
        return {
            "1:2": "Kafka keeps what is before the colon and drops the rest",
            "[]": "Kafka's schema of an empty list has null for its elements, which no JSON reader takes",
            "{}": "the same for a map, which Kafka itself cannot write",
        }.get(configs.get("value.literal", ""), "")
    return ""


_HEADERS_APART = {
    "Kafka keeps what is before the comma and drops the rest": ("1,5",),
    "Kafka's dates are lenient: February 30 is March 1": ("2024-02-30", "23:59:60.000Z", "24:00:00.000Z"),
    "Java's calendar is Julian before 1582": ("0001-01-01", "1500-01-01"),
    "Kafka has a schema with null for elements or values, or fails at null": (
        "[]", "[true,1]", "[null]", "[1,[2]]", '["a",1]', "{}", '{"a":1,"b":"c"}', '{"a":null}', "null",
    ),
}  # fmt: skip


def _explained_header(encoded: str | None) -> str:
    data = base64.b64decode(encoded or "")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "Kafka puts a replacement character for bytes that are no text"
    return next((reason for reason, texts in _HEADERS_APART.items() if text in texts), "")


_CONVERTER = JsonConverter()
_CONVERTER.configure({}, is_key=False)


def _read(envelope: Any) -> Any:
    return NULL if envelope is None else _CONVERTER.to_connect("t", json.dumps(envelope).encode())


def _written(schema: Any, value: Any) -> Any:
    data = _CONVERTER.from_connect("t", schema, value)
    return None if data is None else json.loads(data)


def read_record(given: dict[str, Any]) -> SinkRecord:
    key, value = _read(given["key"]), _read(given["value"])
    headers = []
    for each in given["headers"]:
        schema, found = _read(each["value"])
        headers.append(Header(each["key"], found, schema))
    return SinkRecord(
        topic=given["topic"], partition=given["partition"], offset=given["offset"], timestamp_ms=given["timestamp"],
        key=key.value, key_schema=key.schema, value=value.value, value_schema=value.schema, headers=tuple(headers),
    )  # fmt: skip


def outcome(case: dict[str, Any]) -> dict[str, Any]:
    """What our implementation makes of a case, as tests/java/src/odradek/TransformReference.java writes it."""
    if "header" in case:
        return _header_outcome(case)
    is_predicate = ".predicates." in case["class"]
    kind = plugins.find("predicates" if is_predicate else "transforms", case["class"]).load()
    plugin = kind()
    assert isinstance(plugin, Transformation | Predicate)
    if "options" in case:
        return {"options": sorted(each.name for each in kind.config_def)}
    try:
        plugin.configure(case["configs"])
    except ConfigError:
        return {"refused": "configuration"}
    try:
        given = read_record(case["record"])
        if isinstance(plugin, Predicate):
            return {"test": plugin.test(given)}
        changed = plugin.apply(given)
        if changed is None:
            return {"dropped": True}
        return {
            "topic": changed.topic,
            "key": _written(changed.key_schema, changed.key),
            "value": _written(changed.value_schema, changed.value),
            "timestamp": changed.timestamp_ms,
            "headers": [{"key": h.key, "value": _written(h.schema, h.value)} for h in changed.headers],
        }
    except DataError:
        return {"refused": "record"}


def _header_outcome(case: dict[str, Any]) -> dict[str, Any]:
    converter = plugins.find("converters", case["class"]).load()()
    assert isinstance(converter, Converter)
    converter.configure({}, is_key=False)
    try:
        found = converter.to_connect("t", None if case["header"] is None else base64.b64decode(case["header"]))
        written = converter.from_connect("t", found.schema, found.value)
        value = _written(found.schema, found.value)
    except DataError:
        return {"refused": "record"}
    return {"value": value, "header": None if written is None else base64.b64encode(written).decode()}
