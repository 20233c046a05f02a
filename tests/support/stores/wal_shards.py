"""Few shards of WAL uploads: a sweep asks each shard of each hour, and each prefix; a deployment has 64 and 16 of them.

What a sweep proves is the same with three.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from odradek.engine.maintenance import wal_uploads
from odradek.format import item_keys, object_keys

_SHARDS = 3


@contextmanager
def few_wal_shards() -> Iterator[None]:
    """Write and sweep three shards of uploads and three prefixes of objects."""
    with (
        patch.object(item_keys, "WAL_SHARDS", _SHARDS),
        patch.object(wal_uploads, "WAL_SHARDS", _SHARDS),
        patch.object(object_keys, "WAL_PREFIXES", _SHARDS),
    ):
        yield
