"""Source offsets: where each partition of a source is to be continued, in a compacted topic.

    key      ["connector", {partition}]     value    {offset}, null after a reset

Keys and values are Kafka Connect's. A task writes them in the transaction of its records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from odradek.connect.errors import ConnectError
from odradek.connect.record import Offset, Partition
from odradek.connect.state.state_topic import Pair, StateTopic


def frozen(partition: Partition) -> str:
    """Return a partition as a key: equal partitions give equal texts. Raises ConnectError for what JSON has not."""
    try:
        return json.dumps(partition, sort_keys=True, separators=(",", ":"))
    except TypeError as error:
        raise ConnectError(f"a source partition must be plain JSON: {error}") from error


def offset_record(connector: str, partition: Partition, offset: Offset | None) -> Pair:
    """Return the record of an offset. Raises ConnectError for what JSON has not."""
    key = f"[{json.dumps(connector)},{frozen(partition)}]".encode()
    try:
        value = None if offset is None else json.dumps(offset, sort_keys=True, separators=(",", ":")).encode()
    except TypeError as error:
        raise ConnectError(f"a source offset must be plain JSON: {error}") from error
    return key, value


class SourceOffsets:
    """The stored offsets of all connectors."""

    def __init__(self, client: Mapping[str, Any], topic: str, partitions: int) -> None:
        self._found: dict[str, dict[str, Offset]] = {}
        self.log = StateTopic(client, topic, partitions, self._apply)

    def _apply(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        try:
            connector, partition = json.loads(key or b"")
            position = None if value is None else json.loads(value)
        except (ValueError, TypeError):
            return
        if not isinstance(partition, dict) or not isinstance(position, dict | None):
            return
        of_connector = self._found.setdefault(str(connector), {})
        if position is None:
            of_connector.pop(frozen(partition), None)
        else:
            of_connector[frozen(partition)] = position

    def of(self, connector: str) -> dict[str, Offset]:
        """Return the offsets of a connector by partition (`frozen`), everything that is stored by now."""
        with self.log.lock:
            self.log.read_to_end()
            return dict(self._found.get(connector, {}))

    def write(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> None:
        """Store offsets outside of a transaction; None deletes one."""
        self.log.write([offset_record(connector, partition, offset) for partition, offset in offsets])

    def close(self) -> None:
        self.log.close()
