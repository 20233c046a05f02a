"""A failing check shows its values, as an assertion in a test does."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "odradek.testing.contract_table_conditions",
    "odradek.testing.contract_table_writes",
    "odradek.testing.contract_table_limits",
    "odradek.testing.contract_table_reads",
    "odradek.testing.contract_tables",
    "odradek.testing.contract_object_store",
    "odradek.testing.contract_task_queue",
)
