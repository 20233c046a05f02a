"""Reads files: one, or all that are in a folder or appear there.

A source partition is a file, its offset the position behind the last record. Files are divided among the tasks by their
names. Files of lines may grow (a log); others are read when they appear, which they have to do at once, by a rename.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of, regex
from odradek.connect.connectors.files.formats import READERS, Found
from odradek.connect.connectors.files.storage import Folder, Storage
from odradek.connect.plugin import Configs, SourceConnector, SourceTask
from odradek.connect.record import SourceRecord

SOURCE = (
    ConfigDef()
    .define("topic", Kind.STRING, documentation="The topic to write to.", importance="HIGH", allowed=non_empty())
    .define("format", Kind.STRING, "lines", "Format of the files.", importance="HIGH", allowed=one_of(*READERS))
    .define(
        "file.name.pattern", Kind.STRING, ".*", "Regular expression of whole file names, with their folders.",
        allowed=regex(),
    )
    .define("batch.size", Kind.INT, 2000, "The largest number of records of one poll.", allowed=between(1))
    .define("poll.interval.ms", Kind.LONG, 1_000, "Time between two looks for new content.", allowed=between(1))
)  # fmt: skip


class FilesTask(SourceTask):
    """Reads its share of the files."""

    definitions: ClassVar[ConfigDef]

    def storage(self, options: dict[str, Any]) -> Storage:
        """Return where the files are."""
        raise NotImplementedError

    def start(self, configs: Configs) -> None:
        options = self.definitions.parse(configs)
        self._storage = self.storage(options)
        self._topic: str = options["topic"]
        self._reader = READERS[options["format"]]
        self._pattern = re.compile(options["file.name.pattern"])
        self._batch_max: int = options["batch.size"]
        self._interval_s = options["poll.interval.ms"] / 1000
        self._task, self._tasks = int(configs.get("task.number", 0)), int(configs.get("task.count", 1))
        self._positions: dict[str, int] = {}
        self._done: set[str] = set()  # files that do not grow, and were read to their end
        self._reading: Iterator[tuple[str, Found]] | None = None

    def poll(self) -> list[SourceRecord]:
        if self._reading is None:
            self._reading = self._round()
        records = []
        for name, entry in self._reading:
            self._positions[name] = entry.position
            records.append(self._record(name, entry))
            if len(records) == self._batch_max:
                return records
        self._reading = None
        if not records:
            self.context.wait(self._interval_s)
        return records

    def _is_mine(self, name: str) -> bool:
        return zlib.crc32(name.encode()) % self._tasks == self._task

    def _round(self) -> Iterator[tuple[str, Found]]:
        """Yield what is new in all files of this task."""
        for name in self._storage.names():
            if name in self._done or not self._is_mine(name) or self._pattern.fullmatch(name) is None:
                continue
            if name not in self._positions:
                stored = self.context.offset({"filename": name})
                self._positions[name] = 0 if stored is None else int(stored["position"])
            with self._storage.open(name) as stream:
                for entry in self._reader.read(stream, self._positions[name]):
                    yield name, entry
            if not self._reader.grows:
                self._done.add(name)

    def _record(self, name: str, entry: Found) -> SourceRecord:
        return SourceRecord(
            topic=self._topic,
            value=entry.value,
            value_schema=entry.schema,
            source_partition={"filename": name},
            source_offset={"position": entry.position},
        )

    def stop(self) -> None:
        self._reading = None


def numbered(configs: Configs, tasks_max: int) -> list[dict[str, str]]:
    """Return a configuration for each task, with its number."""
    return [{**configs, "task.number": str(n), "task.count": str(tasks_max)} for n in range(tasks_max)]


class FileSourceTask(FilesTask):
    """Reads files of a folder of this machine."""

    definitions = (
        ConfigDef().define(
            "file", Kind.STRING, documentation="A file, or a folder whose files are read.", importance="HIGH",
            allowed=non_empty(), also=("input.path",),
        )
        + SOURCE
    )  # fmt: skip

    def storage(self, options: dict[str, Any]) -> Storage:
        return Folder(options["file"])


class FileSourceConnector(SourceConnector):
    """Files of this machine: lines, CSV, JSON, Avro or Parquet."""

    task_class = FileSourceTask
    config_def = FileSourceTask.definitions

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return numbered(self.configs, tasks_max)
