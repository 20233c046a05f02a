"""Record batches to plain tuples, by the faster of two ways: what record-by-record consumers read with.

The compiled loops take some tenths of a second to load, and seconds to compile where no cache can be written. A process
that reads a few records should not wait for that, so loading begins, in a thread, when it has read as many as repay it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from odradek.columnar.engine import has_numba
from odradek.format.record_decoder import Row, batch_payload, decode_payload
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader

LOAD_AFTER_ROWS = 100_000
_BATCH_ROWS_MIN = 16  # below, a call of the compiled loop costs more than it saves

_Decode = Callable[[bytes, BatchHeader], list[Row]]


class RowDecoder:
    """Decodes batches in plain Python until the compiled loops are there.

    Args:
        load_after_rows: None never loads them.
    """

    def __init__(self, load_after_rows: int | None = LOAD_AFTER_ROWS) -> None:
        self._left = load_after_rows if has_numba() else None
        self._fast: _Decode | None = None

    def decode(self, buf: Buffer, position: int, header: BatchHeader, *, verify_crc: bool = True) -> list[Row]:
        """The rows of a batch. Raises FormatError as `decode_batch`."""
        payload = bytes(batch_payload(buf, position, header, verify_crc=verify_crc))
        if self._fast is not None and header.record_count >= _BATCH_ROWS_MIN:
            return self._fast(payload, header)
        if self._left is not None:
            self._left -= header.record_count
            if self._left <= 0:
                self._left = None
                threading.Thread(target=self._try_to_load, name="odradek-row-decoder", daemon=True).start()
        return decode_payload(payload, header)

    def load(self) -> None:
        """Load the compiled loops now. Raises ImportError without the extra `fast`."""
        from odradek.columnar.rows_numba import decode_payload as compiled

        self._fast = compiled

    def _try_to_load(self) -> None:
        with suppress(Exception):  # a numba that does not work here costs speed, not records
            self.load()


ROWS = RowDecoder()
"""The process's own: what one consumer has loaded, all use."""
