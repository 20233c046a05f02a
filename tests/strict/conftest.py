"""The suite runs by `make contract-strict`, which says where the emulator is; else it is not collected."""

from __future__ import annotations

from tests.support.stores.aws import DYNAMODB

collect_ignore_glob = [] if DYNAMODB else ["test_*.py"]
