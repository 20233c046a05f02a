"""The records of a fetch, decoded a part at a time: a small batch may hold hundreds of megabytes of records. Pure.

A part has as many records and bytes as a few calls take. Between two parts only the bytes of the fetch are kept; a
batch that is not finished is decompressed again for its next part, which costs less than its records would. A batch
that is larger than `TRIGGER_BATCH_BYTES_MAX` when it is decompressed is refused as a whole, without its records.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.errors import ErrorCode, FormatError
from odradek.format.record_batch import batch_payload, iter_headers
from odradek.format.record_decoder import BEGINNING, PART_BYTES, Place, decode_part
from odradek.limits import TRIGGER_BATCH_BYTES_MAX
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, Record, TimestampType


@dataclass(frozen=True, slots=True)
class Refused:
    """A batch that is too large to be decompressed; the record stands for all of its records."""

    record: Record
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """Records in a row.

    Attributes:
        end: the offset behind them, and behind what was passed: holes, control batches, a batch that was refused.
        appended: offsets of records with the time of their append.
        refused: in place of the records.
    """

    records: list[Record]
    end: int
    appended: frozenset[int] = frozenset()
    refused: Refused | None = None


class FetchedBatches:
    """The whole batches of a fetch.

    Args:
        offset: of the first record that is wanted.

    Attributes:
        end: everything before this offset was in parts.
    """

    def __init__(self, data: Buffer, offset: int) -> None:
        self._data, self._from = data, offset
        self._batches = [(at, header) for at, header in iter_headers(data) if at + header.size_bytes <= len(data)]
        self._number = 0
        self._place = BEGINNING
        self.end = offset

    @property
    def is_done(self) -> bool:
        return self._number == len(self._batches)

    def next_part(self, rows_max: int) -> Part:
        """Return the next records, at least one unless nothing is left. Raises FormatError for a broken batch."""
        records: list[Record] = []
        appended: set[int] = set()
        left = PART_BYTES
        while not self.is_done and len(records) < rows_max and left > 0:
            at, header = self._batches[self._number]
            if header.is_control or header.next_offset <= self._from:
                self._finish(header)
                continue
            try:
                payload = bytes(batch_payload(self._data, at, header, verify_crc=True, limit=TRIGGER_BATCH_BYTES_MAX))
                decoded, size = self._decode(payload, header, rows_max - len(records), left)
            except FormatError as error:
                if records:
                    break  # those before it go first
                if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                    raise
                return self._refuse(header, str(error))
            left -= size
            records += decoded
            if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
                appended.update(record.offset for record in decoded)
        return Part(records, self.end, frozenset(appended))

    def _decode(self, payload: bytes, header: BatchHeader, rows_max: int, bytes_max: int) -> tuple[list[Record], int]:
        """Return records of a batch, none of which is below the wanted offset, and their size in bytes."""
        part_start: Place | None = self._place
        while part_start is not None:
            begin = part_start.position
            rows, part_start = decode_part(payload, header, part_start, rows_max, bytes_max)
            if records := [Record(*row) for row in rows if row[0] >= self._from]:
                break
        if part_start is None:
            self._finish(header)
            return records, len(payload) - begin if records else 0
        self._place = part_start
        self.end = records[-1].offset + 1
        return records, part_start.position - begin

    def _finish(self, header: BatchHeader) -> None:
        self.end = max(self.end, header.next_offset)
        self._number, self._place = self._number + 1, BEGINNING

    def _refuse(self, header: BatchHeader, error: str) -> Part:
        first, last = max(header.base_offset, self._from), header.last_offset
        reason = f"offsets {first} to {last}: {error}, which dispatchers do not take"
        self._finish(header)
        return Part([], self.end, refused=Refused(Record(first, header.max_timestamp_ms, None, None), reason))
