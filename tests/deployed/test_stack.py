"""The end-to-end suite against a deployed stack, or an address."""

from __future__ import annotations

from tests.deployed.end_to_end import *  # noqa: F403
