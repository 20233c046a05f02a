"""Closed segments of table topics as Parquet files (format/parquet/segment.py, docs/decisions/0041).

The log never stops because of a table: what cannot be written as one, and everything where pyarrow is not installed,
stays a segment of batches, is counted and gives its reason in the log. A file is used only after it has been read back
and every batch of it says what the original says.
"""

from __future__ import annotations

import logging

from odradek.engine.maintenance.maintenance import HeldPartition
from odradek.errors import FormatError
from odradek.extras import MissingExtra
from odradek.format.segment import Segment

_log = logging.getLogger("odradek.maintenance")


def as_table(held: HeldPartition, segment: Segment, group_bytes: int) -> Segment:
    """Return a segment as a columnar one, or itself if it cannot be one.

    Args:
        group_bytes: stored bytes of batches in a row group; at least one batch.
    """
    done = held.report.done
    try:
        from odradek.columnar.table_file import encode_table_segment

        made, misfits = encode_table_segment(segment, held.config.table_columns, group_bytes)
    except (FormatError, MissingExtra) as error:
        done["table_segments_refused"] += 1
        _log.warning(
            "%s-%d, offsets from %d: stays a segment of batches, not a Parquet file: %s",
            held.topic.name,
            held.partition.partition,
            segment.index.base_offset,
            error,
        )
        return segment
    done["table_segments_written"] += 1
    done["table_values_misfit"] += misfits
    return made
