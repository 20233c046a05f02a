"""The Lambda sink: calls a function with records. At least once.

The payload is that of Confluent's connector: a JSON list of {"payload": {topic, partition, offset, key, value,
timestamp, headers}}.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.aws.client import AWS, client, translated
from odradek.connect.converters.json import dump
from odradek.connect.converters.json_format import to_json
from odradek.connect.errors import ConnectError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord

_TEXT_MAX = 300


class LambdaSinkTask(SinkTask):
    """Calls the function."""

    def start(self, configs: Configs) -> None:
        self._options = LambdaSinkConnector.config_def.parse(configs)
        self._client: Any = client("lambda", self._options)
        self._done = 0  # records of a batch that comes again after a failure

    def put(self, records: Sequence[SinkRecord]) -> None:
        size = self._options["aws.lambda.batch.size"]
        while self._done < len(records):
            batch = records[self._done : self._done + size]
            try:
                self._call(batch)
            except ConnectError as error:
                if self._options["behavior.on.error"] == "fail" or not isinstance(error, _FunctionFailed):
                    raise
                for record in batch:
                    self.context.errant_records.report(record, error)
            self._done += len(batch)
        self._done = 0

    def _call(self, batch: Sequence[SinkRecord]) -> None:
        options = self._options
        name = options["aws.lambda.function.name"]
        payload = dump([{"payload": _payload(record)} for record in batch])
        is_sync = options["aws.lambda.invocation.type"] == "sync"
        with translated(f"the function {name} cannot be called"):
            response = self._client.invoke(
                FunctionName=name, Payload=payload, InvocationType="RequestResponse" if is_sync else "Event"
            )
        if response.get("FunctionError"):
            text = response["Payload"].read().decode(errors="replace")[:_TEXT_MAX]
            raise _FunctionFailed(f"the function {name} failed: {_message(text)}")


class _FunctionFailed(ConnectError):
    """The function itself raised an error."""


def _message(text: str) -> str:
    try:
        document = json.loads(text)
        return str(document.get("errorMessage", text)) if isinstance(document, dict) else text
    except ValueError:
        return text


def _payload(record: SinkRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestampTypeName": record.timestamp_type,
        "key": to_json(record.key_schema, record.key),
        "value": to_json(record.value_schema, record.value),
        "headers": [{"key": header.key, "value": to_json(header.schema, header.value)} for header in record.headers],
    }


class LambdaSinkConnector(SinkConnector):
    """Calls of an AWS Lambda function with batches of records."""

    task_class = LambdaSinkTask
    config_def = (
        ConfigDef()
        .define(
            "aws.lambda.function.name", Kind.STRING, documentation="Name or ARN.", importance="HIGH",
            allowed=non_empty(),
        )
        .define(
            "aws.lambda.invocation.type", Kind.STRING, "sync", "sync waits for the function; async does not.",
            allowed=one_of("sync", "async"),
        )
        .define("aws.lambda.batch.size", Kind.INT, 20, "Records of one call.", allowed=between(1))
        .define(
            "behavior.on.error", Kind.STRING, "log",
            "If the function fails: log reports its records (errors.tolerance), fail ends the task.",
            allowed=one_of("log", "fail"),
        )
    ) + AWS  # fmt: skip

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max
