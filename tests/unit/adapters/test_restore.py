"""Batches of which DynamoDB takes a part, or nothing: the rest is asked for again, for as long as it helps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from odradek.adapters.aws.restore import TableChanges, make_equal, restore_tables
from odradek.errors import StoreUnavailable


class DynamoDb:
    """Two equal tables; `served`: how many items each BatchGetItem answers, in turn, then all."""

    def __init__(self, count: int, served: Sequence[int]) -> None:
        self._items = [{"pk": {"S": "p"}, "sk": {"S": f"{number:03}"}} for number in range(count)]
        self._served = list(served)
        self.calls = 0

    def scan(self, *, ExclusiveStartKey: dict[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        """Pages of 50 items."""
        start = 0 if ExclusiveStartKey is None else self._items.index(ExclusiveStartKey) + 1
        page = self._items[start : start + 50]
        more = {"LastEvaluatedKey": page[-1]} if start + 50 < len(self._items) else {}
        return {"Items": page, **more}

    def batch_get_item(self, RequestItems: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        [(table, keys_and_options)] = RequestItems.items()
        keys = keys_and_options["Keys"]
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


class Throttled:
    """DynamoDB with two tables, `own` and `restored`, of provisioned capacity: each call is refused so many times."""

    def __init__(self, refusals: int, code: str = "ProvisionedThroughputExceededException") -> None:
        items = [{"pk": {"S": "p"}, "sk": {"S": f"{number:03}"}, "n": {"N": "1"}} for number in range(60)]
        self.tables: dict[str, dict[str, Any]] = {
            "restored": {item["sk"]["S"]: item for item in items},
            "own": {"x": {"pk": {"S": "p"}, "sk": {"S": "x"}}},
        }
        self._refusals, self._code, self._left = refusals, code, refusals

    def _admit(self, operation: str) -> None:
        if self._left:
            self._left -= 1
            raise ClientError({"Error": {"Code": self._code, "Message": "slow down"}}, operation)
        self._left = self._refusals

    def scan(self, TableName: str, **_: Any) -> dict[str, Any]:
        self._admit("Scan")
        return {"Items": list(self.tables[TableName].values())}

    def batch_get_item(self, RequestItems: dict[str, Any]) -> dict[str, Any]:
        self._admit("BatchGetItem")
        [(table, keys_and_options)] = RequestItems.items()
        stored = (self.tables[table].get(key["sk"]["S"]) for key in keys_and_options["Keys"])
        return {"Responses": {table: [item for item in stored if item]}}

    def batch_write_item(self, RequestItems: dict[str, Any]) -> dict[str, Any]:
        self._admit("BatchWriteItem")
        [(table, requests)] = RequestItems.items()
        for request in requests:
            if "PutRequest" in request:
                item = request["PutRequest"]["Item"]
                self.tables[table][item["sk"]["S"]] = item
            else:
                del self.tables[table][request["DeleteRequest"]["Key"]["sk"]["S"]]
        return {}


def test_a_table_of_provisioned_capacity_is_restored_at_its_pace() -> None:
    dynamodb, slept = Throttled(refusals=9), list[float]()
    assert make_equal(dynamodb, "own", "restored", sleep=slept.append) == TableChanges(put=60, deleted=1)
    assert dynamodb.tables["own"] == dynamodb.tables["restored"]
    assert len(slept) == 9 * 8, "two scans, two batches of keys, three of puts, one of deletions"


def test_what_is_not_a_throttle_is_not_waited_for() -> None:
    with pytest.raises(ClientError):
        make_equal(Throttled(1, "AccessDeniedException"), "own", "restored", sleep=lambda _: pytest.fail("waited"))
    with pytest.raises(StoreUnavailable, match="restored is throttled"):
        make_equal(Throttled(10), "own", "restored", sleep=lambda _: None)


class Restoring:
    """DynamoDB that restores tables: the statuses of each, one a look."""

    exceptions = SimpleNamespace(TableAlreadyExistsException=LookupError, ResourceInUseException=LookupError)

    def __init__(self, *statuses: Sequence[str]) -> None:
        self._statuses: list[Iterator[str]] = list(map(iter, statuses))
        self._by_name: dict[str, Iterator[str]] = {}

    def restore_table_to_point_in_time(self, *, TargetTableName: str, **_: Any) -> None:
        self._by_name[TargetTableName] = self._statuses.pop(0)

    def describe_table(self, *, TableName: str) -> dict[str, Any]:
        return {"Table": {"TableStatus": next(self._by_name[TableName])}}


def test_tables_that_are_restored_are_waited_for_until_the_last_is_there() -> None:
    told: list[str] = []
    pauses: list[float] = []
    dynamodb = Restoring(["CREATING", "ACTIVE"], ["CREATING", "CREATING", "ACTIVE"])
    names = restore_tables(
        dynamodb, ["log", "groups"], datetime(2026, 1, 1, tzinfo=UTC), sleep=pauses.append, tell=told.append
    )
    assert list(names) == ["log", "groups"]
    assert len(pauses) == 2
    assert names["log"] in told[0]
    assert told[1] == f"DynamoDB is restoring {names['groups']}", "the one that is there is not named again"


def test_a_restored_table_that_fails_is_an_error() -> None:
    with pytest.raises(StoreUnavailable, match="is ARCHIVED: delete it and begin again"):
        restore_tables(
            Restoring(["ARCHIVED"]), ["log"], datetime(2026, 1, 1, tzinfo=UTC), sleep=lambda _: None, tell=print
        )
