"""The sink from foreachBatch: the writes of a micro-batch are added once, however often it runs.

    query = frame.writeStream.foreachBatch(exactly_once(options)).option("checkpointLocation", ...).start()

The number of a write is the micro-batch's; its writer is the query with a name. A function that writes twice for one
micro-batch uses two names. Spark repeats a micro-batch with the same number and, from a checkpoint, the same rows; the
repetition adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY_ID = "sql.streaming.queryId"


def exactly_once(
    options: Mapping[str, str], records: Callable[[DataFrame], DataFrame] | None = None, *, name: str = "main"
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each micro-batch to the sink once.

    Args:
        options: of the sink.
        records: converts the micro-batch's rows to records (key, value, topic ...); None: they are records.
        name: of this write among those of the query.
    """

    def write(frame: DataFrame, batch_id: int) -> None:
        write_once(frame if records is None else records(frame), batch_id, options, name=name)

    return write


def write_once(frame: DataFrame, batch_id: int, options: Mapping[str, str], *, name: str = "main") -> None:
    """Write records for a micro-batch, within a function of `foreachBatch`; a repetition adds nothing.

    Raises KafkaError(INVALID_REQUEST) outside of a streaming query.
    """
    query_id = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if not query_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "call write_once inside the function of a foreachBatch")
    numbered = {"transactionalId": f"spark/{query_id}/{name}", "batchId": str(batch_id)}
    frame.write.format("odradek").mode("append").options(**{**options, **numbered}).save()
