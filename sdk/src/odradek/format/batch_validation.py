"""What a produce server always checks of the batches that it is given: the headers and the CRC.

A batch that passes has a known size, a known number of offsets that its body may hold, and an unbroken body. What is
inside, record_validation.py checks. The codes are those of Apache Kafka's broker.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.errors import ErrorCode, FormatError
from odradek.format.batch_header import COMPRESSION_MASK, check_crc, parse_header
from odradek.limits import BATCH_HEADER_BYTES, DECOMPRESSED_BATCH_BYTES_MAX
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, CompressionType, TimestampType

# length, attributes, timestamp delta, offset delta, key length, value length, header count: one byte each
RECORD_BYTES_MIN = 7


# More bytes do not come out of one in these formats: deflate 1,032; a snappy copy makes 64 of 3; an LZ4 length byte is
# 255; a zstd block of one repeated byte makes 128 KiB of 4.
_RATIO_MAX: Mapping[int, int] = {
    CompressionType.NONE: 1,
    CompressionType.GZIP: 1_032,
    CompressionType.SNAPPY: 22,
    CompressionType.LZ4: 255,
    CompressionType.ZSTD: 32 * 1024,
}


def validate_batches(buf: Buffer, *, max_message_bytes: int) -> list[tuple[int, BatchHeader]]:
    """Check a partition's records in a produce request; return (position, header) of each batch, at least one.

    Args:
        max_message_bytes: largest size of one batch with its header, inclusive.

    Raises FormatError:
        CORRUPT_MESSAGE: bytes are missing or left over, the length is impossible, the CRC does not match.
        UNSUPPORTED_FOR_MESSAGE_FORMAT: a magic other than 2.
        MESSAGE_TOO_LARGE: a batch larger than `max_message_bytes`.
        UNSUPPORTED_COMPRESSION_TYPE: a reserved compression code.
        INVALID_TIMESTAMP: the batch claims LogAppendTime, which only a log sets.
        INVALID_RECORD: no batch at all, a count that disagrees with the offsets or the size, a control batch, a delete
            horizon, a producer id without epoch or sequence.
    """
    if not len(buf):
        raise FormatError("a produce request must carry at least one record batch", ErrorCode.INVALID_RECORD)
    view = memoryview(buf)
    found: list[tuple[int, BatchHeader]] = []
    position = 0
    while position < len(view):
        header = parse_header(view, position)
        if header.size_bytes > max_message_bytes:
            raise FormatError(
                f"a batch of {header.size_bytes} bytes is larger than max.message.bytes, {max_message_bytes}",
                ErrorCode.MESSAGE_TOO_LARGE,
            )
        check_crc(view, position, header)
        _check_fields(header)
        found.append((position, header))
        position += header.size_bytes
    return found


def _check_fields(header: BatchHeader) -> None:
    code = header.attributes & COMPRESSION_MASK
    if code > CompressionType.ZSTD:
        raise FormatError(f"compression code {code} is not known", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    compression = CompressionType(code)
    if header.is_control:
        raise _invalid("clients may not write control batches")
    if header.delete_horizon_ms is not None:
        raise _invalid("only compaction may set a delete horizon")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise FormatError("a producer may not set LogAppendTime", ErrorCode.INVALID_TIMESTAMP)
    count = header.record_count
    if count < 1 or header.last_offset_delta != count - 1:
        raise _invalid(f"{count} records do not fill the offset deltas 0 to {header.last_offset_delta}")
    body_bytes = header.size_bytes - BATCH_HEADER_BYTES
    content_bytes_max = min(body_bytes * _RATIO_MAX[compression], DECOMPRESSED_BATCH_BYTES_MAX)
    if not body_bytes or count * RECORD_BYTES_MIN > content_bytes_max:
        raise _invalid(f"{count} records do not fit a body of {body_bytes} bytes")
    # Without a producer id the other two fields mean nothing, and some clients leave them at 0.
    if header.producer_id >= 0:
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise _invalid("a batch with a producer id needs a producer epoch and a base sequence")
    elif header.producer_id != -1:
        raise _invalid(f"invalid producer id {header.producer_id}")
    elif header.is_transactional:
        raise _invalid("a transactional batch needs a producer id")


def _invalid(message: str) -> FormatError:
    return FormatError(message, ErrorCode.INVALID_RECORD)
