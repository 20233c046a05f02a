"""Writes files: the records of a partition of a topic, rotated by number, size, time or schema.

    <topics.dir>/<topic>/<folder of the partitioner>/<topic>+<partition>+<first offset>.<format>

All open files of a partition are written together, and only what is in written files is committed. After a restart the
task begins at the first record that is in no written file, makes the same files with the same names, and replaces those
that it had written before it could commit. So each record is in exactly one file, if the rotation depends on the
records alone: by `flush.size`, `flush.bytes`, `rotate.interval.ms` or the schema, not by `rotate.schedule.interval.ms`
or the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.files.formats import WRITERS, schema_of
from odradek.connect.connectors.files.partitioners import PARTITIONERS, make_partitioner
from odradek.connect.connectors.files.storage import Folder, Storage
from odradek.connect.errors import ConfigError, DataError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord
from odradek.model.topic_partition import TopicPartition

_FORMATS = {
    "JsonFormat": "json",
    "AvroFormat": "avro",
    "ParquetFormat": "parquet",
    "StringFormat": "lines",
    "ByteArrayFormat": "bytes",
}
SINK = (
    ConfigDef()
    .define(
        "format.class", Kind.CLASS, "json",
        f"Format of the files: {', '.join(WRITERS)}, or Confluent's class names ({', '.join(_FORMATS)}).",
        importance="HIGH", also=("format",),
    )
    .define("topics.dir", Kind.STRING, "topics", "The folder above all others; empty: none.")
    .define(
        "flush.size", Kind.INT, 1000, "Records of a file: at this number the files of the partition are written.",
        importance="HIGH", allowed=between(1),
    )
    .define(
        "flush.bytes", Kind.LONG, -1, "Bytes of a file's records as they were read, keys and values: at this number "
        "the files of the partition are written; -1: any number.",
    )
    .define(
        "rotate.interval.ms", Kind.LONG, -1,
        "Files are written when a record is so much later than the first one, by the records' time; -1: never.",
    )
    .define(
        "rotate.schedule.interval.ms", Kind.LONG, -1,
        "Files are written after this time in any case; at least once then, not exactly once. -1: never.",
    )
    .define(
        "behavior.on.null.values", Kind.STRING, "ignore", "Whether tombstones are skipped, or fail the task.",
        allowed=one_of("ignore", "fail"),
    )
    .define("file.delim", Kind.STRING, "+", "Between the parts of a file's name.", importance="LOW")
) + PARTITIONERS  # fmt: skip


@dataclass
class _Open:
    """Records of one partition that are collected and not yet written."""

    files: dict[str, list[SinkRecord]] = field(default_factory=dict)  # by folder
    sizes: dict[str, int] = field(default_factory=dict)  # bytes of the records as they were read, by folder
    first_ms: int = 0  # time of the first record
    opened_s: float = 0.0
    schema: Any = None


class FilesSinkTask(SinkTask):
    """Writes the files of its partitions."""

    definitions: ClassVar[ConfigDef]

    def storage(self, options: dict[str, Any]) -> Storage:
        """Return where the files are."""
        raise NotImplementedError

    def start(self, configs: Configs) -> None:
        self._options = options = self.definitions.parse(configs)
        name = str(options["format.class"]).rpartition(".")[2]
        if _FORMATS.get(name, name) not in WRITERS:
            raise ConfigError({"format.class": [f"unknown format {name!r}: use {', '.join(WRITERS)}"]})
        self._writer = WRITERS[_FORMATS.get(name, name)]
        self._storage = self.storage(options)
        self._partitioner = make_partitioner(options)
        self._open: dict[TopicPartition, _Open] = {}
        self._written: dict[TopicPartition, int] = {}  # the first offset that is in no written file
        self._taken: dict[TopicPartition, int] = {}  # the next offset: a batch may come again after a failure

    def put(self, records: Sequence[SinkRecord]) -> None:
        clock = self.context.clock
        for tp, opened in self._open.items():
            if any(self._is_full(opened, folder) for folder in opened.files):
                self._write(tp)  # it failed the last time
        for record in records:
            tp = record.source
            if record.source_position < self._taken.get(tp, 0):
                continue
            if record.value is not None:
                self._take(record, clock.now_ms(), clock.monotonic())
            elif self._options["behavior.on.null.values"] == "fail":
                raise DataError(f"the record at offset {record.source_position} of {tp} has no value")
            else:
                self._pass(record)
            self._taken[tp] = record.source_position + 1
        after_ms = self._options["rotate.schedule.interval.ms"]
        for tp, opened in list(self._open.items()):
            if after_ms >= 0 and opened.files and clock.monotonic() - opened.opened_s >= after_ms / 1000:
                self._write(tp)

    def _take(self, record: SinkRecord, now_ms: int, now_s: float) -> None:
        tp = record.source
        try:
            time_ms = self._partitioner.time_ms(record, now_ms)
            folder = self._partitioner.folder(record, now_ms)
        except DataError as error:
            self.context.errant_records.report(record, error)
            self._pass(record)
            return
        schema = schema_of(record) if self._writer.has_schema else None
        opened = self._open.get(tp)
        if opened is not None and opened.files and self._ends(opened, schema, time_ms):
            self._write(tp)
            opened = None
        if opened is None or not opened.files:
            opened = self._open[tp] = _Open(first_ms=time_ms, opened_s=now_s, schema=schema)
        opened.files.setdefault(folder, []).append(record)
        opened.sizes[folder] = opened.sizes.get(folder, 0) + _size_bytes(record)
        self._taken[tp] = record.source_position + 1
        if self._is_full(opened, folder):
            self._write(tp)

    def _pass(self, record: SinkRecord) -> None:
        """Leave out a record, which is in no file."""
        tp = record.source
        if tp not in self._open or not self._open[tp].files:
            self._written[tp] = record.source_position + 1

    def _is_full(self, opened: _Open, folder: str) -> bool:
        records_max, bytes_max = int(self._options["flush.size"]), int(self._options["flush.bytes"])
        return len(opened.files[folder]) >= records_max or 0 <= bytes_max <= opened.sizes[folder]

    def _ends(self, opened: _Open, schema: Any, time_ms: int) -> bool:
        """Return True if a record does not belong into the open files any more."""
        after_ms = self._options["rotate.interval.ms"]
        return bool(schema != opened.schema or (after_ms >= 0 and time_ms - opened.first_ms >= after_ms))

    def _write(self, tp: TopicPartition) -> None:
        """Write all open files of a partition. A failure leaves them open; the next attempt replaces them."""
        opened = self._open[tp]
        for folder, records in opened.files.items():
            self._storage.write(self._name(folder, records[0]), self._writer.write(records))
        last = max(records[-1].source_position for records in opened.files.values())
        self._written[tp] = last + 1
        opened.files.clear()
        opened.sizes.clear()

    def _name(self, folder: str, first: SinkRecord) -> str:
        mark = self._options["file.delim"]
        # The topic may have been changed by a transform; the offset belongs to the partition that was read.
        name = f"{first.topic}{mark}{first.source.partition}{mark}{first.source_position:010}{self._writer.extension}"
        return "/".join(part for part in (self._options["topics.dir"], first.topic, folder, name) if part)

    def rest(self) -> None:
        """Write open files, if files are written by the clock anyway: others are to be the same in each run."""
        if self._options["rotate.schedule.interval.ms"] >= 0:
            for tp, opened in self._open.items():
                if opened.files:
                    self._write(tp)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {tp: offset for tp, offset in self._written.items() if tp in offsets}

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._open.pop(tp, None)
            self._written.pop(tp, None)
            self._taken.pop(tp, None)


def _size_bytes(record: SinkRecord) -> int:
    read = record.original
    return 0 if read is None else len(read.key or b"") + len(read.value or b"")


class FileSinkTask(FilesSinkTask):
    """Writes into a folder of this machine."""

    definitions = (
        ConfigDef().define(
            "path", Kind.STRING, documentation="The folder to write to.", importance="HIGH", allowed=non_empty()
        )
        + SINK
    )

    def storage(self, options: dict[str, Any]) -> Storage:
        return Folder(options["path"])


class FileSinkConnector(SinkConnector):
    """Files of this machine: JSON, Avro, Parquet, lines or bytes, with partitioners and rotation."""

    task_class = FileSinkTask
    config_def = FileSinkTask.definitions

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max
