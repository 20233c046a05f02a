"""The Spark source: `spark.readStream.format("odradek")` reads topics straight from the store.

    options.py        what a user may ask for, checked before Spark plans anything
    local.py          a Spark on this machine
    store.py          where the store is, and a synchronous view of it
    offsets.py        positions as JSON, admission control, data loss: pure
    plan.py           offsets -> ranges, plain data that is shipped to executors: pure
    read.py           a range -> Arrow record batches
    source.py         the thin adapter for PySpark 4.1's Python Data Source API; the only module that needs pyspark
    available_now.py  Trigger.AvailableNow in several bounded micro-batches

All but source.py knows no Spark: the same core serves other engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `format("odradek")` known to a session. May be repeated."""
    from odradek.spark.source import OdradekDataSource

    spark.dataSource.register(OdradekDataSource)
