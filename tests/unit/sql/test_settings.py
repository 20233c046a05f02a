"""Values that properties do not take, besides those of the golden cases."""

from __future__ import annotations

import pytest
from odradek.sql.planning.settings import checked
from odradek.sql.position import Position, SqlError
from odradek.sql.syntax import Set


@pytest.mark.parametrize("value", ["9" * 5000, "", "3.5", "٣"])  # int() refuses so many digits, and takes the last one
def test_a_limit_that_is_no_small_number_is_refused(value: str) -> None:
    name = "ksql.functions.collect_list.limit"
    with pytest.raises(SqlError, match="is a number up to 1000"):
        checked(name, Set(name, value, Position(1, 1)))
