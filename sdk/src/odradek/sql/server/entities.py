"""Results of statements and rows of queries in ksqlDB's JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from odradek.sql.catalog import Source
from odradek.sql.types import SqlType

Json = dict[str, Any]
_NAMES = {"VARCHAR": "STRING", "INT": "INTEGER"}
_MARK = "\ue000"  # around the digits of a DECIMAL, until the text of the JSON is made
_MARKED = re.compile(f'"{_MARK}(-?[0-9.]+){_MARK}"')


def entity(kind: str, statement: str, **fields: Any) -> Json:
    """Return the result of a statement. Args: ksqlDB's name of the result's type, the statement's text."""
    return {"@type": kind, "statementText": statement, **fields, "warnings": []}


def command_status(
    statement: str, command_id: str, message: str, number: int, query_id: str | None, warnings: Iterable[str] = ()
) -> Json:
    status = {"status": "SUCCESS", "message": message, "queryId": query_id}
    found = entity("currentStatus", statement, commandId=command_id, commandStatus=status, commandSequenceNumber=number)
    return found | {"warnings": [{"message": each} for each in warnings]}


def type_name(kind: SqlType | None) -> str:
    """Return a type as ksqlDB writes it: ARRAY<STRING>, STRUCT<`A` INTEGER>."""
    if kind is None:
        return "STRING"
    if kind.name == "DECIMAL":
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if kind.name == "STRUCT":
        inner = ", ".join(f"`{n}` {type_name(each)}" for n, each in zip(kind.fields, kind.inner, strict=True))
        return f"STRUCT<{inner}>"
    if kind.inner:
        return f"{kind.name}<{', '.join(type_name(each) for each in kind.inner)}>"
    return _NAMES.get(kind.name, kind.name)


def schema(kind: SqlType) -> Json:
    """Return a type as an object."""
    found: Json = {"type": _NAMES.get(kind.name, kind.name), "fields": None, "memberSchema": None}
    if kind.name == "STRUCT":
        found["fields"] = [
            {"name": name, "schema": schema(each)} for name, each in zip(kind.fields, kind.inner, strict=True)
        ]
    elif kind.inner:
        found["memberSchema"] = schema(kind.inner[-1])
    elif kind.name == "DECIMAL":
        found["parameters"] = {"precision": kind.precision, "scale": kind.scale}
    return found


def fields_of(source: Source) -> list[Json]:
    """Return the columns of a stream or table."""
    found = []
    for each in source.columns:
        one: Json = {"name": each.name, "schema": schema(each.type)}
        if each.is_key:
            one["type"] = "KEY"
        elif each.is_header:
            one |= {"type": "HEADER"} | ({"headerKey": each.header} if each.header else {})
        found.append(one)
    return found


def source_row(source: Source) -> Json:
    """Return a line of SHOW STREAMS or SHOW TABLES."""
    return {
        "type": source.kind,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_format,
        "valueFormat": source.value_format,
        "isWindowed": bool(source.window),
    }


def topic_row(name: str, partitions: int, consumers: Sequence[int] | None = None) -> Json:
    """Return a line of SHOW TOPICS. Args: consumers: members of each group that reads it; None: not asked."""
    found: Json = {"name": name, "replicaInfo": [1] * partitions}
    if consumers is not None:
        found |= {"consumerCount": sum(consumers), "consumerGroupCount": len(consumers)}
    return found


def query_row(query_id: str, statement: str, sink: str, topic: str, state: str) -> Json:
    """Return a line of SHOW QUERIES."""
    return {
        "queryString": statement,
        "sinks": [sink],
        "sinkKafkaTopics": [topic],
        "id": query_id,
        "statusCount": {state: 1},
        "queryType": "PERSISTENT",
        "state": state,
    }


def push_row(query_id: str, statement: str) -> Json:
    """Return a push query as a line of SHOW QUERIES."""
    found = query_row(query_id, statement, "", "", "RUNNING")
    return found | {"sinks": [], "sinkKafkaTopics": [], "queryType": "PUSH"}


def source_description(
    source: Source, statement: str, partitions: int, reads: Sequence[Json], writes: Sequence[Json], *, extended: bool
) -> Json:
    """Return the answer to DESCRIBE."""
    return {
        "name": source.name,
        "windowType": source.window or None,
        "readQueries": list(reads),
        "writeQueries": list(writes),
        "fields": fields_of(source),
        "type": source.kind,
        "timestamp": source.timestamp,
        "statistics": "",
        "errorStats": "",
        "extended": extended,
        "keyFormat": source.key_format,
        "valueFormat": source.value_format,
        "topic": source.topic,
        "partitions": partitions,
        "replication": 1 if extended else 0,
        "statement": statement,
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }


# --- rows


def row_value(value: Any, kind: SqlType | None) -> Any:
    """Return a value of a row, as the engine shows it, in ksqlDB's JSON; write it by `text_of`."""
    if value is None or kind is None:
        return value
    if kind.name == "STRUCT":
        return {name: row_value(value[name], each) for name, each in zip(kind.fields, kind.inner, strict=True)}
    if kind.name == "ARRAY":
        return [row_value(each, kind.inner[0]) for each in value]
    if kind.name == "MAP":
        return {key: row_value(each, kind.inner[1]) for key, each in value.items()}
    if kind.name == "DECIMAL":
        return f"{_MARK}{value}{_MARK}"
    if kind.name == "TIMESTAMP":
        return _timestamp(str(value))
    if kind.name == "TIME":
        return _time(int(value))
    return value


def text_of(document: Any) -> str:
    """Return JSON in which a DECIMAL is a number with all its digits."""
    return _MARKED.sub(r"\1", json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def _timestamp(shown: str) -> str:
    """Return 2026-01-01T00:00:00.000 of 2026-01-01T00:00:00Z."""
    whole, _, fraction = shown.removesuffix("Z").partition(".")
    return f"{whole}.{fraction[:3]:0<3}"


def _time(ms: int) -> str:
    seconds, millis = divmod(ms, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{millis:03}" if millis else text
