"""Record batches to lists of fields, by the faster of two ways, for consumers of single records.

The result is lists of fields rather than a tuple per record, because a consumer creates one object per record itself,
and the collector counts objects.

The compiled loops take some tenths of a second to load, and seconds to compile if no cache can be written. A process
that reads few records should not wait for that, so a thread loads them once enough records have been read to repay it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from odradek.columnar.engine import has_numba
from odradek.format.record_decoder import PART_BYTES, PART_ROWS, batch_payload, decode_payload, iter_parts
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, Header

LOAD_AFTER_ROWS = 100_000
_BATCH_ROWS_MIN = 16  # for fewer, a call of the compiled loop costs more than it saves


class Fields(NamedTuple):
    """The fields of records, each list as long as there are records."""

    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[tuple[Header, ...]]

    def part(self, start: int, end: int) -> Fields:
        """Return the records [start, end)."""
        offsets, timestamps_ms, keys, values, headers = self
        return Fields(
            offsets[start:end], timestamps_ms[start:end], keys[start:end], values[start:end], headers[start:end]
        )


NO_RECORDS = Fields((), (), (), (), ())

_Decode = Callable[[bytes, BatchHeader], Fields]


class RowDecoder:
    """Decodes batches in plain Python until the compiled loops are loaded.

    Args:
        load_after_rows: None never loads them.
    """

    def __init__(self, load_after_rows: int | None = LOAD_AFTER_ROWS) -> None:
        self._left = load_after_rows if has_numba() else None
        self._fast: _Decode | None = None

    def parts(self, buf: Buffer, position: int, header: BatchHeader, *, verify_crc: bool = True) -> Iterator[Fields]:
        """Yield the records of a batch: at once, or in parts if all of them might be too many to be kept.

        Raises FormatError as `decode_batch`; of a part, behind those before it.
        """
        payload = bytes(batch_payload(buf, position, header, verify_crc=verify_crc))
        if len(payload) <= PART_BYTES and header.record_count <= PART_ROWS:
            yield self._decode(payload, header)
            return
        for rows in iter_parts(payload, header):
            yield Fields(*zip(*rows, strict=True))

    def _decode(self, payload: bytes, header: BatchHeader) -> Fields:
        if self._fast is not None and header.record_count >= _BATCH_ROWS_MIN:
            return self._fast(payload, header)
        if self._left is not None:
            self._left -= header.record_count
            if self._left <= 0:
                self._left = None
                threading.Thread(target=self._try_to_load, name="odradek-row-decoder", daemon=True).start()
        return decode_plainly(payload, header)

    def load(self) -> None:
        """Load the compiled loops now. Raises ImportError without the extra `fast`."""
        from odradek.columnar.rows_numba import decode_compiled

        self._fast = decode_compiled

    def _try_to_load(self) -> None:
        with suppress(Exception):  # a broken numba costs speed, not records
            self.load()


def decode_plainly(payload: bytes, header: BatchHeader) -> Fields:
    """Return the records of a batch from its decompressed payload. Raises FormatError(INVALID_RECORD)."""
    rows = decode_payload(payload, header)
    return Fields(*zip(*rows, strict=True)) if rows else NO_RECORDS


ROWS = RowDecoder()
"""The decoder of this process, which all consumers share."""
