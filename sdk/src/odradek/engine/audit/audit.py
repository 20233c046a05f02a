"""Audit: checks that the store is complete and contains nothing superfluous. It only reads.

    catalog      topics and topic ids agree
    partitions   head and rows (audit/decisions.py), the bytes behind them (audit/bytes.py), orphan segments
    uploads      those below the sweep's floor are referenced
    deletions    nothing is left of deleted topics

The store may be in use meanwhile: a partition with an apparent error is checked again, and only a persistent error is a
finding. What the next maintenance removes is not an error but `pending`; a strict audit, for a store at rest after
maintenance, reports it as well.

Heads of topics that never became visible cannot be found, since a table is not searched; each is some hundred bytes.
"""

from __future__ import annotations

import asyncio
import re
from uuid import UUID

from odradek.engine.audit.bytes import ByteAudit, Placed
from odradek.engine.audit.decisions import (
    SPILLS_UNDER_WAY,
    AuditReport,
    Finding,
    FindingKind,
    check_partition,
    count_pending,
    live_rows,
)
from odradek.engine.audit.floors import is_ahead
from odradek.engine.catalog.sweep_floor import read_sweep_state
from odradek.engine.engine import Engine
from odradek.engine.maintenance.orphans import find_orphans
from odradek.engine.maintenance.sweep import drop_referenced
from odradek.engine.maintenance.wal_uploads import WalUpload, WalUploads
from odradek.engine.partition.fields import attribute
from odradek.engine.partition.head import PartitionHead
from odradek.errors import FormatError
from odradek.format.item_keys import DELETED_TOPICS_PK, TOPIC_IDS_PK, topic_id_sk
from odradek.format.object_keys import partition_prefix
from odradek.model.log import OFFSET_END
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Key

TOPICS_PREFIX = "topics/"
_LOOKS = 3
_ROWS_PER_QUERY = 256
_OBJECTS_PER_PAGE = 1000


