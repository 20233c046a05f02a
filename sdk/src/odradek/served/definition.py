"""Definitions of served tables: their limits, their items in the catalog, and what is there of them now.

catalog    served-tables     <name>          {v: 1, n: version, d: document, g: generation, t: topic id, p: partitions}
catalog    dropped-tables    <generation>    {v: 1, d: name, s: shards, t: dropped ms}

A *generation* is one copy of the rows. A table whose topic was deleted and recreated, or lost records that the table
had read (a restore), begins again under a new generation; the rows of the old one are removed by the sweep.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from uuid import UUID

from odradek.engine.engine import Engine
from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import ConditionFailed, ErrorCode, FormatError, KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.format.item_keys import DROPPED_TABLES_PK, SERVED_TABLES_PK
from odradek.model.table import FOREVER, Format, ServedTable, WindowType, plain, table_of
from odradek.model.topic import Topic
from odradek.ports.table import Absent, Compare, Condition, Delete, Item, Key, Put

VERSION = 1
SHARDS_MAX = 64
_SHARDS_DEFAULT_MAX = 32
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ATTEMPTS = 6


@dataclass(frozen=True, slots=True)
class Definition:
    """A served table as it is stored.

    Attributes:
        topic_id: of the topic that its rows are of.
        partitions: that the topic had when the generation began; more mean that keys may have moved.
        version: of the item; 0: not stored yet.
    """

    table: ServedTable
    generation: str
    topic_id: UUID
    partitions: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
    """Rows to be removed, unless they are those of the table of that name."""

    generation: str
    name: str
    shards: int
    dropped_ms: int


def check_table(table: ServedTable) -> None:
    """Raises KafkaError(INVALID_REQUEST) that names the option and its range."""
    if not _NAME.fullmatch(table.name) or table.name in (".", "..", "tables"):
        raise _invalid(f"invalid table name {table.name!r}: use 1 to 100 letters, digits, and ._-, and not 'tables'")
    for name, kinds in (("key_format", Format), ("value_format", Format), ("window", WindowType)):
        value = getattr(table, name)
        if value not in set(kinds) and (value or name != "window"):
            raise _invalid(f"{name} must be one of {', '.join(kinds)}, not {value!r}")
    has_size = table.window in (WindowType.TUMBLING, WindowType.HOPPING)
    if has_size != (table.window_size_ms > 0) or table.window_size_ms < 0:
        raise _invalid("window_size_ms belongs to TUMBLING and HOPPING windows, and must be above 0")
    if table.retention_ms < 1 and table.retention_ms != FOREVER:
        raise _invalid(f"retention_ms must be above 0, or {FOREVER} without limit, not {table.retention_ms}")
    if not 0 <= table.shards <= SHARDS_MAX:
        raise _invalid(f"shards must be 1 to {SHARDS_MAX}, or 0 for as many as the topic has partitions")


def whole(table: ServedTable, topic: Topic, now_ms: int) -> ServedTable:
    """A new table with what follows from its topic. Raises KafkaError(INVALID_REQUEST): the topic is not compacted."""
    policy = topic.configs.get("cleanup.policy", "delete")
    if "compact" not in policy:
        raise _invalid(
            f"topic {topic.name!r} is not compacted, so it is no table: set cleanup.policy=compact on it "
            f"(odradek topics alter {topic.name} --config cleanup.policy=compact)"
        )
    retention_ms = table.retention_ms
    if retention_ms == FOREVER and "delete" in policy:
        retention_ms = max(FOREVER, int(topic.configs.get("retention.ms", FOREVER)))
    shards = table.shards or min(topic.partition_count, _SHARDS_DEFAULT_MAX)
    return replace(table, retention_ms=retention_ms or FOREVER, shards=shards, created_ms=now_ms)


def table_key(name: str) -> Key:
    """The key of a definition."""
    return Key(SERVED_TABLES_PK, name)


def encode_definition(definition: Definition, version: int) -> Item:
    """The definition's item, without its key."""
    return {
        "v": VERSION,
        "n": version,
        "d": json.dumps(plain(definition.table), separators=(",", ":")),
        "g": definition.generation,
        "t": str(definition.topic_id),
        "p": definition.partitions,
    }


def decode_definition(item: Item) -> Definition:
    """Raises FormatError."""
    check_version(item, VERSION, "a served table")
    try:
        table = table_of(json.loads(attribute(item, "d", str)))
        topic_id = UUID(attribute(item, "t", str))
    except (ValueError, KafkaError) as error:
        raise FormatError(f"a damaged served table: {error}") from None
    return Definition(table, attribute(item, "g", str), topic_id, attribute(item, "p", int), attribute(item, "n", int))


