"""The slow sweep of served tables, part of maintenance: what lost messages and dead maintainers left, and old rows.

behind the log, or a head without a mark     a message for the maintainer
a topic that was recreated                   the same: the maintainer begins a new generation
rows of a generation that was dropped        the same: it removes them (served/removal.py)
expired rows                                 by the table's own expiry (DynamoDB's TTL); embedded, here
"""

from __future__ import annotations

from odradek.engine.engine import Engine
from odradek.engine.marks import Wake, encode_wake, has_news
from odradek.engine.partition.shared_head import view_of
from odradek.errors import ConditionFailed, FormatError, KafkaError, StoreError
from odradek.ports.table import Compare, Delete, Table
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX, TaskQueue
from odradek.served.definition import Definition, Definitions
from odradek.served.follow import WAKE_PREFIX
from odradek.served.keys import shard_pk
from odradek.served.positions import Positions
from odradek.served.removal import removal_of
from odradek.triggers.dispatcher import partitions_of
from odradek.triggers.triggers import head_ids

_FAILURES = (StoreError, FormatError, KafkaError)
_ROWS_AT_ONCE = 500
_TOLD_MS = 3_600_000  # an older error is of a partition that nobody has tried since


class TableSweep:
    """Looks after served tables.

    Args:
        engine: of the store.
        rows: the table of rows.
        definitions: the tables.
        queue: takes the messages.
        expires: remove expired rows: the store does not do so itself.
    """

    def __init__(
        self, engine: Engine, rows: Table, definitions: Definitions, queue: TaskQueue, *, expires: bool = False
    ) -> None:
        self._engine = engine
        self._rows = rows
        self._definitions = definitions
        self._positions = Positions(rows)
        self._queue = queue
        self._expires = expires

    async def run(self) -> tuple[int, list[str]]:
        """Look once; return how many messages were sent, and what could not be looked at."""
        failures: list[str] = []
        sent = 0
        try:
            tables = await self._definitions.read()
            dropped = await self._definitions.dropped()
        except _FAILURES as error:
            return 0, [f"tables: {type(error).__name__}: {error}"]
        for definition in tables:
            try:
                if definition.table.is_enabled:
                    sent += await self._look(definition, failures)
                if self._expires and definition.table.retention_ms > 0:
                    await self._expire(definition)
            except _FAILURES as error:
                failures.append(f"table {definition.table.name}: {type(error).__name__}: {error}")
        for generation in dropped:
            await self._queue.send([encode_wake(removal_of(generation))])
        return sent + len(dropped), failures

    async def _look(self, definition: Definition, failures: list[str]) -> int:
        table = definition.table
        topic = await self._engine.topics.get(table.topic)
        if topic is None:
            return 0
        positions = await self._positions.read_all(definition.generation)
        # What failed once is tried again; what has failed for longer than a sweep's interval, a person looks at.
        failures += [
            f"table {table.name}: {topic.name}-{position.partition}: {position.error}"
            for position in positions.values()
            if position.error and self._engine.clock.now_ms() - position.error_ms < _TOLD_MS
        ]
        heads = head_ids(topic)
        images = await self._engine.index.read_images(heads, consistent=False)
        now_ms = self._engine.clock.now_ms()
        messages = []
        for head_id in heads:
            image = images[head_id]
            if image is None:
                continue
            partitions = partitions_of(topic, head_id, image)
            partition_positions = [positions.get(partition.partition) for partition in partitions]
            covered = [0 if position is None else position.covered for position in partition_positions]
            if topic.topic_id != definition.topic_id:
                covered = [-1] * len(partitions)
            is_busy = any(position is not None and position.busy_until_ms > now_ms for position in partition_positions)
            ends = [view_of(image, partition).next_offset for partition in partitions]
            if (covered != ends and not is_busy) or has_news(image) or (image.mark is None and not is_busy):
                messages.append(encode_wake(Wake(head_id, WAKE_PREFIX + table.name)))
        for start in range(0, len(messages), MESSAGES_PER_SEND_MAX):
            await self._queue.send(messages[start : start + MESSAGES_PER_SEND_MAX])
        return len(messages)

    async def _expire(self, definition: Definition) -> None:
        """Remove rows that have expired, a stretch of each shard a run."""
        now_s = self._engine.clock.now_ms() // 1000
        for shard in range(definition.table.shards):
            after = ""
            while True:
                rows = await self._rows.query(
                    shard_pk(definition.generation, shard), sk_from=after, limit=_ROWS_AT_ONCE, consistent=False
                )
                for key, item in rows:
                    expires_s = item.get("x", 0)
                    if isinstance(expires_s, int) and 0 < expires_s <= now_s:
                        await _gone(self._rows, Delete(key, Compare(("x",), "<=", now_s)))
                if len(rows) < _ROWS_AT_ONCE:
                    break
                after = rows[-1].key.sk + "\x01"


async def _gone(rows: Table, delete: Delete) -> None:
    """Delete a row that has expired, unless it was written again meanwhile."""
    try:
        await rows.delete(delete)
    except ConditionFailed:
        return
