"""The limits of DynamoDB at their edge, for the stores that evaluate expressions themselves."""

from __future__ import annotations

import pytest
from odradek.adapters.expressions import NOTHING, after_all, state_of
from odradek.errors import ItemTooLarge
from odradek.limits import TABLE_TRANSACTION_BYTES_MAX
from odradek.ports.table import Key, Put


@pytest.mark.parametrize("more", [0, 1])
def test_a_transaction_may_have_exactly_4_mb(more: int) -> None:
    items = {Key("p", f"{number:02}"): {"d": bytes(390_000)} for number in range(10)}
    left = TABLE_TRANSACTION_BYTES_MAX - sum(state_of(key, item).size_bytes for key, item in items.items())
    last = Key("p", "last")
    items[last] = {"d": bytes(left - state_of(last, {"d": b""}).size_bytes + more)}
    puts = [Put(key, item) for key, item in items.items()]
    if more:
        with pytest.raises(ItemTooLarge):
            after_all(puts, [NOTHING] * len(puts))
    else:
        assert len(after_all(puts, [NOTHING] * len(puts))) == 11
