"""The rows that an operator drops as late: the watermark that Spark compares them with, as a column.

Spark counts the rows that it drops and does not list them. It writes the watermark of a micro-batch into the checkpoint
before it runs (offsets/<batch id>, the second line), and it tells every task the batch's id; an operator drops a row by
the watermark of the previous micro-batch. So a task can find out, and a repeated micro-batch gets the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.types import StructType

from odradek.spark.jobs.files import read_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

WATERMARK = "watermark_of_batch"
_BATCH_ID = "streaming.sql.batchId"


def with_watermark_of_batch(frame: DataFrame, checkpoint_location: str) -> DataFrame:
    """Add the column `watermark_of_batch` (timestamp, null while there is none) to a stream."""
    schema = StructType.fromJson(frame.schema.jsonValue()).add(WATERMARK, "timestamp")

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        context = TaskContext.get()
        batch_id = context.getLocalProperty(_BATCH_ID) if context is not None else None
        watermark_us = watermark_before(checkpoint_location, int(batch_id or 0)) * 1000 or None
        for batch in batches:
            column = pa.array([watermark_us] * batch.num_rows, pa.timestamp("us", tz="UTC"))
            yield pa.RecordBatch.from_arrays([*batch.columns, column], [*batch.schema.names, WATERMARK])

    return frame.mapInArrow(add, schema)


def watermark_before(checkpoint_location: str, batch_id: int) -> int:
    """Return the watermark of the late rows of a micro-batch, ms since the epoch; 0 for none.

    Raises OSError: the checkpoint cannot be read.
    """
    if batch_id == 0:
        return 0
    text = read_text(f"{checkpoint_location.rstrip('/')}/offsets/{batch_id - 1}")
    return watermark_ms(text)


def watermark_ms(offsets_file: str) -> int:
    """Return the watermark in a file of the offset log: a version, then metadata as JSON, then offsets."""
    lines = offsets_file.splitlines()
    return int(json.loads(lines[1])["batchWatermarkMs"]) if len(lines) > 1 else 0
