"""Datagen: records of well-known shapes, for demos, loads and tests.

Every value follows from the seed, the task, the number of the record and the name of its field, so a task that starts
again behind its stored offset goes on with the same stream, and nothing is lost or doubled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.data import schema as schemas
from odradek.connect.data.logical import TIMESTAMP, moment_of
from odradek.connect.data.schema import Schema, array, struct
from odradek.connect.data.structs import Struct
from odradek.connect.plugin import Configs, SourceConnector, SourceTask
from odradek.connect.record import SourceRecord

_BATCH_MAX = 500


class _Chance:
    """Repeatable choices for one record."""

    def __init__(self, seed: str, number: int) -> None:
        self._seed, self.number = f"{seed}/{number}".encode(), number

    def below(self, bound: int, name: str) -> int:
        digest = hashlib.blake2b(name.encode(), key=hashlib.sha256(self._seed).digest(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % bound

    def of(self, choices: Sequence[Any], name: str) -> Any:
        return choices[self.below(len(choices), name)]


Make = Callable[[_Chance, int], Any]
"""Chance and the time in ms -> the value of a field."""


@dataclass(frozen=True)
class Quickstart:
    """A well-known shape."""

    key: str
    fields: Mapping[str, tuple[Schema, Make]]

    def schema(self, name: str) -> Schema:
        return struct({field: schema for field, (schema, _) in self.fields.items()}, name=f"ksql.{name}")


def _one(name: str, *choices: Any, kind: Schema = schemas.STRING) -> tuple[Schema, Make]:
    return kind, lambda chance, _: chance.of(choices, name)


def _numbered(name: str, prefix: str, count: int) -> tuple[Schema, Make]:
    return schemas.STRING, lambda chance, _: f"{prefix}{chance.below(count, name) + 1}"


def _range(name: str, low: int, high: int, kind: Schema = schemas.INT32) -> tuple[Schema, Make]:
    return kind, lambda chance, _: low + chance.below(high - low, name)


def _decimal(name: str, high: int) -> tuple[Schema, Make]:
    return schemas.FLOAT64, lambda chance, _: chance.below(high * 100, name) / 100


_NUMBER: tuple[Schema, Make] = (schemas.INT32, lambda chance, _: chance.number)
_TIME_MS: tuple[Schema, Make] = (schemas.INT64, lambda _, now_ms: now_ms)
_ADDRESS = struct({"city": schemas.STRING, "state": schemas.STRING, "zipcode": schemas.INT64}, name="ksql.address")


def _address(chance: _Chance, _: int) -> Struct:
    number = chance.below(100, "address")
    return Struct(_ADDRESS, {"city": f"City_{number}", "state": f"State_{number}", "zipcode": 10_000 + number * 83})


QUICKSTARTS: Mapping[str, Quickstart] = {
    "users": Quickstart(
        "userid",
        {
            "registertime": _range("registertime", 1_487_715_775_521, 1_519_273_364_600, schemas.INT64),
            "userid": _numbered("userid", "User_", 9),
            "regionid": _numbered("regionid", "Region_", 9),
            "gender": _one("gender", "MALE", "FEMALE", "OTHER"),
        },
    ),
    "pageviews": Quickstart(
        "viewtime",
        {
            "viewtime": (schemas.INT64, lambda chance, _: chance.number * 10 + 1),
            "userid": _numbered("userid", "User_", 9),
            "pageid": _numbered("pageid", "Page_", 100),
        },
    ),
    "orders": Quickstart(
        "orderid",
        {
            "ordertime": _range("ordertime", 1_487_715_775_521, 1_519_273_364_600, schemas.INT64),
            "orderid": _NUMBER,
            "itemid": _numbered("itemid", "Item_", 1000),
            "orderunits": _decimal("orderunits", 10),
            "address": (_ADDRESS, _address),
        },
    ),
    "ratings": Quickstart(
        "rating_id",
        {
            "rating_id": (schemas.INT64, lambda chance, _: chance.number),
            "user_id": _range("user_id", 1, 20),
            "stars": _range("stars", 1, 6),
            "route_id": _range("route_id", 1, 10_000),
            "rating_time": (schemas.INT64, lambda chance, _: chance.number * 12 + 1),
            "channel": _one("channel", "web", "ios", "android", "iOS-test"),
            "message": _one("message", "thank you", "why is it so difficult?", "more peanuts please", "airport food"),
        },
    ),
    "stock_trades": Quickstart(
        "symbol",
        {
            "side": _one("side", "BUY", "SELL"),
            "quantity": _range("quantity", 1, 5_000),
            "symbol": _one("symbol", "ZBZX", "ZJZZT", "ZTEST", "ZVV", "ZVZZT", "ZWZZT", "ZXZZT"),
            "price": _range("price", 5, 1_000),
            "account": _one("account", "ABC123", "LMN456", "XYZ789"),
            "userid": _numbered("userid", "User_", 9),
        },
    ),
    "inventory": Quickstart(
        "id",
        {
            "id": _NUMBER,
            "quantity": _range("quantity", 1, 100),
            "productid": _range("productid", 1, 1_000),
        },
    ),
    "transactions": Quickstart(
        "transaction_id",
        {
            "transaction_id": (schemas.INT64, lambda chance, _: chance.number),
            "card_id": _range("card_id", 1, 20, schemas.INT64),
            "user_id": _numbered("user_id", "User_", 9),
            "purchase_id": (schemas.INT64, lambda chance, _: chance.number),
            "store_id": _range("store_id", 1, 8),
        },
    ),
    "purchases": Quickstart(
        "id",
        {
            "id": (schemas.INT64, lambda chance, _: chance.number),
            "item_type": _one("item_type", "grains", "fruit", "vegetables", "dairy", "meat"),
            "quantity": (schemas.INT64, lambda chance, _: chance.below(10, "quantity") + 1),
            "price_per_unit": _decimal("price_per_unit", 25),
        },
    ),
    "clickstream": Quickstart(
        "ip",
        {
            "ip": _one("ip", *(f"122.{n}.245.{n * 7 % 250}" for n in range(1, 20))),
            "userid": _range("userid", 1, 40),
            "time": (schemas.INT64, lambda chance, _: chance.number * 10 + 1),
            "request": _one("request", "GET /index.html HTTP/1.1", "GET /site/login.html HTTP/1.1"),
            "status": _one("status", "200", "302", "404", "405", "406", "407"),
            "bytes": _one("bytes", "278", "1289", "2048", "4096", "4006", "4196", "14096"),
        },
    ),
    "iot": Quickstart(
        "device",
        {
            "device": _numbered("device", "device-", 20),
            "temperature": _decimal("temperature", 40),
            "tags": (array(schemas.STRING), lambda chance, _: [f"room-{chance.below(5, 'tags')}"]),
            "measured": (TIMESTAMP, lambda _, now_ms: moment_of(now_ms)),
        },
    ),
}
assert all(each.key in each.fields for each in QUICKSTARTS.values())


class DatagenTask(SourceTask):
    """Makes the records of one task."""

    def start(self, configs: Configs) -> None:
        given = DatagenConnector.config_def.parse(configs)
        self._task = int(configs.get("task.number", 0))
        self._shape = QUICKSTARTS[given["quickstart"]]
        self._schema = self._shape.schema(given["quickstart"])
        self._topic: str = given["kafka.topic"]
        self._interval_s = given["max.interval"] / 1000
        self._end: int = given["iterations"]
        self._seed = f"{given['random.seed']}/{self._task}"
        self._partition = {"task": self._task}
        stored = self.context.offset(self._partition)
        self._number = 0 if stored is None else int(stored["iteration"])
        self._due_s = self.context.clock.monotonic()

    def poll(self) -> list[SourceRecord]:
        if 0 <= self._end <= self._number:
            self.context.wait(0.5)
            return []
        if self._interval_s:
            self.context.wait(max(0.0, self._due_s - self.context.clock.monotonic()))
            self._due_s = self.context.clock.monotonic() + self._interval_s
        count = 1 if self._interval_s else _BATCH_MAX
        if self._end >= 0:
            count = min(count, self._end - self._number)
        return [self._next() for _ in range(count)]

    def _next(self) -> SourceRecord:
        now_ms = self.context.clock.now_ms()
        chance = _Chance(self._seed, self._number)
        value = Struct(self._schema, {name: make(chance, now_ms) for name, (_, make) in self._shape.fields.items()})
        self._number += 1
        key_schema = self._shape.fields[self._shape.key][0]
        return SourceRecord(
            topic=self._topic,
            key=value[self._shape.key],
            key_schema=key_schema,
            value=value,
            value_schema=self._schema,
            timestamp_ms=now_ms,
            source_partition=self._partition,
            source_offset={"iteration": self._number},
        )


class DatagenConnector(SourceConnector):
    """Records of well-known shapes: users, orders, page views and others."""

    task_class = DatagenTask
    config_def = (
        ConfigDef()
        .define(
            "kafka.topic", Kind.STRING, documentation="The topic to write to.", importance="HIGH", allowed=non_empty(),
            also=("topic",),
        )
        .define(
            "quickstart", Kind.STRING, "orders", "The shape of the records.", importance="HIGH",
            allowed=one_of(*QUICKSTARTS),
        )
        .define(
            "max.interval", Kind.LONG, 500, "Time between two records of a task, in ms; 0: as fast as possible.",
            allowed=between(0),
        )
        .define("iterations", Kind.LONG, -1, "Number of records of each task; -1: no end.")
        .define("random.seed", Kind.LONG, 0, "Another seed gives other records.", importance="LOW")
    )  # fmt: skip

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [{**self.configs, "task.number": str(number)} for number in range(tasks_max)]
