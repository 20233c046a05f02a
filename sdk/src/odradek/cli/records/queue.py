"""`odradek consume --share-group`: records taken off a topic as off a queue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

_QUIET_POLLS = 3  # without --follow: after so many polls without a record nothing is there for us
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
    """Print records and accept them once they are printed; returns how many. What is not printed is given back."""
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
                    sys.stdout.buffer.write(show(record))
                    written += 1
            sys.stdout.buffer.flush()
            if count and written >= count:
                break
    return written
