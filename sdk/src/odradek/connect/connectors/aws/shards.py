"""Reading a stream of shards: Amazon Kinesis Data Streams, and the streams of DynamoDB tables.

A source partition is a shard, its offset the sequence number of the last record. A shard that was split or merged is
read to its end, then its children. Shards are divided among the tasks by their ids.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from odradek.connect.config import ConfigDef, Kind, between, one_of
from odradek.connect.errors import ConnectError
from odradek.connect.plugin import Configs, SourceTask
from odradek.connect.record import SourceRecord


def shard_options(prefix: str) -> ConfigDef:
    """Return the options of a source of shards."""
    return (
        ConfigDef()
        .define(
            f"{prefix}.position", Kind.STRING, "TRIM_HORIZON", "Where a shard without a stored offset begins.",
            allowed=one_of("TRIM_HORIZON", "LATEST"),
        )
        .define(f"{prefix}.record.limit", Kind.INT, 500, "Records of one request.", allowed=between(1, 10_000))
        .define(
            f"{prefix}.poll.interval.ms", Kind.LONG, 1_000, "Pause after requests without records.", allowed=between(1)
        )
        .define(
            f"{prefix}.shard.list.interval.ms", Kind.LONG, 30_000, "Time between two looks for new shards.",
            importance="LOW", allowed=between(1),
        )
    )  # fmt: skip


class ShardsTask(SourceTask):
    """Reads its share of the shards."""

    prefix: str

    @abstractmethod
    def open(self, configs: Configs) -> Mapping[str, Any]:
        """Create the client and return the parsed configuration."""

    @abstractmethod
    def shards(self) -> list[dict[str, Any]]:
        """Return all shards, as AWS describes them."""

    @abstractmethod
    def iterator(self, shard: str, where: Mapping[str, Any]) -> str:
        """Return an iterator of a shard."""

    @abstractmethod
    def records(self, iterator: str, limit: int) -> dict[str, Any]:
        """Return the response with the records of an iterator."""

    @abstractmethod
    def partition(self, shard: str) -> dict[str, str]:
        """Return the source partition of a shard."""

    @abstractmethod
    def record(self, shard: str, stream_record: dict[str, Any]) -> SourceRecord:
        """Return a record, with its partition and offset."""

    @abstractmethod
    def sequence(self, stream_record: dict[str, Any]) -> str:
        """Return the sequence number of a record."""

    def start(self, configs: Configs) -> None:
        options = self.open(configs)
        self._position: str = options[f"{self.prefix}.position"]
        self._limit: int = options[f"{self.prefix}.record.limit"]
        self._pause_s = options[f"{self.prefix}.poll.interval.ms"] / 1000
        self._list_s = options[f"{self.prefix}.shard.list.interval.ms"] / 1000
        self._task, self._tasks = int(configs.get("task.number", 0)), int(configs.get("task.count", 1))
        self._iterators: dict[str, str] = {}
        self._positions: dict[str, str] = {}
        self._ended: set[str] = set()
        self._listed_s = float("-inf")

    def poll(self) -> list[SourceRecord]:
        now_s = self.context.clock.monotonic()
        if now_s - self._listed_s >= self._list_s:
            self._list()
            self._listed_s = now_s
        records = [record for shard in list(self._iterators) for record in self._read(shard)]
        if not records:
            self.context.wait(self._pause_s)
        return records

    def _is_mine(self, shard: str) -> bool:
        return zlib.crc32(shard.encode()) % self._tasks == self._task

    def _list(self) -> None:
        """Find shards; a child begins when its parents have ended, so that keys keep their order."""
        shards = self.shards()
        shard_ids: set[str] = {description["ShardId"] for description in shards}
        for description in shards:
            shard = description["ShardId"]
            parents = shard_ids & {description.get("ParentShardId"), description.get("AdjacentParentShardId")}
            # Parents of other tasks cannot be waited for: with several tasks, order ends where shards are divided.
            waits = {parent for parent in parents if self._is_mine(parent)} - self._ended
            is_new = shard not in self._iterators and shard not in self._ended
            if self._is_mine(shard) and not waits and is_new:
                self._iterators[shard] = self._begin(shard)

    def _begin(self, shard: str) -> str:
        stored = self.context.offset(self.partition(shard))
        last = self._positions.get(shard) or (None if stored is None else str(stored["sequence"]))
        if last is None:
            return self.iterator(shard, {"ShardIteratorType": self._position})
        return self.iterator(shard, {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": last})

    def _read(self, shard: str) -> list[SourceRecord]:
        try:
            response = self.records(self._iterators[shard], self._limit)
        except ConnectError as error:
            if "ExpiredIterator" not in str(error):
                raise
            self._iterators[shard] = self._begin(shard)
            return []
        following = response.get("NextShardIterator")
        if following is None:
            del self._iterators[shard]
            self._ended.add(shard)
            self._listed_s = float("-inf")
        else:
            self._iterators[shard] = following
        records = []
        for stream_record in response["Records"]:
            self._positions[shard] = self.sequence(stream_record)
            records.append(self.record(shard, stream_record))
        return records
