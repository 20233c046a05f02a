"""Predicates: the conditions under which a transform applies (KIP-585)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from odradek.connect.config import ConfigDef, Kind, java_regex, non_empty, regex
from odradek.connect.plugin import Predicate
from odradek.connect.record import ConnectRecord


class HasHeaderKey(Predicate):
    """The record has a header with this name."""

    config_def = ConfigDef().define("name", Kind.STRING, documentation="Name of the header.", allowed=non_empty())

    def test(self, record: ConnectRecord) -> bool:
        return any(header.key == self.configs["name"] for header in record.headers)


class RecordIsTombstone(Predicate):
    """The record has no value."""

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None


class TopicNameMatches(Predicate):
    """The topic's whole name matches a regular expression."""

    config_def = ConfigDef().define("pattern", Kind.STRING, documentation="A regular expression.", allowed=regex())

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self._pattern = re.compile(java_regex(self.configs["pattern"]))

    def test(self, record: ConnectRecord) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
