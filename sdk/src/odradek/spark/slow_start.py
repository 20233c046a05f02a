"""Queries that failed only because Spark's Python worker was too slow to start: they are started again.

Spark gives the Python of a source ten seconds to answer, a constant, which a busy machine may exceed. Nothing was read
or written then, so that another start is safe. A number of starts in a row is the limit: a Python that never answers is
a defect of the installation.
"""

from __future__ import annotations

import logging

START_ATTEMPTS = 5
_SLOW_START = "Python worker failed to connect back"  # of Spark, in the error of a query
_log = logging.getLogger("odradek.spark")


class SlowStarts:
    """The failed starts of one query, in a row."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._failed = 0

    def may_start_again(self, error: BaseException | str) -> bool:
        """Return True, and log it, if this was a slow start and not the last attempt."""
        if _SLOW_START not in str(error):
            return False
        self._failed += 1
        if self._failed >= START_ATTEMPTS:
            return False
        _log.warning(
            "%s: Spark's Python worker did not answer in time, as on a busy machine; start %d of %d",
            self._name, self._failed + 1, START_ATTEMPTS,
        )  # fmt: skip
        return True

    def started(self) -> None:
        """Forget earlier failures: the query ran."""
        self._failed = 0
