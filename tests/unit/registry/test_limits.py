"""Names, schemas and rows that the registry's table never takes: 422 with a message, and nothing half-written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from odradek.adapters.memory import MemoryStore
from odradek.engine.access.acls import Acls
from odradek.errors import ItemTooLarge, StoreError, StoreRejected
from odradek.registry.api import RegistryApi, Request
from odradek.registry.subjects import Subjects
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.support.stores.limited_store import LimitedTables, Limits

STRING = {"schema": '"string"'}
ABOUT_A_SUBJECT = {
    "register": ("POST", "/subjects/{}/versions", {"schema": '"int"'}),
    "look up": ("POST", "/subjects/{}", STRING),
    "versions": ("GET", "/subjects/{}/versions", None),
    "latest": ("GET", "/subjects/{}/versions/latest", None),
    "referenced by": ("GET", "/subjects/{}/versions/1/referencedby", None),
    "delete": ("DELETE", "/subjects/{}", None),
    "delete a version": ("DELETE", "/subjects/{}/versions/1", None),
    "compatible": ("POST", "/compatibility/subjects/{}/versions/latest", STRING),
    "set config": ("PUT", "/config/{}", {"compatibility": "NONE"}),
    "config": ("GET", "/config/{}", None),
    "clear config": ("DELETE", "/config/{}", None),
    "set mode": ("PUT", "/mode/{}", {"mode": "READONLY"}),
    "mode": ("GET", "/mode/{}", None),
    "clear mode": ("DELETE", "/mode/{}", None),
}


class World:
    """A registry whose table refuses what it is told to."""

    def __init__(self) -> None:
        self.limits = Limits()
        catalog: Any = LimitedTables(MemoryStore(), self.limits).catalog
        clock = ManualClock(auto_advance=True)
        acls = Acls(catalog, clock, SeededRng(0), Settings(acl_cache_ms=0))
        self.api = RegistryApi(Subjects(catalog, clock, SeededRng(0)), acls, "cluster-1")

    async def ask(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        return await self.api.answer(Request(method, path, "", data, "User:ann", "192.0.2.1"))


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(("method", "path", "body"), ABOUT_A_SUBJECT.values(), ids=ABOUT_A_SUBJECT)
async def test_a_name_that_is_longer_than_any_key(world: World, method: str, path: str, body: Any) -> None:
    status, response = await world.ask(method, path.format("x" * 2_000), body)
    assert (status, response["error_code"]) == (422, 42208)


@pytest.mark.parametrize("error", [ItemTooLarge, lambda: StoreRejected("the test's")], ids=["too large", "rejected"])
@pytest.mark.parametrize("name", ["register", "delete", "delete a version", "set config", "clear config", "set mode"])
async def test_a_write_that_the_table_never_takes(world: World, name: str, error: Callable[[], StoreError]) -> None:
    assert (await world.ask("POST", "/subjects/s/versions", STRING))[0] == 200
    assert (await world.ask("PUT", "/config/s", {"compatibility": "NONE"}))[0] == 200
    method, path, body = ABOUT_A_SUBJECT[name]
    world.limits.begin(error)
    status, response = await world.ask(method, path.format("s"), body)
    assert (status, response["error_code"]) == (422, 42205)
    world.limits.end()
    assert (await world.ask(method, path.format("s"), body))[0] == 200, "nothing was half-written"
