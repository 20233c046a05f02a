"""The HTTP source: polls an API that answers JSON, page by page, and remembers where it was.

SIMPLE_INCREMENTING   the offset is the number of records read so far
CHAINING              the offset is a value of the last record (http.offset.json.pointer), such as its id or time
CURSOR_PAGINATION     the offset is a value of the response (http.next.page.json.pointer): the next page
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.http.client import HTTP, HttpClient
from odradek.connect.errors import DataError
from odradek.connect.plugin import Configs, SourceConnector, SourceTask
from odradek.connect.record import SourceRecord

_DEFINITIONS = (
    ConfigDef()
    .define("topic", Kind.STRING, documentation="The topic to write to.", importance="HIGH", allowed=non_empty())
    .define(
        "url", Kind.STRING, documentation="The URL; ${offset} is the position.", importance="HIGH",
        allowed=non_empty(), also=("http.api.url",),
    )
    .define("http.request.method", Kind.STRING, "GET", "The method.", allowed=one_of("GET", "POST", ignore_case=True))
    .define("http.request.body", Kind.STRING, "", "Body of a POST; ${offset} is the position.")
    .define(
        "http.offset.mode", Kind.STRING, "SIMPLE_INCREMENTING", "What the position is.", importance="HIGH",
        allowed=one_of("SIMPLE_INCREMENTING", "CHAINING", "CURSOR_PAGINATION"),
    )
    .define("http.initial.offset", Kind.STRING, "0", "The first position.")
    .define("http.response.data.json.pointer", Kind.STRING, "", "Where the records are (RFC 6901); empty: the whole.")
    .define("http.offset.json.pointer", Kind.STRING, "", "CHAINING: where the position is in a record.")
    .define("http.next.page.json.pointer", Kind.STRING, "", "CURSOR_PAGINATION: where the next position is.")
    .define("request.interval.ms", Kind.LONG, 15_000, "Time between two requests without news.", allowed=between(1))
) + HTTP  # fmt: skip


def pointed(document: Any, pointer: str) -> Any:
    """Return what a JSON pointer leads to, None if there is nothing (RFC 6901)."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, list) and name.isdigit() and int(name) < len(document):
            document = document[int(name)]
        else:
            return None
    return document


class HttpSourceTask(SourceTask):
    """Makes one request a poll."""

    _client: HttpClient | None = None

    def start(self, configs: Configs) -> None:
        self._options = options = _DEFINITIONS.parse(configs)
        self._client = HttpClient(options, self.context.clock)
        self._partition = {"url": options["url"]}
        stored = self.context.offset(self._partition)
        self._offset = str(options["http.initial.offset"] if stored is None else stored["offset"])
        self._read = 0 if stored is None else int(stored.get("read", 0))
        self._due_s = self.context.clock.monotonic()

    def poll(self) -> list[SourceRecord]:
        assert self._client is not None
        wait_s = self._due_s - self.context.clock.monotonic()
        if wait_s > 0:
            self.context.wait(min(wait_s, 1.0))
            return []
        options, offset_before = self._options, self._offset
        url = options["url"].replace("${offset}", quote(self._offset, safe=""))
        body = options["http.request.body"].replace("${offset}", self._offset).encode() or None
        data = self._client.call(options["http.request.method"].upper(), url, body, "application/json" if body else "")
        try:
            document = json.loads(data or b"[]")
        except ValueError as error:
            raise DataError(f"{url} did not answer JSON: {error}") from error
        pointed_value = pointed(document, options["http.response.data.json.pointer"])
        values = pointed_value if isinstance(pointed_value, list) else [] if pointed_value is None else [pointed_value]
        if options["http.offset.mode"] == "CURSOR_PAGINATION":
            records = self._page(values, pointed(document, options["http.next.page.json.pointer"]))
        else:
            records = [self._record(value) for value in values]
        if not records and self._offset == offset_before:
            self._due_s = self.context.clock.monotonic() + options["request.interval.ms"] / 1000
        return records

    def _page(self, values: list[Any], following: Any) -> list[SourceRecord]:
        """Return the records of a page that were not read yet, and move to the next page if there is one."""
        fresh = values[self._read :]
        if following is None:
            records = []
            for value in fresh:
                self._read += 1
                records.append(self._made(value))
            self._due_s = self.context.clock.monotonic() + self._options["request.interval.ms"] / 1000
            return records
        # All records of the page are stored in one transaction, so the next page is where each of them leads.
        self._offset, self._read = str(following), 0
        return [self._made(value) for value in fresh]

    def _record(self, value: Any) -> SourceRecord:
        if self._options["http.offset.mode"] == "SIMPLE_INCREMENTING":
            self._offset = str(int(self._offset) + 1)
        else:
            pointed_value = pointed(value, self._options["http.offset.json.pointer"])
            if pointed_value is None:
                raise DataError(
                    f"a record has nothing at {self._options['http.offset.json.pointer']!r}: {value!r:.200}"
                )
            self._offset = str(pointed_value)
        return self._made(value)

    def _made(self, value: Any) -> SourceRecord:
        offset: dict[str, Any] = {"offset": self._offset}
        return SourceRecord(
            topic=self._options["topic"],
            value=value,
            source_partition=self._partition,
            source_offset={**offset, "read": self._read} if self._read else offset,
        )

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()


class HttpSourceConnector(SourceConnector):
    """An HTTP API that is polled, page by page or from a position on."""

    task_class = HttpSourceTask
    config_def = _DEFINITIONS

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)]
