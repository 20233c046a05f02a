"""The validation of batches in a produce request: always headers and CRC, by default the records inside.

A batch whose header passes has a known size, a number of offsets that its body can hold, and an undamaged body. If the
topic's `record.validation` is `full`, readers can decode a batch that passes: the body decompresses, it has as many
records as the header says and not a byte more, their offset deltas are 0, 1, 2 ..., and their timestamps are in the
topic's range. Apache Kafka's broker checks the same (LogValidator), and the error codes are its codes. Usual records
are checked in runs (runs.py); the others in one flat loop without an object per record, and with the short forms
of varints inline, a third of decoding them (docs/decisions/0011).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from odradek.errors import ErrorCode, FormatError
from odradek.format.batch_header import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    check_crc,
    parse_header,
)
from odradek.format.compression import decompress, has_linked_blocks
from odradek.format.validation.runs import RUN_MAX, RUN_MIN, Wanted, pass_run
from odradek.format.varint import decode_varint, decode_varlong
from odradek.limits import (
    BATCH_HEADER_BYTES,
    DECOMPRESSED_BATCH_BYTES_MAX,
    HEADERS_PER_RECORD_MAX,
    TIMESTAMP_MS_MAX,
    TIMESTAMP_MS_MIN,
)
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, CompressionType, TimestampType

# length, attributes, timestamp delta, offset delta, key length, value length, header count: one byte each
RECORD_BYTES_MIN = 7
_RECORD_ERRORS_MAX = 10  # further errors are not reported
_NO_TIMESTAMP = -1
_STEP = 8192  # records: they take some milliseconds
_AHEAD_MIN, _APART_MIN = 32, 64  # records


# The largest number of bytes that one byte can decompress to in these formats: deflate 1,032; a snappy copy makes 64
# of 3; an LZ4 length byte is 255; a zstd block of one repeated byte makes 128 KiB of 4.
_RATIO_MAX: Mapping[int, int] = {
    CompressionType.NONE: 1,
    CompressionType.GZIP: 1_032,
    CompressionType.SNAPPY: 22,
    CompressionType.LZ4: 255,
    CompressionType.ZSTD: 32 * 1024,
}


_FOREIGN_FLAGS = CONTROL_FLAG | DELETE_HORIZON_FLAG | LOG_APPEND_TIME_FLAG  # that no producer sets


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
    batches: list[tuple[int, BatchHeader]] = []
    position = 0
    while position < len(view):
        header = parse_header(view, position)
        size = header.size_bytes
        if size > max_message_bytes:
            raise FormatError(
                f"a batch of {size} bytes is larger than max.message.bytes, {max_message_bytes}",
                ErrorCode.MESSAGE_TOO_LARGE,
            )
        check_crc(view, position, header)
        _check_fields(header)
        batches.append((position, header))
        position += size
    return batches


def _check_fields(header: BatchHeader) -> None:
    compression = header.attributes & COMPRESSION_MASK
    if compression > CompressionType.ZSTD:
        raise FormatError(f"unknown compression code {compression}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if header.attributes & _FOREIGN_FLAGS:
        _refuse_flags(header)
    count = header.record_count
    if count < 1 or header.last_offset_delta != count - 1:
        raise _invalid(f"{count} records do not fill the offset deltas 0 to {header.last_offset_delta}")
    body_bytes = header.size_bytes - BATCH_HEADER_BYTES
    if not body_bytes or count > records_max(body_bytes, compression):
        raise _invalid(f"{count} records do not fit a body of {body_bytes} bytes")
    # Without a producer id the other two fields mean nothing, and some clients leave them at 0.
    if header.producer_id >= 0:
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise _invalid("a batch with a producer id needs a producer epoch and a base sequence")
    elif header.producer_id != -1:
        raise _invalid(f"invalid producer id {header.producer_id}")
    elif header.is_transactional:
        raise _invalid("a transactional batch needs a producer id")


def _refuse_flags(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("clients may not write control batches")
    if header.delete_horizon_ms is not None:
        raise _invalid("only compaction may set a delete horizon")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise FormatError("a producer may not set LogAppendTime", ErrorCode.INVALID_TIMESTAMP)


def records_max(body_bytes: int, compression: int) -> int:
    """Return the largest number of records that a stored body of that size can hold, by its compression code."""
    ratio = _RATIO_MAX.get(compression, 1)
    return min(body_bytes * ratio, DECOMPRESSED_BATCH_BYTES_MAX) // RECORD_BYTES_MIN


def _invalid(message: str) -> FormatError:
    return FormatError(message, ErrorCode.INVALID_RECORD)


@dataclass(frozen=True, slots=True)
class TimestampBounds:
    """The timestamps that a topic accepts, both ends included; and -1, which means none."""

    earliest_ms: int = TIMESTAMP_MS_MIN
    latest_ms: int = TIMESTAMP_MS_MAX

    def refusal(self, timestamp_ms: int) -> str | None:
        """Return the reason why a timestamp is refused, or None."""
        if timestamp_ms == _NO_TIMESTAMP or self.earliest_ms <= timestamp_ms <= self.latest_ms:
            return None
        return (
            f"timestamp {timestamp_ms} is out of range: the topic takes {self.earliest_ms} to {self.latest_ms} now "
            f"(message.timestamp.before.max.ms, message.timestamp.after.max.ms)"
        )


def check_timestamps(header: BatchHeader, bounds: TimestampBounds, *, trusts_max: bool = True) -> None:
    """Check what the header says of timestamps. Raises FormatError(INVALID_TIMESTAMP).

    Args:
        trusts_max: False where the largest timestamp was taken from the records.
    """
    stated = (header.base_timestamp_ms, header.max_timestamp_ms) if trusts_max else (header.base_timestamp_ms,)
    for timestamp_ms in stated:
        message = bounds.refusal(timestamp_ms)
        if message is not None:
            raise FormatError(message, ErrorCode.INVALID_TIMESTAMP)


def check_records(
    batch: Buffer, header: BatchHeader, bounds: TimestampBounds, *, needs_keys: bool = False
) -> Generator[None, None, int]:
    """Check the records of a batch whose header and CRC are valid, some thousands a step: others may run in between.

    It returns the largest timestamp of the records. The header's is what a producer wrote there, and may be -1.

    Args:
        bounds: of each record's timestamp.
        needs_keys: whether the topic is compacted.

    Raises FormatError: MESSAGE_TOO_LARGE for a body that would decompress beyond the limit; INVALID_RECORD,
        INVALID_TIMESTAMP for records that break a rule, by their index in the batch in `record_errors`; INVALID_RECORD
        for a body that does not decompress: its CRC holds, so sending it again would not help.
    """
    body = memoryview(batch)[BATCH_HEADER_BYTES : header.size_bytes]
    try:
        compression = header.attributes & COMPRESSION_MASK
        if compression == CompressionType.LZ4 and has_linked_blocks(body):
            raise FormatError(
                "the LZ4 frame has linked blocks, which Java's clients cannot read: write independent ones"
            )
        payload = bytes(body) if compression == CompressionType.NONE else decompress(compression, body)
    except FormatError as error:
        code = ErrorCode.MESSAGE_TOO_LARGE if error.code is ErrorCode.MESSAGE_TOO_LARGE else ErrorCode.INVALID_RECORD
        raise FormatError(str(error), code) from error
    walk = _Walk(payload, header, bounds, needs_keys)
    yield from walk.all_records()
    if walk.late:
        raise FormatError(walk.late[0][1], ErrorCode.INVALID_TIMESTAMP, tuple(walk.late[:_RECORD_ERRORS_MAX]))
    if walk.keyless:
        why = "the topic is compacted: every record needs a key; give one or drop the record"
        raise FormatError(
            why, ErrorCode.INVALID_RECORD, tuple((index, why) for index in walk.keyless[:_RECORD_ERRORS_MAX])
        )
    return walk.largest_ms


class _Walk:
    """A walk through the records of a batch: in runs where they are alike, else one after the other."""

    def __init__(self, data: bytes, header: BatchHeader, bounds: TimestampBounds, needs_keys: bool) -> None:
        self._data = data
        self._count = header.record_count
        self._base_ms = header.base_timestamp_ms
        self._bounds = bounds
        self._needs_keys = needs_keys
        self.late: list[tuple[int, str]] = []  # records with a bad timestamp, and why
        self.keyless: list[int] = []  # records without the key that they need
        self.largest_ms = TIMESTAMP_MS_MIN  # of the timestamps so far

    def all_records(self) -> Generator[None, None, None]:
        """Pass all records, some thousands a step. Raises FormatError at the first one that is malformed."""
        earliest_ms, latest_ms = self._bounds.earliest_ms - self._base_ms, self._bounds.latest_ms - self._base_ms
        wanted = Wanted(earliest_ms, latest_ms, self._needs_keys)
        index = position = 0
        ahead = _AHEAD_MIN  # records among which a run is looked for: the more, the longer the last ones were
        apart = _APART_MIN  # records to decode before another run is looked for: the more, the more often in vain
        while index < self._count:
            begun, passed = index, 0
            if self._count - index >= RUN_MIN:
                passed, position, delta_ms = pass_run(self._data, position, index, self._count, wanted, ahead)
                if passed:
                    self.largest_ms = max(self.largest_ms, self._base_ms + delta_ms)
            if passed >= RUN_MIN:
                index, ahead, apart = index + passed, min(2 * ahead, RUN_MAX), _APART_MIN
            else:
                first, index = index + passed, min(self._count, index + passed + apart)
                position = self._decode(position, first, index)
                ahead, apart = _AHEAD_MIN, min(4 * apart, _STEP)
            if index // _STEP != begun // _STEP:
                yield
        if position != len(self._data):
            left = len(self._data) - position
            raise FormatError(f"{left} bytes follow the last record of a batch", ErrorCode.INVALID_RECORD)

    def _decode(self, position: int, first: int, stop: int) -> int:
        """Pass the records of these indexes one by one; returns the position after them. Raises FormatError."""
        data, end = self._data, len(self._data)
        earliest_ms, latest_ms, base_ms = self._bounds.earliest_ms, self._bounds.latest_ms, self._base_ms
        needs_keys = self._needs_keys
        largest_ms = self.largest_ms
        index = first
        try:
            for index in range(first, stop):
                byte = data[position]
                if byte < 0x80:
                    length, position = (byte >> 1) ^ -(byte & 1), position + 1
                elif (second := data[position + 1]) < 0x80:
                    number = byte & 0x7F | second << 7
                    length, position = (number >> 1) ^ -(number & 1), position + 2
                else:
                    length, position = decode_varint(data, position)
                record_end = position + length
                if length < 0 or record_end > end:
                    raise _broken(index, f"its length is {length}, {end - position} bytes are left")
                position += 1  # attributes, unused
                byte = data[position]
                if byte < 0x80:
                    timestamp_ms, position = base_ms + ((byte >> 1) ^ -(byte & 1)), position + 1
                elif (second := data[position + 1]) < 0x80:
                    number = byte & 0x7F | second << 7
                    timestamp_ms, position = base_ms + ((number >> 1) ^ -(number & 1)), position + 2
                else:
                    delta, position = decode_varlong(data, position)
                    timestamp_ms = base_ms + delta
                if not earliest_ms <= timestamp_ms <= latest_ms:
                    message = self._bounds.refusal(timestamp_ms)
                    if message is not None:
                        self.late.append((index, message))
                if timestamp_ms > largest_ms:
                    largest_ms = timestamp_ms
                byte = data[position]
                if byte < 0x80:
                    delta, position = (byte >> 1) ^ -(byte & 1), position + 1
                elif (second := data[position + 1]) < 0x80:
                    number = byte & 0x7F | second << 7
                    delta, position = (number >> 1) ^ -(number & 1), position + 2
                else:
                    delta, position = decode_varint(data, position)
                if delta != index:
                    raise _broken(index, f"its offset delta is {delta}")
                byte = data[position]
                if byte < 0x80:
                    length, position = (byte >> 1) ^ -(byte & 1), position + 1
                elif (second := data[position + 1]) < 0x80:
                    number = byte & 0x7F | second << 7
                    length, position = (number >> 1) ^ -(number & 1), position + 2
                else:
                    length, position = decode_varint(data, position)
                if length >= 0:
                    position += length
                elif length != -1:
                    raise _broken(index, f"its key has length {length}")
                elif needs_keys:
                    self.keyless.append(index)
                byte = data[position]
                if byte < 0x80:
                    length, position = (byte >> 1) ^ -(byte & 1), position + 1
                elif (second := data[position + 1]) < 0x80:
                    number = byte & 0x7F | second << 7
                    length, position = (number >> 1) ^ -(number & 1), position + 2
                else:
                    length, position = decode_varint(data, position)
                if length >= 0:
                    position += length
                elif length != -1:
                    raise _broken(index, f"its value has length {length}")
                if data[position]:
                    position = _pass_headers(data, position, index)
                else:
                    position += 1
                if position != record_end:
                    raise _broken(index, f"it ends {position - record_end} bytes beside its length")
        except (IndexError, FormatError) as error:
            if isinstance(error, FormatError) and error.record_errors:
                raise
            raise _broken(index, "it is cut off") from None
        self.largest_ms = largest_ms
        return position


def _pass_headers(data: bytes, position: int, index: int) -> int:
    count, position = decode_varint(data, position)
    if not 0 <= count <= HEADERS_PER_RECORD_MAX:
        raise _broken(index, f"it has {count} headers, at most {HEADERS_PER_RECORD_MAX} are taken")
    for _ in range(count):
        length, position = decode_varint(data, position)
        if length < 0 or position + length > len(data):
            raise _broken(index, f"a header key has length {length}")
        try:
            data[position : position + length].decode()
        except UnicodeDecodeError:
            raise _broken(index, "a header key is not UTF-8") from None
        length, position = decode_varint(data, position + length)
        if length < -1:
            raise _broken(index, f"a header value has length {length}")
        position += max(length, 0)
    return position


def _broken(index: int, defect: str) -> FormatError:
    message = f"record {index} of a batch is malformed: {defect}"
    return FormatError(message, ErrorCode.INVALID_RECORD, ((index, message),))
