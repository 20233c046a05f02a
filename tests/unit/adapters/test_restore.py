"""Batches of which DynamoDB takes a part: the rest is asked for again, for as long as it helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from odradek.adapters.aws.restore import TableChanges, make_equal
from odradek.errors import StoreUnavailable


class Paginator:
    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Items": list(self._items)}]


class DynamoDb:
    """Two equal tables; `served`: how many items each BatchGetItem answers, in turn, then all."""

    def __init__(self, count: int, served: Sequence[int]) -> None:
        self._items = [{"pk": {"S": "p"}, "sk": {"S": f"{number:03}"}} for number in range(count)]
        self._served = list(served)
        self.calls = 0

    def get_paginator(self, _: str) -> Paginator:
        return Paginator(self._items)

    def batch_get_item(self, RequestItems: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        [(table, asked)] = RequestItems.items()
        keys = asked["Keys"]
        count = self._served.pop(0) if self._served else len(keys)
        left = {table: {"Keys": keys[count:]}} if keys[count:] else {}
        return {"Responses": {table: keys[:count]}, "UnprocessedKeys": left}

    def batch_write_item(self, RequestItems: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("the tables are equal")


@pytest.mark.parametrize("served", [[0] * 9, [3] * 30], ids=["throttled but for the last attempt", "16 MB at a time"])
def test_large_and_throttled_batches_are_read_to_the_end(served: list[int]) -> None:
    slept: list[float] = []
    assert make_equal(DynamoDb(95, served), "t", "restored", sleep=slept.append) == TableChanges()
    assert len(slept) == served.count(0), "an answer without room for all is no throttle"


def test_a_table_that_answers_nothing_is_given_up() -> None:
    dynamodb = DynamoDb(5, [0] * 1_000)
    with pytest.raises(StoreUnavailable, match="run the same command again"):
        make_equal(dynamodb, "t", "restored", sleep=lambda _: None)
    assert dynamodb.calls == 10
