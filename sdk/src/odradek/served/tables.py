"""Operations on served tables: serve, list, describe, stop, resume, drop."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from odradek.engine.engine import Engine
from odradek.engine.marks import Wake, encode_wake
from odradek.engine.partition.shared_head import view_of
from odradek.errors import ErrorCode, FormatError, KafkaError, OutcomeUnknown, StoreError, StoreUnavailable
from odradek.model.table import ServedTable, TablePartition, TableState, TableStatus
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Table
from odradek.ports.task_queue import TaskQueue
from odradek.served.definition import Definition, Definitions, check_table, not_found, whole
from odradek.served.follow import WAKE_PREFIX
from odradek.served.positions import Positions
from odradek.triggers.triggers import head_ids

_ATTEMPTS = 6
_TABLES_MAX = 1_000


class Tables:
    """The served tables of a store. All errors are KafkaErrors: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
    RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, COORDINATOR_NOT_AVAILABLE (try again).

    Args:
        engine: of the store.
        rows: the table of rows; None: this process describes no tables.
        definitions: shared with the readers and maintainers of this process.
        queue: wakes the maintainer of a new or resumed table; None: the sweep does.
    """

    def __init__(self, engine: Engine, rows: Table | None, definitions: Definitions, queue: TaskQueue | None) -> None:
        self._engine = engine
        self._definitions = definitions
        self._positions = None if rows is None else Positions(rows)
        self._queue = queue

    async def serve(self, table: ServedTable) -> ServedTable:
        """Begin to serve a topic as a table. A table that is served with the same options stays as it is."""
        check_table(table)
        topic = await self._engine.topics.get(table.topic)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {table.topic!r} does not exist: create it first"
            )
        made = whole(table, topic, self._engine.clock.now_ms())
        try:
            definitions = await self._definitions.read()
            existing = next((definition for definition in definitions if definition.table.name == table.name), None)
            if existing is None:
                if len(definitions) >= _TABLES_MAX:
                    raise _invalid(f"a cluster serves at most {_TABLES_MAX} tables")
                generation = self._definitions.new_generation()
                definition = Definition(made, generation, topic.topic_id, topic.partition_count)
                if not await self._definitions.put(definition):
                    existing = await self._definitions.get(table.name, fresh=True)
        except (StoreError, FormatError) as error:
            raise _refusal(error) from None
        if existing is not None:
            same = replace(made, created_ms=existing.table.created_ms, state=existing.table.state)
            if same != existing.table:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    f"table {table.name!r} is served with other options: drop it first "
                    f"(odradek tables drop {table.name})",
                )
            return existing.table if existing.table.is_enabled else await self.resume(table.name)
        await self._wake(made, topic)
        return made

    async def list_all(self) -> list[ServedTable]:
        """All tables, by name."""
        try:
            return [definition.table for definition in await self._definitions.read()]
        except (StoreError, FormatError) as error:
            raise _refusal(error) from None

    async def get(self, name: str) -> ServedTable:
        """One table."""
        return (await self._get(name)).table

    async def describe(self, name: str) -> TableStatus:
        """A table, with what it covers of each partition."""
        if self._positions is None:
            raise _invalid("this process knows no rows: ask the coordinator's URL")
        definition = await self._get(name)
        topic = await self._engine.topics.get(definition.table.topic)
        if topic is None:
            return TableStatus(definition.table, topic_exists=False, partitions=())
        partitions = [PartitionId(topic.topic_id, number) for number in range(topic.partition_count)]
        try:
            # Positions first: no table then seems to cover more than the log has.
            positions = await self._positions.read_all(definition.generation)
            images = await self._engine.index.read_images(sorted({partition.head_id for partition in partitions}))
        except (StoreUnavailable, FormatError) as error:
            raise _refusal(error) from None
        statuses = []
        for partition in partitions:
            image = images[partition.head_id]
            end = 0 if image is None else view_of(image, partition).next_offset
            position = positions.get(partition.partition) if definition.topic_id == topic.topic_id else None
            if position is None:
                statuses.append(TablePartition(partition.partition, end_offset=end, lag=end))
                continue
            statuses.append(
                TablePartition(
                    partition.partition,
                    position.covered,
                    end,
                    max(0, end - position.covered),
                    position.changes,
                    position.too_large,
                    position.unusable,
                    position.lost,
                    position.timestamp_ms,
                    position.error,
                    position.error_ms,
                )
            )
        return TableStatus(definition.table, topic_exists=True, partitions=statuses)

    async def stop(self, name: str) -> ServedTable:
        """Follow the topic no more; the rows stay, and are read as they are."""
        return await self._set_state(name, TableState.STOPPED)

    async def resume(self, name: str) -> ServedTable:
        """Follow the topic again, from where it was."""
        table = await self._set_state(name, TableState.ENABLED)
        topic = await self._engine.topics.get(table.topic)
        if topic is not None:
            await self._wake(table, topic)
        return table

    async def drop(self, name: str) -> None:
        """Serve a table no more; maintenance removes its rows. The topic stays."""
        definition = await self._get(name)
        try:
            for _ in range(_ATTEMPTS):
                await self._definitions.delete(definition)
                left = await self._definitions.get(name, fresh=True)
                if left is None:
                    return
                definition = left  # a new generation came in between
        except (StoreError, FormatError):
            pass
        raise _unavailable()

    # --- steps ----------------------------------------------------------------------------------------------------

    async def _get(self, name: str) -> Definition:
        try:
            definition = await self._definitions.get(name, fresh=True)
        except (StoreUnavailable, FormatError) as error:
            raise _refusal(error) from None
        if definition is None:
            raise not_found(name)
        return definition

    async def _set_state(self, name: str, state: TableState) -> ServedTable:
        for _ in range(_ATTEMPTS):
            definition = await self._get(name)
            changed = replace(definition, table=replace(definition.table, state=state.value))
            try:
                if changed == definition or await self._definitions.put(changed):
                    return changed.table
            except StoreError:
                break
        raise _unavailable()

    async def _wake(self, table: ServedTable, topic: Topic) -> None:
        """Have every head followed and marked, and once more when every maintainer knows the table.

        An append may wake a maintainer whose definitions are older than the table. What is not sent, the sweep sends.
        """
        if self._queue is None:
            return
        queue = self._queue

        known_s = -(-self._engine.settings.catalog_cache_ms // 1000) + 1

        async def send(message: str, delay_s: int) -> None:
            try:
                await queue.send([message], delay_s=delay_s)
            except (StoreUnavailable, OutcomeUnknown):
                return

        messages = [encode_wake(Wake(head_id, WAKE_PREFIX + table.name)) for head_id in head_ids(topic)]
        await asyncio.gather(*(send(message, delay_s) for message in messages for delay_s in (0, known_s)))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _refusal(error: Exception) -> KafkaError:
    return KafkaError(error.code, str(error)) if isinstance(error, FormatError) else _unavailable()


def _unavailable() -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the store did not answer: try again")
