"""One record batch under compaction: its keys for the offset map, or the batch without the dropped records.

Records are not decoded but scanned (compaction/records.py): remaining records are copied as bytes, headers included. A
batch that loses nothing stays unchanged, byte for byte.

    kept         base and last offset, producer id, epoch and sequence, compression, leader epoch, base timestamp
    recomputed   payload, record count, CRC; under CreateTime the largest timestamp, which is that of a record left
    horizon      attribute bit 6 is set, base_timestamp is the delete horizon, timestamp deltas count from it (KIP-534)

A batch that loses all records is dropped. Kafka keeps the last batch of a producer, since its brokers read sequences
from the log; here they are in heads and producer rows. Kafka also keeps the last batch of the cleanable part, without
records, so that a reader that waits at its offset gets past it; this is done here as well.

A batch with a correct CRC whose payload does not follow the format was written like that by its producer: it stays
unchanged. A CRC that does not match is damage of the store: FormatError, so that the batch is not copied as if it were
undamaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.engine.compaction.decisions import Bounds, CompactionPolicy, record_survives, sets_horizon
from odradek.engine.compaction.offset_map import OffsetMap
from odradek.engine.compaction.records import RawRecord, walk_records
from odradek.errors import FormatError
from odradek.format.batch_header import COMPRESSION_MASK, DELETE_HORIZON_FLAG, check_crc
from odradek.format.compression import compress
from odradek.format.record_batch import batch_payload, pack_batch
from odradek.format.varint import encode_varlong
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, CompressionType, TimestampType

_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class CompactedBatch:
    """The remaining part of a batch."""

    batch: Buffer | None  # None: nothing
    dropped: int  # records
    is_changed: bool


def read_keys(batch: Buffer, header: BatchHeader, first_dirty: int, offsets: OffsetMap) -> int | None:
    """Put a batch's keys from `first_dirty` on into the map; return the offset of the first that did not fit, or None.

    Raises FormatError if the CRC does not match.
    """
    _, records = _records(batch, header)
    for _, _, _, offset, _, key, _ in records or ():
        if offset >= first_dirty and key is not None and not offsets.put(key, offset):
            return offset
    return None


def compact_batch(
    batch: Buffer, header: BatchHeader, offsets: OffsetMap, bounds: Bounds, policy: CompactionPolicy, *, is_last: bool
) -> CompactedBatch:
    """The batch without the records that the pass drops.

    Args:
        is_last: it ends the cleanable part: it stays, if need be without records.

    Raises FormatError where the CRC does not match.
    """
    untouched = CompactedBatch(batch, 0, is_changed=False)
    if header.is_control or header.base_offset >= max(bounds.pass_end, bounds.log_start_offset):
        return untouched
    payload, records = _records(batch, header)
    if records is None:
        return untouched
    horizon_ms = header.delete_horizon_ms
    latest = offsets.latest
    kept = [
        record
        for record in records
        if record_survives(
            record[3], latest(record[5]) if record[5] is not None else _AFTER_ALL, record[6], horizon_ms, bounds
        )
    ]
    dropped = len(records) - len(kept)
    if not kept:
        if is_last:
            return CompactedBatch(_empty(header), dropped, is_changed=True) if dropped else untouched
        return CompactedBatch(None, dropped, is_changed=True)
    keeps_tombstone = any(not has_value for *_, has_value in kept)
    if sets_horizon(header.last_offset, keeps_tombstone, horizon_ms, bounds):
        try:
            marked = _with_horizon(payload, header, kept, policy.horizon_ms(bounds.now_ms))
            return CompactedBatch(marked, dropped, is_changed=True)
        except FormatError:
            pass  # a timestamp too far from the horizon for 64 bits: these tombstones stay for good
    if not dropped:
        return untouched
    body = b"".join([payload[record[0] : record[1]] for record in kept])
    smaller = _pack(header, body, kept, header.attributes, header.base_timestamp_ms)
    return CompactedBatch(smaller, dropped, is_changed=True)


# A record without a key has no successor, but compaction drops it, as if a later one of its key were known.
_AFTER_ALL = 2**63 - 1


def _records(batch: Buffer, header: BatchHeader) -> tuple[bytes, list[RawRecord] | None]:
    """The decompressed payload and where its records lie in it; None where its producer wrote something else."""
    check_crc(batch, 0, header)
    try:
        payload = bytes(batch_payload(batch, 0, header, verify_crc=False))
        return payload, walk_records(payload, header)
    except FormatError:
        return b"", None


def _with_horizon(payload: bytes, header: BatchHeader, kept: Sequence[RawRecord], horizon_ms: int) -> bytes:
    parts: list[bytes] = []
    for _, end, rest, _, timestamp_ms, _, _ in kept:
        # Attributes (always 0), the delta to the horizon, then the rest as it was.
        beginning = b"\x00" + encode_varlong(timestamp_ms - horizon_ms)
        parts += (encode_varlong(len(beginning) + end - rest), beginning, payload[rest:end])
    return _pack(header, b"".join(parts), kept, header.attributes | DELETE_HORIZON_FLAG, horizon_ms)


def _pack(
    header: BatchHeader, body: bytes, kept: Sequence[RawRecord], attributes: int, base_timestamp_ms: int
) -> bytes:
    is_fixed = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return pack_batch(
        compress(CompressionType(attributes & COMPRESSION_MASK), body),
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms if is_fixed else max(record[4] for record in kept),
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        record_count=len(kept),
    )


def _empty(header: BatchHeader) -> bytes:
    """Return the batch without records, which only has the range of offsets. It has no timestamp."""
    return pack_batch(
        b"",
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG),
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=_NO_TIMESTAMP,
        max_timestamp_ms=_NO_TIMESTAMP,
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        record_count=0,
    )
