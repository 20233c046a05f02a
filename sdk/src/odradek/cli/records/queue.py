"""`odradek consume --share-group`: consume a topic as a queue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from odradek.cli.output import write_data

_QUIET_POLLS = 3  # without --follow: stop after so many polls without a record
_POLL_MS = 1_000
_RECORDS_A_POLL = 500


def take_off(
    configs: Mapping[str, Any],
    topic: str,
    share_group: str,
    count: int,
    follow: bool,
    show: Callable[[Any], bytes],
) -> int:
    """Print records, accept them, and return their number. Records that were not printed are released."""
    from odradek import ShareConsumer

    written = quiet = 0
    with ShareConsumer(**configs, group_id=share_group, share_acquire_mode="record_limit") as consumer:
        consumer.subscribe([topic])
        while follow or quiet < _QUIET_POLLS:
            left = min(_RECORDS_A_POLL, count - written) if count else _RECORDS_A_POLL
            polled = consumer.poll(_POLL_MS, max_records=left)
            quiet = 0 if polled else quiet + 1
            for records in polled.values():
                for record in records:
                    write_data(show(record))
                    written += 1
            sys.stdout.buffer.flush()
            if count and written >= count:
                break
    return written