class Audit:
    """Audits one store; see Engine.audit.

    Args:
        engine: of the store to audit.
        bytes_: reads the bytes.
        strict: also report what the next maintenance would remove.
    """

    def __init__(
        self,
        engine: Engine,
        bytes_: ByteAudit,
        *,
        strict: bool = False,
    ) -> None:
        tools = engine.tools
        self._catalog = tools.tables.catalog
        self._index = engine.index
        self._objects = tools.objects
        self._topics = engine.topics
        self._leases = engine.leases
        self._sweep = engine.sweep
        self._uploads = WalUploads(tools.tables.log, tools.objects, tools.clock, tools.rng)
        self._bytes = bytes_
        self._clock = tools.clock
        self._rng = tools.rng
        self._settings = tools.settings
        self._strict = strict

    async def run(self) -> AuditReport:
        """Look at everything. Raises StoreUnavailable, KafkaError: the store cannot be read."""
        report = AuditReport()
        topics = await self._topics.list()
        report.checked["topics"] += len(topics)
        slots = asyncio.Semaphore(self._settings.maintenance_parallelism)

        async def look(topic: Topic, number: int) -> None:
            async with slots:
                report.add(await self._partition(topic, number))

        await self._check_catalog(report)
        await asyncio.gather(*(look(topic, number) for topic in topics for number in range(topic.partition_count)))
        partitions = [PartitionId(topic.topic_id, n) for topic in topics for n in range(topic.partition_count)]
        try:
            await self._check_uploads(report, partitions)
        except FormatError as damaged:
            what = f"which of them are needed cannot be told: {damaged}"
            report.findings.append(Finding(FindingKind.DAMAGED, "uploads", what))
        await self._check_deletions(report)
        report.findings.sort()
        return report

    # --- catalog --------------------------------------------------------------------------------------------------

    async def _check_catalog(self, report: AuditReport) -> None:
        for _ in range(_LOOKS):
            found = await self._disagreements()
            if not found:
                return
        report.findings += found

    async def _disagreements(self) -> list[Finding]:
        names = {str(topic.topic_id): topic.name for topic in await self._topics.list()}
        ids = {row.key.sk: attribute(row.item, "name", str) for row in await self._catalog.query(TOPIC_IDS_PK)}
        return [
            Finding(FindingKind.CATALOG, topic_id, f"is topic {names.get(topic_id)!r}, listed as {ids.get(topic_id)!r}")
            for topic_id in sorted({*names, *ids})
            if names.get(topic_id) != ids.get(topic_id)
        ]

    # --- partitions -----------------------------------------------------------------------------------------------

    async def _partition(self, topic: Topic, number: int) -> AuditReport:
        """Audit one partition, again after an apparent error: only errors found each time are reported."""
        report = await self._look_at_partition(topic, number)
        for _ in range(_LOOKS - 1):
            if not report.findings:
                break
            again = await self._look_at_partition(topic, number)
            again.findings = [finding for finding in again.findings if finding in report.findings]
            report = again
        return report

    async def _look_at_partition(self, topic: Topic, number: int) -> AuditReport:
        report = AuditReport()
        report.checked["partitions"] += 1
        place = f"{topic.name}-{number}"
        partition = PartitionId(topic.topic_id, number)
        try:
            head = await self._index.read_head(partition)
            if head is None:
                if await self._is_there(topic):
                    report.findings.append(Finding(FindingKind.HEAD, place, "the head is missing"))
                return report
            if is_ahead(head.spill_floor_ms, now_ms := self._clock.now_ms()):
                ahead_s = (head.spill_floor_ms - now_ms) // 1000
                detail = f"the spill floor is {ahead_s} s ahead: the clock of an append was wrong"
                report.findings.append(Finding(FindingKind.CLOCK, place, detail))
            await self._check_log(place, partition, head, report)
            await self._check_orphans(place, partition, report)
        except FormatError as damaged:
            report.findings.append(Finding(FindingKind.DAMAGED, place, str(damaged)))
        return report

    async def _is_there(self, topic: Topic) -> bool:
        """Return True if the topic has not been deleted meanwhile."""
        self._topics.forget(topic)
        found = await self._topics.get(topic.name)
        return found is not None and found.topic_id == topic.topic_id

    async def _check_log(self, place: str, partition: PartitionId, head: PartitionHead, report: AuditReport) -> None:
        rows = []
        at = 0
        while page := await self._index.rows_between(partition, at, OFFSET_END, _ROWS_PER_QUERY):
            rows += await self._index.with_entries([(partition, row) for row in page])
            at = page[-1].base_offset + 1
        # A head that moved while its rows were read is looked at again by `_partition`.
        report.findings += [Finding(kind, place, detail) for kind, detail in check_partition(head, rows)]
        for name, count in count_pending(head, rows).items():
            self._note_pending(report, name, count, FindingKind.ROWS, place)
        for row in live_rows(head, rows):
            if row.is_segment:
                await self._bytes.check_segment(place, partition, row, report)
                continue
            offset = row.base_offset
            entries: list[Placed] = []
            for entry in row.entries:
                entries.append((offset, entry))
                offset += entry.offset_count
            await self._bytes.check_entries(place, entries, report)
        live = [each for each in head.entries() if each[0] + each[1].offset_count > head.log_start_offset]
        await self._bytes.check_entries(place, live, report)

    async def _check_orphans(self, place: str, partition: PartitionId, report: AuditReport) -> None:
        start_after = ""
        while page := await self._objects.list(
            partition_prefix(partition), start_after=start_after, limit=_OBJECTS_PER_PAGE
        ):
            start_after = page[-1].key
            orphans = await find_orphans(self._index, partition, page)
            if not orphans:
                continue
            if self._strict or await self._leases.is_clean(partition):
                report.findings += [Finding(FindingKind.ORPHAN, place, each.info.key) for each in orphans]
            else:
                report.pending["orphans"] += len(orphans)

    # --- uploads --------------------------------------------------------------------------------------------------

    async def _check_uploads(self, report: AuditReport, partitions: list[PartitionId]) -> None:
        """Check uploads below a floor that every head has: heads refuse unreferenced ones forever (sweep.py)."""
        state = await read_sweep_state(self._catalog)
        heads = [head for head in await self._index.read_heads(partitions) if head is not None] if partitions else []
        floor = min([state.floor, *(head.sweep_floor for head in heads)])
        chunk: dict[bytes, WalUpload] = {}

        async def finish_chunk() -> None:
            left = set(chunk)
            slots = self._settings.maintenance_parallelism
            await drop_referenced(self._index, partitions, left, slots, self._clock, self._rng)
            if self._strict:
                report.findings += [
                    Finding(FindingKind.UNREFERENCED, chunk[each].place, f"{chunk[each].size_bytes} bytes")
                    for each in sorted(left)
                ]
            else:
                report.pending["uploads_to_sweep"] += len(left)
            chunk.clear()

        async for upload in self._uploads.below(floor, await self._sweep.hours(state, floor)):
            report.checked["uploads"] += 1
            chunk[upload.object_id] = upload
            if len(chunk) >= self._settings.sweep_uploads_max:
                await finish_chunk()
        if chunk:
            await finish_chunk()

    # --- deletions ------------------------------------------------------------------------------------------------

    async def _check_deletions(self, report: AuditReport) -> None:
        for topic_id in await self.leftover_topics():
            report.findings.append(Finding(FindingKind.LEFTOVER, f"{TOPICS_PREFIX}{topic_id}/", "objects are left"))
        for row in await self._catalog.query(DELETED_TOPICS_PK):
            if "e" in row.item and not await self._objects.list(f"{TOPICS_PREFIX}{row.key.sk}/", limit=1):
                continue  # done; the row waits for what may be late
            name = attribute(row.item, "name", str)
            self._note_pending(report, "deletions", 1, FindingKind.LEFTOVER, f"topic {name} ({row.key.sk})")

    async def leftover_topics(self) -> list[UUID]:
        """Ids of topics that have objects, although the catalog knows nothing of them (any more).

        An id that is found is that of a deleted topic: before a topic is visible it has no objects, and its id never
        comes again. So its objects may be deleted.
        """
        found = []
        known: set[UUID] = set()
        start_after = TOPICS_PREFIX
        while page := await self._objects.list(TOPICS_PREFIX, start_after=start_after, limit=1):
            match = re.match(r"topics/([0-9a-f-]{36})/", page[0].key)
            if match is None:
                start_after = page[0].key
                continue
            start_after = f"{TOPICS_PREFIX}{match[1]}0"  # the first name after all that begin with the id and a slash
            topic_id = UUID(match[1])
            if topic_id not in known:
                # Read after the object was seen: a topic that has objects was visible before that.
                known = {topic.topic_id for topic in await self._topics.list()}
            # In this order: a deletion moves the id from the first to the second in one step.
            if topic_id in known or await self._is_listed(TOPIC_IDS_PK, topic_id):
                continue
            if not await self._is_listed(DELETED_TOPICS_PK, topic_id):
                found.append(topic_id)
        return found

    async def _is_listed(self, pk: str, topic_id: UUID) -> bool:
        return await self._catalog.get(Key(pk, topic_id_sk(topic_id))) is not None

    def _note_pending(self, report: AuditReport, name: str, count: int, kind: FindingKind, place: str) -> None:
        if self._strict and name != SPILLS_UNDER_WAY:
            report.findings.append(Finding(kind, place, f"{name.replace('_', ' ')}: {count}"))
        else:
            report.pending[name] += count
