"""Parts of a log, read from its tables themselves: the segments of a partition, the windows of a share group.

No API of Kafka's tells it. Who may read the store directly sees more: the folder of an embedded service, whose process
may run, or the tables of a deployment with one's own AWS credentials. Nothing is written, and no object is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from odradek.errors import ErrorCode, FormatError, KafkaError, StoreError
from odradek.model.topic_partition import PartitionId

if TYPE_CHECKING:
    from odradek.adapters.aws import AwsStore
    from odradek.adapters.embedded import EmbeddedStore
    from odradek.engine.engine import Engine
    from odradek.engine.partition.head import PartitionHead

_ROWS_MAX = 5_000  # of a partition; the newest ones
_NEEDED = ("LogTableName", "GroupsTableName", "CatalogTableName", "BucketName")


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring offsets that are stored together."""

    kind: str  # segment | spilled (uploads that a row lists) | tail (uploads that the head lists)
    base_offset: int
    end_offset: int  # exclusive
    size_bytes: int
    uploads: int  # objects or items that hold it; 1 for a segment
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class SegmentMap:
    """How a partition is stored, the oldest piece first."""

    log_start_offset: int
    next_offset: int
    merged_offset: int  # up to here segments; from here on uploads
    appended_bytes: int  # since the beginning
    pieces: tuple[Piece, ...]
    is_cut: bool  # True: older pieces exist that are not listed

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.pieces)

    def count(self, kind: str) -> int:
        """Return the number of pieces of a kind."""
        return sum(each.kind == kind for each in self.pieces)


@dataclass(frozen=True, slots=True)
class InFlight:
    """Neighbouring records of a share group that are not done."""

    partition: str
    first_offset: int
    end_offset: int  # exclusive
    state: str  # acquired | available | dead letter
    deliveries: int
    member: str | None  # that holds them
    lock_until_ms: int | None


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A topic's tables: its Iceberg table, and the segments that could not become Parquet files."""

    topic: str
    iceberg: str  # its name in the catalog; "": none
    behind_why: str  # "": the Iceberg table has all files
    behind_since_ms: int
    refused: int  # segments, so far
    refused_why: str  # of the last one
    refused_ms: int
    untyped: int = 0  # files without the typed columns of a schema, so far
    untyped_why: str = ""  # of the last one
    untyped_ms: int = 0


