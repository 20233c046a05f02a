"""Removes records with the identity of an earlier one. A stream in, a stream out, no I/O.

The first record of an identity passes; later ones do not, while its time is less than `within` behind the newest
record (and possibly a little longer). So the state contains the identities of that period.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.errors import ErrorCode, KafkaError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

KEY, VALUE = "key", "value"


def deduplicate(records: DataFrame, by: Sequence[str], *, within: str) -> DataFrame:
    """Return the records, each identity once.

    Args:
        records: a stream of key, value, timestamp and other columns, which pass unchanged.
        by: the parts of the identity: `key`, `value`, and fields of a JSON value (`id`, `order.id`).
        within: the largest distance of duplicates in event time, such as "1 hour".

    Raises KafkaError(INVALID_CONFIG).
    """
    return (
        records.withColumn("identity", identity_of(by))
        .withWatermark("timestamp", within)
        .dropDuplicatesWithinWatermark(["identity"])
        .drop("identity")
    )


def identity_of(by: Sequence[str]) -> Column:
    """Return the identity that duplicates share. Raises KafkaError(INVALID_CONFIG)."""
    if not by:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "--by must name key, value or fields of the value")
    return F.sha2(F.to_json(F.struct(*(_part(name, i) for i, name in enumerate(by)))), 256)


def _part(name: str, number: int) -> Column:
    if name in (KEY, VALUE):
        part = F.hex(name)  # bytes of any kind
    else:
        part = F.get_json_object(F.col(VALUE).cast("string"), f"$.{name}")
    return part.alias(f"p{number}")
