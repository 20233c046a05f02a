"""The latest record of a key: what a compacted topic says about it now."""

from __future__ import annotations

from contextlib import aclosing

from odradek.operations.cluster import Cluster
from odradek.operations.records.filters import Filter
from odradek.operations.records.formats import Decoder
from odradek.operations.records.search import Progress, search
from odradek.operations.records.view import Formats, RecordView

_MATCHES_MAX = 100_000  # keys that contain the text of the key


async def lookup(
    cluster: Cluster, topic: str, key: str, decoder: Decoder | None = None, formats: Formats | None = None
) -> RecordView | None:
    """Return the latest record whose key is a text, None if there is none. A tombstone is a record.

    The log is read from its end, so that a key that changed lately is found at once. Raises KafkaError.
    """
    best: RecordView | None = None
    searching = search(
        cluster, topic, Filter(key=key), newest_first=True, limit=_MATCHES_MAX, decoder=decoder, formats=formats
    )
    async with aclosing(searching) as found:
        async for each in found:
            if isinstance(each, Progress):
                continue
            for record in each:
                is_it = not record.key.is_null and record.key.text == key
                if is_it and (best is None or (record.partition == best.partition and record.offset > best.offset)):
                    best = record
            if best is not None:
                return best
    return None