class StoreView:
    """A store, opened to be read. An asynchronous context manager.

    Raises:
        KafkaError: BROKER_NOT_AVAILABLE: it cannot be read, in words that say why.
    """

    def __init__(self, store: EmbeddedStore | AwsStore) -> None:
        self._store = store
        self._engine: Engine | None = None

    @property
    def _log(self) -> Engine:
        if self._engine is None:
            from odradek.engine.engine import Engine
            from odradek.system import SystemClock, SystemRng

            self._engine = Engine(tables=self._store, objects=self._store.objects, clock=SystemClock(), rng=SystemRng())
        return self._engine

    async def segments(self, topic: str, partition: int) -> SegmentMap:
        """Return how a partition is stored. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""
        from odradek.engine.audit.decisions import live_rows

        try:
            found = await self._log.topics.get(topic)
            head = None
            if found is not None and 0 <= partition < found.partition_count:
                here = PartitionId(found.topic_id, partition)
                head = await self._log.index.read_head(here)
            if head is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}")
            rows = list(reversed(await self._log.index.newest_rows(here, _ROWS_MAX)))
            rows = await self._log.index.with_entries([(here, row) for row in rows])
        except (StoreError, FormatError) as error:
            raise _unreadable(error) from error
        pieces = [
            Piece(
                "segment" if row.is_segment else "spilled",
                row.base_offset,
                row.end_offset,
                row.size_bytes,
                1 if row.is_segment else len(row.entries),
                row.max_timestamp_ms,
            )
            for row in live_rows(head, rows)
        ]
        pieces += _tail(head)
        return SegmentMap(
            head.log_start_offset,
            head.next_offset,
            head.merged_offset,
            head.appended_bytes,
            tuple(pieces),
            len(rows) == _ROWS_MAX,
        )

    async def in_flight(self, group_id: str) -> list[InFlight]:
        """Return the records of a share group's windows that are not done, by partition and offset."""
        from odradek.engine.share.items import decode_share, share_partition
        from odradek.engine.share.window import RecordState
        from odradek.format.item_keys import SHARE_PARTITION_END, SHARE_PARTITION_PREFIX, group_pk

        names = {
            RecordState.ACQUIRED: "acquired",
            RecordState.AVAILABLE: "available",
            RecordState.DYING: "dead letter",
            RecordState.LOT: "dead letter",
        }
        found = []
        try:
            rows = await self._store.groups.query(
                group_pk(group_id), sk_from=SHARE_PARTITION_PREFIX, sk_to=SHARE_PARTITION_END
            )
            for row in rows:
                place = share_partition(row.key.sk)
                topic = await self._log.topics.get_by_id(place.topic_id)
                if topic is None:
                    continue
                found += [
                    InFlight(
                        f"{topic.name}-{place.partition}",
                        run.start,
                        run.end,
                        names[run.state],
                        run.delivery_count,
                        run.member_id or None,
                        run.lock_until_ms or None,
                    )
                    for run in decode_share(row.item).state.runs
                    if run.state in names
                ]
        except (StoreError, FormatError) as error:
            raise _unreadable(error) from error
        return sorted(found, key=lambda each: (each.partition, each.first_offset))

    async def tables(self) -> list[TableStatus]:
        """Return the state of each topic that is a table and has had something to say."""
        from odradek.engine.iceberg.state import TableStates

        found = []
        try:
            for state in await TableStates(self._store.catalog).all():
                topic = await self._log.topics.get_by_id(state.topic_id)
                found.append(
                    TableStatus(
                        str(state.topic_id) if topic is None else topic.name,
                        "" if state.name is None else str(state.name),
                        state.behind_why or "",
                        state.behind_since_ms,
                        state.refused,
                        state.refused_why,
                        state.refused_ms,
                        state.untyped,
                        state.untyped_why,
                        state.untyped_ms,
                    )
                )
        except (StoreError, FormatError) as error:
            raise _unreadable(error) from error
        return sorted(found, key=lambda each: each.topic)

    async def close(self) -> None:
        """Release the store."""
        await self._store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _tail(head: PartitionHead) -> list[Piece]:
    """Return the uploads of the tail, one piece each."""
    from odradek.format.tail_entry import decode_tail_entry

    pieces, at = [], head.tail_base_offset
    for encoded in head.tail:
        entry = decode_tail_entry(encoded)
        pieces.append(Piece("tail", at, at + entry.offset_count, entry.length, 1, entry.max_timestamp_ms))
        at += entry.offset_count
    return pieces


def _unreadable(error: Exception) -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"the store cannot be read: {error}")


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The place of a store: a folder, or the tables of a deployment.

    Attributes:
        data_dir: folder of an embedded service; "" on AWS.
        outputs: of the deployment's stacks (`odradek configure`).
    """

    data_dir: str = ""
    outputs: Mapping[str, str] | None = None
    region: str = ""

    @property
    def alarm_prefix(self) -> str:
        """How the names of the deployment's alarms begin, "" if it has none."""
        name = (self.outputs or {}).get("MaintenanceFunctionName", "")
        return name.removesuffix("maintenance") if name.endswith("-maintenance") else ""

    @classmethod
    def of_folder(cls, folder: Path) -> StorePlace | None:
        """Return the store of a folder, None if there is none."""
        from odradek.adapters.embedded.store import DATABASE_NAME

        return cls(str(folder)) if (folder / DATABASE_NAME).exists() else None

    @classmethod
    def of_deployment(cls, outputs: Mapping[str, str], region: str) -> StorePlace | None:
        """Return the store of a deployment, None if the outputs do not name its tables."""
        return cls("", dict(outputs), region) if all(outputs.get(name) for name in _NEEDED) else None

    def options(self) -> dict[str, str]:
        """Return the store as options of Spark's source, which `odradek query` takes, too."""
        if self.outputs is None:
            return {"store": f"embedded:{self.data_dir}"}
        log, _, catalog, bucket = (self.outputs[name] for name in _NEEDED)
        return {"store": "aws", "logTable": log, "catalogTable": catalog, "bucket": bucket, "region": self.region}

    def open(self) -> StoreView:
        """Open the store to read it. Raises KafkaError(BROKER_NOT_AVAILABLE)."""
        try:
            if self.outputs is None:
                from odradek.adapters.embedded import open_embedded

                return StoreView(open_embedded(self.data_dir, read_only=True))
            from odradek.adapters.aws import open_aws

            log, groups, catalog, bucket = (self.outputs[name] for name in _NEEDED)
            return StoreView(
                open_aws(
                    region=self.region or None,
                    log_table=log,
                    groups_table=groups,
                    catalog_table=catalog,
                    bucket=bucket,
                )
            )
        except StoreError as error:
            raise _unreadable(error) from error
