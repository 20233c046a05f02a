"""Files in Amazon S3: the same source and sink, over objects of a bucket."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, BinaryIO

from odradek.connect.config import ConfigDef, Kind, non_empty
from odradek.connect.connectors.aws.client import AWS, client, translated
from odradek.connect.connectors.files.sink import SINK, FilesSinkTask
from odradek.connect.connectors.files.source import SOURCE, FilesTask, numbered
from odradek.connect.connectors.files.storage import Storage
from odradek.connect.plugin import SinkConnector, SourceConnector

_BUCKET = (
    ConfigDef()
    .define(
        "s3.bucket.name", Kind.STRING, documentation="The bucket.", importance="HIGH", allowed=non_empty()
    )
    .define("s3.prefix", Kind.STRING, "", "Only objects whose keys begin so; no leading slash.")
) + AWS  # fmt: skip


class Bucket:
    """storage.Storage over the objects of a bucket below a prefix."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._bucket, self._prefix = options["s3.bucket.name"], options["s3.prefix"]
        self._s3 = client("s3", options)

    def names(self) -> list[str]:
        names = []
        with translated(f"the bucket {self._bucket} cannot be listed"):
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix):
                names += [object_info["Key"].removeprefix(self._prefix) for object_info in page.get("Contents", ())]
        return sorted(name for name in names if name and not name.endswith("/"))

    def open(self, name: str) -> BinaryIO:
        with translated(f"the object {self._prefix}{name} of {self._bucket} cannot be read"):
            return io.BytesIO(self._s3.get_object(Bucket=self._bucket, Key=self._prefix + name)["Body"].read())

    def write(self, name: str, data: bytes) -> None:
        with translated(f"the object {self._prefix}{name} of {self._bucket} cannot be written"):
            self._s3.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=data)


class S3SourceTask(FilesTask):
    """Reads objects."""

    definitions = _BUCKET + SOURCE

    def storage(self, options: dict[str, Any]) -> Storage:
        return Bucket(options)


class S3SourceConnector(SourceConnector):
    """Objects of Amazon S3: lines, CSV, JSON, Avro or Parquet."""

    task_class = S3SourceTask
    config_def = S3SourceTask.definitions

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return numbered(self.configs, tasks_max)


class S3SinkTask(FilesSinkTask):
    """Writes objects."""

    definitions = _BUCKET + SINK

    def storage(self, options: dict[str, Any]) -> Storage:
        return Bucket(options)


class S3SinkConnector(SinkConnector):
    """Objects of Amazon S3: JSON, Avro, Parquet, lines or bytes, with partitioners and rotation."""

    task_class = S3SinkTask
    config_def = S3SinkTask.definitions

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max
