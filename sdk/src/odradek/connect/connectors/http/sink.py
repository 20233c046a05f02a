"""The HTTP sink: a request for each record, or for a batch of them. At least once.

A request that gets no answer, 408, 429 or 5xx is made again; another refusal is about the records, which then go where
`errors.tolerance` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.http.client import HTTP, HttpClient
from odradek.connect.converters.json import dump
from odradek.connect.converters.json_format import to_json
from odradek.connect.data.values import to_text
from odradek.connect.errors import DataError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord

_DEFINITIONS = (
    ConfigDef()
    .define(
        "http.api.url", Kind.STRING, documentation="The URL; ${topic} and ${key} are those of the record.",
        importance="HIGH", allowed=non_empty(),
    )
    .define(
        "request.method", Kind.STRING, "POST", "The method.", allowed=one_of("POST", "PUT", "PATCH", ignore_case=True)
    )
    .define(
        "request.body.format", Kind.STRING, "json", "json, or string: the text form of the value.",
        allowed=one_of("json", "string", ignore_case=True),
    )
    .define(
        "batch.max.size", Kind.INT, 1, "Records of one request; from 2 on the body is a JSON list.", allowed=between(1)
    )
    .define(
        "behavior.on.null.values", Kind.STRING, "ignore", "ignore a tombstone, make a DELETE, or fail.",
        allowed=one_of("ignore", "delete", "fail"),
    )
) + HTTP  # fmt: skip


class HttpSinkTask(SinkTask):
    """Makes requests, in the order of the records."""

    _client: HttpClient | None = None

    def start(self, configs: Configs) -> None:
        self._options = _DEFINITIONS.parse(configs)
        self._client = HttpClient(self._options, self.context.clock)
        self._done = 0  # records of a batch that comes again after a failure

    def put(self, records: Sequence[SinkRecord]) -> None:
        groups = self._groups(records)
        position = 0
        for url, group in groups:
            if position >= self._done:
                self._send(url, group)
            position += len(group)
            self._done = max(self._done, position)
        self._done = 0

    def _groups(self, records: Sequence[SinkRecord]) -> list[tuple[str, list[SinkRecord]]]:
        """Return neighbours with the same URL, at most so many as a request may have."""
        groups: list[tuple[str, list[SinkRecord]]] = []
        for record in records:
            url = self._url(record)
            is_alone = record.value is None or (groups and groups[-1][1][-1].value is None)
            if not groups or is_alone or groups[-1][0] != url or len(groups[-1][1]) >= self._options["batch.max.size"]:
                groups.append((url, []))
            groups[-1][1].append(record)
        return groups

    def _url(self, record: SinkRecord) -> str:
        key = "" if record.key is None else quote(to_text(record.key), safe="")
        return str(self._options["http.api.url"]).replace("${topic}", record.topic).replace("${key}", key)

    def _send(self, url: str, group: list[SinkRecord]) -> None:
        assert self._client is not None
        try:
            if group[0].value is None:
                if self._options["behavior.on.null.values"] == "fail":
                    raise DataError("the record has no value")
                if self._options["behavior.on.null.values"] == "delete":
                    self._client.call("DELETE", url)
                return
            body, content_type = self._body(group)
            self._client.call(self._options["request.method"].upper(), url, body, content_type)
        except DataError as error:
            for record in group:
                self.context.errant_records.report(record, error)

    def _body(self, group: list[SinkRecord]) -> tuple[bytes, str]:
        if self._options["request.body.format"].lower() == "string":
            return "\n".join(to_text(record.value) for record in group).encode(), "text/plain"
        values: list[Any] = [to_json(record.value_schema, record.value) for record in group]
        whole = values[0] if self._options["batch.max.size"] == 1 else values
        return dump(whole), "application/json"

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()


class HttpSinkConnector(SinkConnector):
    """Requests to an HTTP API, for each record or in batches."""

    task_class = HttpSinkTask
    config_def = _DEFINITIONS

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max
