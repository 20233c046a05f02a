"""Names of objects (docs/formats/object_keys.md).

    wal/<digit>/<yyyymmddhh>/<object id, 32 hex digits>                    the batches of one produce request
    topics/<topic id>/<partition>/<base offset, 20 digits>-<object id>.log    a merged segment of one partition
    topics/<topic id>/<partition>/<base offset, 20 digits>-<object id>.parquet   the same as a columnar segment
    topics/<topic id>/<partition>/<base offset, 20 digits>-<object id>.index  its offset and time index

The digit of a WAL object is the last hex digit of its id, which is random, and the hour that of its id, in UTC, so a
name follows from the id alone. Names are never reused.

S3 takes 3,500 PUTs a second under each prefix that it has made a partition of its own, and it does so for prefixes that
stay. With an hour alone all uploads of a stage shared one prefix, and every hour a new one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from odradek.format.object_id import object_id_ms
from odradek.model.topic_partition import PartitionId

WAL_PREFIXES = 16  # each costs the hourly sweep a LIST: six cents a month together


@lru_cache(maxsize=4096)  # a fetch names an upload once for each of its batches there
def wal_key(object_id: bytes) -> str:
    """Return the key of a WAL object."""
    return wal_key_below(_wal_prefix(object_id[-1] % WAL_PREFIXES), object_id)


def wal_prefixes() -> list[str]:
    """Return the prefixes of all WAL objects; under each of them names sort by object id."""
    return [_wal_prefix(digit) for digit in range(WAL_PREFIXES)]


def _wal_prefix(digit: int) -> str:
    return f"wal/{digit:x}/"


def wal_key_below(prefix: str, object_id: bytes) -> str:
    """Return the place of an object id in the order of the names under one of these prefixes."""
    hour = datetime.fromtimestamp(object_id_ms(object_id) / 1000, UTC)
    return f"{prefix}{hour:%Y%m%d%H}/{object_id.hex()}"


def segment_key(partition: PartitionId, base_offset: int, object_id: bytes, *, is_columnar: bool = False) -> str:
    """Return the key of a segment's log object, or of the Parquet file of a columnar one."""
    extension = "parquet" if is_columnar else "log"
    return f"{partition_prefix(partition)}{base_offset:020d}-{object_id.hex()}.{extension}"


def index_key(partition: PartitionId, base_offset: int, object_id: bytes) -> str:
    """Return the key of a segment's index object."""
    return f"{partition_prefix(partition)}{base_offset:020d}-{object_id.hex()}.index"


def partition_prefix(partition: PartitionId) -> str:
    """Return the prefix of all segments of a partition."""
    return f"{topic_prefix(partition)}{partition.partition}/"


def topic_prefix(partition: PartitionId) -> str:
    """Return the prefix of all segments of a topic."""
    return f"topics/{partition.topic_id}/"