class Definitions:
    """The definitions of a store, and a copy that is `catalog_cache_ms` old at most."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._catalog = engine.catalog
        self._clock = engine.clock
        self._cache_s = engine.settings.catalog_cache_ms / 1000
        self._known: dict[str, tuple[float, Definition | None]] = {}
        self._all: tuple[float, list[Definition]] | None = None

    async def read(self) -> list[Definition]:
        """All definitions, by name. Raises StoreUnavailable, FormatError."""
        return [decode_definition(row.item) for row in await self._catalog.query(SERVED_TABLES_PK)]

    async def current(self, *, including: str | None = None) -> list[Definition]:
        """Like `read`, from the copy, unless that has no table of the name."""
        if self._all is None or self._clock.monotonic() >= self._all[0] or not self._has(including):
            self._all = (self._clock.monotonic() + self._cache_s, await self.read())
        return self._all[1]

    def _has(self, name: str | None) -> bool:
        definitions = [] if self._all is None else self._all[1]
        return name is None or any(definition.table.name == name for definition in definitions)

    async def get(self, name: str, *, fresh: bool = False) -> Definition | None:
        """One definition. Raises StoreUnavailable, FormatError."""
        if not _NAME.fullmatch(name):
            return None
        kept = self._known.get(name)
        if not fresh and kept is not None and self._clock.monotonic() < kept[0]:
            return kept[1]
        item = await self._catalog.get(table_key(name))
        definition = None if item is None else decode_definition(item)
        self._known[name] = (self._clock.monotonic() + self._cache_s, definition)
        return definition

    def forget(self, name: str) -> None:
        """Read it again at the next use."""
        self._known.pop(name, None)
        self._all = None

    async def put(self, definition: Definition) -> bool:
        """Write over the version that was read (0: there is none); return False if it has changed."""
        version = definition.version
        condition: Condition = Absent(("v",)) if version == 0 else Compare(("n",), "=", version)
        item = encode_definition(definition, version + 1)
        for _ in range(_ATTEMPTS):
            try:
                await self._catalog.put(Put(table_key(definition.table.name), item, condition))
                return True
            except ConditionFailed as refused:
                return refused.current == item  # by an attempt whose answer was lost
            except OutcomeUnknown:
                continue
            finally:
                self.forget(definition.table.name)
        raise StoreUnavailable("the catalog does not answer")

    async def delete(self, definition: Definition) -> None:
        """Remove a definition of this generation; its rows are dropped. Raises StoreError."""
        await self.drop_rows(definition)
        try:
            await self._catalog.delete(
                Delete(table_key(definition.table.name), Compare(("g",), "=", definition.generation))
            )
        except ConditionFailed:
            pass  # removed, or renewed, by another
        self.forget(definition.table.name)

    async def renew(self, definition: Definition, topic: Topic) -> Definition:
        """Begin a new generation of rows, unless another process did; return what is there now.

        Raises StoreError; KafkaError(RESOURCE_NOT_FOUND): it was dropped meanwhile.
        """
        now = await self.get(definition.table.name, fresh=True)
        if now is not None and now.generation == definition.generation:
            renewed = replace(
                now, generation=self.new_generation(), topic_id=topic.topic_id, partitions=topic.partition_count
            )
            await self.drop_rows(now)
            await self.put(renewed)
            now = await self.get(definition.table.name, fresh=True)
        if now is None:
            raise not_found(definition.table.name)
        return now

    def new_generation(self) -> str:
        """The name of a copy of rows; short: it is a part of every row's key."""
        return self._engine.rng.random_bytes(6).hex()

    # --- what was dropped -----------------------------------------------------------------------------------------

    async def drop_rows(self, definition: Definition) -> None:
        """Have the rows of a generation removed, by the sweep. Raises StoreError."""
        table = definition.table
        item: Item = {"v": VERSION, "d": table.name, "s": table.shards, "t": self._clock.now_ms()}
        await self._catalog.put(Put(Key(DROPPED_TABLES_PK, definition.generation), item))

    async def dropped(self) -> list[Dropped]:
        """The generations whose rows are to be removed. Raises StoreUnavailable, FormatError."""
        return [_dropped(row.key.sk, row.item) for row in await self._catalog.query(DROPPED_TABLES_PK)]

    async def dropped_generation(self, generation: str) -> Dropped | None:
        """One of them; None: its rows are removed. Raises StoreUnavailable, FormatError."""
        item = await self._catalog.get(Key(DROPPED_TABLES_PK, generation))
        return None if item is None else _dropped(generation, item)

    async def removed(self, dropped: Dropped) -> None:
        """Note that the rows of a generation are deleted. Raises StoreError."""
        await self._catalog.delete(Delete(Key(DROPPED_TABLES_PK, dropped.generation)))


def _dropped(generation: str, item: Item) -> Dropped:
    check_version(item, VERSION, "a dropped table")
    return Dropped(generation, attribute(item, "d", str), attribute(item, "s", int), attribute(item, "t", int))


def not_found(name: str) -> KafkaError:
    """The error of a name that no table has."""
    return KafkaError(
        ErrorCode.RESOURCE_NOT_FOUND, f"there is no served table {name!r}: see them with `odradek tables list`"
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
