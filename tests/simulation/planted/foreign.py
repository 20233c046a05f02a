"""Planted bugs that others put into a copy of the engine and the simulation once missed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.maintenance import sweep
from odradek.engine.maintenance.patience import patiently
from odradek.engine.partition.head import ProducerState, encode_producer
from odradek.engine.partition.spill import VERSION, Spills
from odradek.format.item_keys import partition_pk, producer_sk
from odradek.model.log import OFFSET_END
from odradek.ports.table import Key, Put

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug
from tests.simulation.store.ports import Fates


def _long_in_the_tail(scenario: Scenario) -> Scenario:
    """Producers so slow that entries are older than the sweep's horizon when they are spilled, under slow sweeps."""
    settings = {
        **scenario.settings,
        "sweep_horizon_ms": 960_000,
        "sweep_interval_ms": 0,
        "head_bytes_max": 400,
        "spill_entries": 1,
        "merge_age_ms": 600_000_000,
        "merge_rows_min": 90,
    }
    fates = replace(Fates.none(), stall=0.1, stalling=frozenset({"get"}), stalls_s=(400.0, 900.0))
    return replace(
        scenario,
        settings=settings,
        fates=fates,
        topics=tuple(replace(topic, configs={}, partitions=1) for topic in scenario.topics[:1]),
        producers=2,
        deleters=0,
        pace_s=600.0,
        maintainers=4,
        maintainer_pace_s=60.0,
        maintainer_turns=60,
    )


@bug("upkeep", change=_long_in_the_tail, seeds=30)
def sweep_reads_rows_before_the_head() -> Iterator[None]:
    """Entries that are spilled between the two reads are in neither."""

    async def drop(index: Any, partitions: Any, object_ids: set[bytes], parallelism: int, clock: Any, rng: Any) -> None:
        async def look(partition: Any) -> None:
            at = 0
            while rows := await patiently(
                clock,
                rng,
                lambda at=at: index.rows_between(partition, at, OFFSET_END, 64),  # type: ignore[misc]
            ):
                for row in rows:
                    object_ids.difference_update(entry.object_id for entry in row.entries)
                at = rows[-1].base_offset + 1
            head = await patiently(clock, rng, lambda: index.read_head(partition))
            if head is not None:
                object_ids.difference_update(entry.object_id for _, entry in head.entries())

        await asyncio.gather(*(look(partition) for partition in partitions))

    with patch.object(sweep, "drop_referenced", drop):
        yield


def _coming_and_going(scenario: Scenario) -> Scenario:
    """Producers that leave the head and come back, and spillers whose writes arrive late."""
    settings = {
        **scenario.settings,
        "head_bytes_max": 400,
        "spill_entries": 1,
        "producers_in_head_max": 1,
        "producer_idle_ms": 0,
        "append_attempts_max": 20,
        "sequence_wait_ms": 500,
    }
    fates = replace(Fates.none(), late=0.12, lost_answer=0.05)
    return replace(
        scenario,
        settings=settings,
        fates=fates,
        idempotent_share=1.0,
        producers=5,
        records_of=60,
        topics=tuple(replace(topic, partitions=1) for topic in scenario.topics[:1]),
        pace_s=2.0,
    )


@bug("log", change=_coming_and_going, seeds=30)
def older_eviction_overwrites_a_newer_row() -> Iterator[None]:
    """A spiller that slept writes a producer's row as it was, over one that a later eviction wrote."""

    async def write(self: Spills, partition: Any, producer_id: int, state: ProducerState, committed_ms: int) -> bool:
        newest = max((batch.base_offset for batch in state.recent), default=-1)
        row = {"v": VERSION, "o": newest, "t": committed_ms, **encode_producer(state)}
        await self._log.put(Put(Key(partition_pk(partition), producer_sk(producer_id)), row))
        return True

    with patch.object(Spills, "_write_producer_row", write):
        yield
