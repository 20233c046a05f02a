"""Requests that the store never takes: counted by the adapter, told by a line of their own."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.adapters.memory import MemoryStore, MemoryTable
from odradek.errors import StoreRejected
from odradek.functions.invoked import Instruments, InvokedFunction
from odradek.functions.metering import InvocationMeter
from odradek.functions.telemetry import ATTENTION, NAMESPACE
from odradek.ports.table import Check, Exists, Key, Put, RemoveFirst, Update
from odradek.ports.tables import TableOperation
from odradek.testing import ManualClock

TOO_LONG = Update(Key("pk", "item"), (RemoveFirst(("t",), 900),))


class _Writing(InvokedFunction):
    def __init__(self, table: MemoryTable, instruments: Instruments, rejected: int) -> None:
        super().__init__("writing", instruments)
        self._table, self._rejected = table, rejected

    async def work(self, event: Any, context: Any, invocation: Any) -> dict[str, Any]:
        await self._table.put(Put(Key("pk", "item"), {"t": []}))
        for _ in range(self._rejected):
            with pytest.raises(StoreRejected):
                await self._table.update(TOO_LONG)
        return {}


@pytest.mark.parametrize("rejected", [0, 2])
async def test_a_line_of_its_own_only_where_there_are_any(rejected: int, caplog: pytest.LogCaptureFixture) -> None:
    lines: list[dict[str, Any]] = []
    meter = InvocationMeter()
    instruments = Instruments(
        clock=ManualClock(), meter=meter, cluster_id="c", write_line=lambda line: lines.append(json.loads(line))
    )
    function = _Writing(MemoryTable(meter), instruments, rejected)
    context: Any = SimpleNamespace(aws_request_id="1", memory_limit_in_mb="128")
    with caplog.at_level(logging.ERROR, "odradek"):
        await function.handle({}, context)
    attention_lines = [line for line in lines if line["message"] == "attention"]
    assert [(line["reason"], line["store_rejections"]) for line in attention_lines] == (
        [("store-rejected", 2)] if rejected else []
    )
    if attention_lines:
        (directive,) = attention_lines[0]["_aws"]["CloudWatchMetrics"]
        assert (directive["Namespace"], directive["Dimensions"]) == (
            NAMESPACE,
            [["cluster_id"], ["cluster_id", "function"]],
        )
        assert directive["Metrics"] == [{"Name": ATTENTION, "Unit": "Count"}]
    assert len(caplog.records) == rejected
    assert all("UpdateItem" in record.getMessage() and "item" in record.getMessage() for record in caplog.records)


async def test_transactions_and_reads_are_told_as_well(caplog: pytest.LogCaptureFixture) -> None:
    meter = InvocationMeter()
    store = MemoryStore(meter)
    with caplog.at_level(logging.ERROR, "odradek"):
        for call in (
            store.transact([TableOperation("log", TOO_LONG)]),
            store.log.transact([Check(Key("pk", "x" * 2000), Exists(("a",)))]),
            store.log.get(Key("", "a")),
            store.log.get_many([Key("pk", "x" * 2000)]),
            store.log.query("x" * 3000),
        ):
            with pytest.raises(StoreRejected):
                await call
    assert meter.total.usage.rejected_requests == len(caplog.records) == 5
