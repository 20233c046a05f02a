"""Names of objects (docs/formats/object_keys.md).

    wal/<yyyymmddhh>/<object id, 32 hex digits>                            the batches of one produce request
    topics/<topic id>/<partition>/<base offset, 20 digits>-<object id>.log    a merged segment of one partition
    topics/<topic id>/<partition>/<base offset, 20 digits>-<object id>.index  its offset and time index

The hour of a WAL object is that of its id, in UTC, so a name follows from the id alone. Names are never reused.
"""

from __future__ import annotations

from datetime import UTC, datetime

from odradek.format.object_id import object_id_ms
from odradek.model.topic_partition import PartitionId


def wal_key(object_id: bytes) -> str:
    """Return the key of a WAL object."""
    return f"{wal_hour_prefix(object_id_ms(object_id))}{object_id.hex()}"


def wal_hour_prefix(now_ms: int) -> str:
    """Return the prefix of all WAL objects whose id was created in that hour (UTC)."""
    return f"wal/{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%d%H}/"


def segment_key(partition: PartitionId, base_offset: int, object_id: bytes) -> str:
    """Return the key of a segment's log object."""
    return f"{partition_prefix(partition)}{base_offset:020d}-{object_id.hex()}.log"


def index_key(partition: PartitionId, base_offset: int, object_id: bytes) -> str:
    """Return the key of a segment's index object."""
    return f"{partition_prefix(partition)}{base_offset:020d}-{object_id.hex()}.index"


def partition_prefix(partition: PartitionId) -> str:
    """Return the prefix of all segments of a partition."""
    return f"{topic_prefix(partition)}{partition.partition}/"


def topic_prefix(partition: PartitionId) -> str:
    """Return the prefix of all segments of a topic."""
    return f"topics/{partition.topic_id}/"
