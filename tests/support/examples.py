"""How many examples a property is asked for: a third in `make test`, which tries the same ones at every run.

All are tried by `.ci/run`, which says so in ODRADEK_EXAMPLES, and by `make explore`, whose examples are new ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_SHARE = 3
_ENOUGH = 20  # below, a property is hardly asked at all


def examples(count: int, environment: Mapping[str, str] = os.environ) -> int:
    """Return how many of so many examples this run tries."""
    if environment.get("ODRADEK_EXAMPLES") == "all" or environment.get("ODRADEK_EXPLORE"):
        return count
    return min(count, max(_ENOUGH, count // _SHARE))
