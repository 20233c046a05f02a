"""Records without those that came before with the same identity. A stream in, a stream out, no I/O.

The first one of an identity passes; others do not, as long as its time is less than `within` behind the newest record
(and no longer than need be after). So the state is what came in that time.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.errors import ErrorCode, KafkaError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

KEY, VALUE = "key", "value"


def deduplicate(records: DataFrame, by: Sequence[str], *, within: str) -> DataFrame:
    """The records, each identity once.

    Args:
        records: a stream of key, value, timestamp and what else is to pass.
        by: what makes the identity: `key`, `value`, and fields of a JSON value (`id`, `order.id`).
        within: how far apart in event time duplicates may be, such as "1 hour".

    Raises KafkaError(INVALID_CONFIG).
    """
    return (
        records.withColumn("identity", identity_of(by))
        .withWatermark("timestamp", within)
        .dropDuplicatesWithinWatermark(["identity"])
        .drop("identity")
    )


def identity_of(by: Sequence[str]) -> Column:
    """What two duplicates have in common. Raises KafkaError(INVALID_CONFIG)."""
    if not by:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "--by must name key, value or fields of the value")
    return F.sha2(F.to_json(F.struct(*(_part(name, i) for i, name in enumerate(by)))), 256)


def _part(name: str, number: int) -> Column:
    if name in (KEY, VALUE):
        part = F.hex(name)  # bytes of any kind
    else:
        part = F.get_json_object(F.col(VALUE).cast("string"), f"$.{name}")
    return part.alias(f"p{number}")
