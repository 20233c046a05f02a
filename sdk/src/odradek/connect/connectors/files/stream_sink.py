"""FileStreamSink: appends a line for each record to one file, as Apache Kafka's example connector does."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from odradek.connect.config import ConfigDef, Kind
from odradek.connect.data.values import to_text
from odradek.connect.errors import ConnectError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord
from odradek.model.topic_partition import TopicPartition


class FileStreamSinkTask(SinkTask):
    """Appends to the file."""

    _out: TextIO | None = None

    def start(self, configs: Configs) -> None:
        path = FileStreamSinkConnector.config_def.parse(configs)["file"]
        try:
            self._out = open(path, "a", encoding="utf-8") if path else sys.stdout  # noqa: SIM115  (stop closes it)
        except OSError as error:
            raise ConnectError(f"the file {path} cannot be written: {error.strerror}") from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        assert self._out is not None
        self._out.writelines(f"{to_text(record.value)}\n" for record in records)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert self._out is not None
        self._out.flush()
        if self._out is not sys.stdout:
            os.fsync(self._out.fileno())

    def stop(self) -> None:
        if self._out is not None and self._out is not sys.stdout:
            self._out.close()


class FileStreamSinkConnector(SinkConnector):
    """Lines appended to one file, or to standard output."""

    task_class = FileStreamSinkTask
    config_def = ConfigDef().define("file", Kind.STRING, None, "The file; without it, standard output.")

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max
