"""Mutants of the log: append, the partition's index, leadership, reads, transactions, the gateway."""

from __future__ import annotations

from tests.mutants.mutation import Mutant

_DECISIONS = "engine/append/decisions.py"
_APPEND = "engine/append/conditional_append.py"
_SEARCH = "engine/append/row_search.py"
_INDEX = "engine/partition/index.py"
_SPILL = "engine/partition/spill.py"
_SPILLED = "engine/partition/spill_decisions.py"
_CLAIMS = "engine/partition/claims.py"
_HEAD = "engine/partition/head.py"
_EPOCHS = "engine/partition/leader_epochs.py"
_READER = "engine/read/log_reader.py"
_FETCH = "engine/read/fetch.py"
_COMMIT = "engine/transactions/commit.py"
_TRANSACTION = "engine/transactions/decisions.py"
_STORE = "engine/transactions/store.py"

MUTANTS = [
    # --- append: decisions
    Mutant(
        "refused append is not looked for in the tail",
        _DECISIONS,
        "    if found is not None:\n        return Applied(found)\n",
        "",
    ),
    Mutant(
        "spill floor equal to the commit time is no refusal",
        _DECISIONS,
        "if head.spill_floor_ms >= first.commit_ms:",
        "if head.spill_floor_ms > first.commit_ms:",
    ),
    Mutant(
        "refused append does not look whether the sweep passed",
        _DECISIONS,
        "if head.sweep_floor > first.object_id:",
        "if False:",
    ),
    Mutant(
        "older producer epoch is taken",
        _DECISIONS,
        "if first.producer_epoch < state.epoch:",
        "if first.producer_epoch < state.epoch - 1:",
    ),
    Mutant(
        "new epoch may begin anywhere",
        _DECISIONS,
        "    if first.producer_epoch > state.epoch:\n        if first.base_sequence != 0:",
        "    if first.producer_epoch > state.epoch:\n        if False:",
    ),
    Mutant(
        "duplicate is told by its sequence alone",
        _DECISIONS,
        "                first.base_sequence,\n                first.offset_count,",
        "                first.base_sequence,\n                batch.record_count,",
    ),
    Mutant(
        "evicted producer is taken for unknown",
        _DECISIONS,
        "    if state is None and head.evictions:\n        if known",
        "    if False:\n        if known",
    ),
    Mutant(
        "evictions that were seen are not compared with the head's",
        _DECISIONS,
        "if known.evictions != head.evictions or producer_id not in known.rows:",
        "if producer_id not in known.rows:",
    ),
    Mutant(
        "returning producer does not check that nobody was evicted",
        _DECISIONS,
        'absent = all_of(Absent(("p", str(producer_id))), Compare(("pv",), "=", head.evictions))',
        'absent = all_of(Absent(("p", str(producer_id))))',
    ),
    Mutant(
        "first batch does not check that nobody was evicted",
        _DECISIONS,
        'all_of(Absent(path), Compare(("pv",), "=", 0)),',
        "all_of(Absent(path)),",
    ),
    Mutant(
        "follower compares the epoch no more",
        _DECISIONS,
        'all_of(Compare((*path, "e"), "=", first.producer_epoch), Compare((*path, "s"), "=", first.base_sequence)),',
        'all_of(Compare((*path, "s"), "=", first.base_sequence)),',
    ),
    Mutant(
        "returning producer forgets its last batches",
        _DECISIONS,
        "kept = recent if first.producer_epoch == state.epoch else ()",
        "kept = ()",
    ),
    # --- append: the procedure
    Mutant(
        "unknown outcome is forgotten",
        _APPEND,
        "            self._maybe_applied = True\n",
        "            pass\n",
    ),
    Mutant(
        "search in rows ends at the first row",
        _SEARCH,
        "if row.spill_floor_ms < entry.commit_ms:",
        "if True:",
    ),
    Mutant(
        "search in rows passes over the oldest candidates",
        _SEARCH,
        "if row.spill_floor_ms < entry.commit_ms:",
        "if row.spill_floor_ms <= entry.commit_ms:",
    ),
    Mutant(
        "segment in the search is taken for a proof",
        _SEARCH,
        "            return Search.UNKNOWABLE\n        offset = row",
        "            return Search.ABSENT\n        offset = row",
    ),
    Mutant(
        "search believes ghosts",
        _SEARCH,
        "        if is_ghost(row, head.merged_offset):\n            continue\n",
        "",
    ),
    Mutant(
        "search passes over gaps between rows",
        _SEARCH,
        "if row.end_offset < head.tail_base_offset if end is None else row.end_offset != end:",
        "if False:",
    ),
    Mutant(
        "search does not ask whether the floor was lowered",
        _APPEND,
        "is_lowered = head is None or head.spill_floor_ms < floor_ms",
        "is_lowered = head is None",
    ),
    Mutant(
        "plain append that cannot be known is tried again",
        _APPEND,
        "            if any(entry.producer_id < 0 for entry in self._entries):\n"
        "                return MAYBE_APPENDED\n",
        "            pass\n",
    ),
    Mutant(
        "entry uploaded again keeps its old position",
        _APPEND,
        "                position=entry.position - start,",
        "                position=entry.position,",
    ),
    Mutant(
        "attempt that may be applied ends as not appended",
        _APPEND,
        "return MAYBE_APPENDED if self._maybe_applied else NOT_APPENDED",
        "return NOT_APPENDED",
    ),
    Mutant(
        "former leader's unknown attempt ends as refused",
        _APPEND,
        "if self._maybe_applied and self._tools.leaders.claim(self._partition) is FLEET_CLAIM:",
        "if False:",
    ),
    Mutant(
        "offset of an append is that after it",
        _APPEND,
        "return Appended(head.next_offset - count, head, self._entries[0].commit_ms)",
        "return Appended(head.next_offset, head, self._entries[0].commit_ms)",
    ),
    Mutant(
        "commit time ignores the floors that were met",
        _APPEND,
        "return max(self._clock.now_ms(), self._floors_ms.get(partition, -1) + 1)",
        "return self._clock.now_ms()",
    ),
    Mutant(
        "batches of a request lie at the same place",
        "engine/append/upload.py",
        "                position += len(upload.bytes_)\n",
        "",
    ),
    Mutant(
        "partition of a request goes by the one before",
        "engine/append/append.py",
        "            start = group[0].position - placed[0].position",
        "            start = 0",
    ),
    # --- the partition's index
    Mutant(
        "append does not compare the sweep floor of equal ids",
        _INDEX,
        'Compare(("wf",), "<=", min(entry.object_id for entry in entries)),',
        'Compare(("wf",), "<=", max(entry.object_id for entry in entries) + bytes(1)),',
        equivalent="all entries of one append share one object, and an id with a byte more sorts right after it",
    ),
    Mutant(
        "append at the spill floor is taken",
        _INDEX,
        'Compare(("sf",), "<", entries[0].commit_ms),',
        'Compare(("sf",), "<=", entries[0].commit_ms),',
    ),
    Mutant(
        "late sweep floor lowers a higher one",
        _INDEX,
        'condition = all_of(is_version(VERSION), Compare(("wf",), "<", floor))',
        "condition = all_of(is_version(VERSION))",
    ),
    Mutant(
        "new head has no sweep floor",
        _INDEX,
        "head = PartitionHead(sweep_floor=sweep_floor)",
        "head = PartitionHead()",
    ),
    # --- spill
    Mutant(
        "spill does not compare the tail's base",
        _SPILLED,
        'conditions: list[Condition] = [is_version(VERSION), Compare(("tb",), "=", head.tail_base_offset)]',
        "conditions: list[Condition] = [is_version(VERSION)]",
    ),
    Mutant(
        "spill goes by its own row where another's is there",
        _SPILL,
        "return None if refused.current is None else decode_index_row(row.base_offset, refused.current)",
        "return None if refused.current is None else row",
    ),
    Mutant(
        "spill trusts a row longer than its tail",
        _SPILL,
        "if row is None or row.is_segment or len(row.entries) > len(head.tail):",
        "if row is None or row.is_segment:",
    ),
    Mutant(
        "spill trusts a segment in its row's place",
        _SPILL,
        "if row is None or row.is_segment or len(row.entries) > len(head.tail):",
        "if row is None or len(row.entries) > len(head.tail):",
    ),
    Mutant(
        "spill floor of a row is its own entries' alone",
        _SPILLED,
        "spill_floor_ms=max(head.spill_floor_ms, *(entry.commit_ms for entry in entries)),",
        "spill_floor_ms=max(entry.commit_ms for entry in entries),",
    ),
    Mutant(
        "spilled row's end forgets its last entry",
        _SPILLED,
        "end_offset=head.tail_base_offset + sum(entry.offset_count for entry in entries),",
        "end_offset=head.tail_base_offset + sum(entry.offset_count for entry in entries[:-1]),",
    ),
    Mutant(
        "eviction compares no sequence",
        _SPILLED,
        '        conditions.append(Compare((*path, "s"), "=", state.next_sequence))\n',
        "",
    ),
    Mutant(
        "evictions are not counted",
        _SPILLED,
        '        actions.append(Add(("pv",), len(evicted)))\n',
        "        pass\n",
    ),
    Mutant(
        "older eviction overwrites a newer producer row",
        _SPILL,
        'condition = AnyOf((Absent(("v",)), all_of(is_version(VERSION), Compare(("o",), "<=", newest))))',
        'condition = AnyOf((Absent(("v",)), is_version(VERSION)))',
    ),
    Mutant(
        "head forgets the last batches that leave the tail",
        _SPILLED,
        "    if row is not None and not later:\n        kept = _unsettled",
        "    if False:\n        kept = _unsettled",
    ),
    Mutant(
        "producer with entries in the tail is evicted",
        _SPILLED,
        "if last < end_offset or producer_id not in newest:",
        "if True:",
    ),
    Mutant(
        "producer whose row failed is evicted",
        _SPILL,
        "            except StoreError:\n                return False\n\n        written",
        "            except StoreError:\n                return True\n\n        written",
    ),
    Mutant(
        "entries leave before all producers are settled",
        _SPILLED,
        "is_last = not later and len(kept) <= room and",
        "is_last = len(kept) <= room and",
    ),
    Mutant(
        "producers that wrote meanwhile are evicted",
        _SPILLED,
        '        conditions.append(Compare((*path, "e"), "=", state.epoch))\n',
        "",
    ),
    Mutant(
        "ghosts end where the merged offset is",
        _INDEX,
        "return not row.is_segment and row.base_offset < merged_offset",
        "return not row.is_segment and row.end_offset < merged_offset",
    ),
    Mutant(
        "ghosts are believed",
        _INDEX,
        "return not row.is_segment and row.base_offset < merged_offset",
        "return False",
    ),
    Mutant(
        "rows that overlap are kept",
        _INDEX,
        "if not kept or row.base_offset >= kept[-1].end_offset:",
        "if True:",
    ),
    Mutant(
        "swap does not compare the rows that it replaces",
        _INDEX,
        'condition = Absent(("v",)) if there is None else _is_row(there)',
        'condition = Absent(("v",)) if there is None else is_version(VERSION)',
        equivalent="the lease's epoch in the same transaction lets nobody else change the rows",
    ),
    Mutant(
        "swap does not raise the merged offset",
        _INDEX,
        "    if merged_offset is not None:\n        raise_it",
        "    if False:\n        raise_it",
    ),
    Mutant(
        "log start passes the high watermark",
        _INDEX,
        'Compare(("ls",), "<", offset), Compare(("no",), ">=", offset))',
        'Compare(("ls",), "<", offset))',
        equivalent="callers ask for offsets that a head showed as its next one or less, and that only rises",
    ),
    Mutant(
        "log start goes back",
        _INDEX,
        'Compare(("ls",), "<", offset), Compare(("no",), ">=", offset))',
        'Compare(("no",), ">=", offset))',
    ),
    # --- leadership
    Mutant(
        "claim holds under any epoch",
        _CLAIMS,
        'return leader if self.leader_epoch is None else all_of(leader, Compare(("le",), "=", self.leader_epoch))',
        "return leader",
    ),
    Mutant(
        "living gateway's partition is taken",
        _CLAIMS,
        "    if leader_is_gone is None:\n        return",
        "    if leader_is_gone is None:\n        return Take() or",
        equivalent="who may try is no question of safety: the epoch fences whoever lost it; it costs takings",
    ),
    Mutant(
        "epoch is taken whatever the head's epoch is",
        _CLAIMS,
        'Compare(("li",), "=", leader_id), Compare(("le",), "=", leader_epoch))',
        'Compare(("li",), "=", leader_id))',
    ),
    Mutant(
        "epoch begins where the one before began",
        _CLAIMS,
        '        Copy(("es",), ("no",)),\n',
        "",
    ),
    Mutant(
        "ended epoch is not written down",
        "engine/leaders/leaders.py",
        "        await self._epochs.keep(partition, EpochStart(head.leader_epoch, head.epoch_start))\n"
        "        condition",
        "        condition",
    ),
    Mutant(
        "claim is kept where the taking's answer was lost",
        "engine/leaders/leaders.py",
        "        except OutcomeUnknown:\n            return None\n        taken = decode_head(item or {})",
        "        except OutcomeUnknown:\n"
        "            self._claims[partition] = Claim(self.broker_id, head.leader_epoch + 1, 0)\n"
        "            return None\n        taken = decode_head(item or {})",
    ),
    Mutant(
        "epoch of an offset is that before it",
        _EPOCHS,
        "found = bisect_right(self.starts, offset, key=lambda start: start.offset) - 1",
        "found = bisect_right(self.starts, offset - 1, key=lambda start: start.offset) - 1",
    ),
    Mutant(
        "epochs without records count",
        _EPOCHS,
        "        if kept and kept[-1].offset == offset:\n            kept.pop()\n",
        "",
    ),
    # --- reads
    Mutant(
        "fetch reads the tail from its beginning",
        _READER,
        "            # A row may reach into a tail that was read before the row was made.\n"
        "            if base_offset + entry.offset_count <= offset or base_offset >= end_offset:",
        "            if base_offset + entry.offset_count <= start_offset or base_offset >= end_offset:",
    ),
    Mutant(
        "row that begins after the offset is read",
        _READER,
        "if row is None or row.base_offset > offset:",
        "if row is None:",
    ),
    Mutant(
        "rows that a merge replaced stay cached",
        _READER,
        "            for base in self.bases[first:stop]:\n                del self.rows[base]\n",
        "            stop = first\n",
    ),
    Mutant(
        "missing object is not forgotten",
        _FETCH,
        "            except ObjectMissing:\n                self._reader.forget(want.partition)\n                error",
        "            except ObjectMissing:\n                error",
    ),
    Mutant(
        "joined ranges are cut at the wrong place",
        _READER,
        "                at = pieces[i].position - start",
        "                at = 0",
    ),
    Mutant(
        "offset below the log start is read",
        _FETCH,
        "if not head.log_start_offset <= want.offset <= head.next_offset:",
        "if not 0 <= want.offset <= head.next_offset:",
    ),
    Mutant(
        "epoch of records before the leader's is the leader's",
        _FETCH,
        "is_older = any(not p.is_segment and p.base_offset < head.epoch_start for p in pieces)",
        "is_older = False",
    ),
    Mutant(
        "topic's deletion is not noticed by fetch",
        _FETCH,
        "                self._topics.forget(want.topic)\n                gone",
        "                gone",
    ),
    Mutant(
        "DeleteRecords repeats to a newer high watermark",
        "engine/read/delete_records.py",
        "                offset = head.next_offset if offset == HIGH_WATERMARK else offset\n"
        "                return await self._delete(request, partition, head, offset)",
        "                at = head.next_offset if offset == HIGH_WATERMARK else offset\n"
        "                return await self._delete(request, partition, head, at)",
    ),
    # --- transactions
    Mutant(
        "commit takes batches from below the sweep floor",
        _COMMIT,
        "if head.sweep_floor > oldest:",
        "if False:",
    ),
    Mutant(
        "commit goes by its own time alone",
        _COMMIT,
        "commit_ms = max(self._clock.now_ms(), head.spill_floor_ms + 1)",
        "commit_ms = self._clock.now_ms()",
    ),
    Mutant(
        "commit under another leader is taken",
        _COMMIT,
        "            claim=Claim(head.leader_id, head.leader_epoch),\n",
        "            claim=Claim(head.leader_id, None),\n",
    ),
    Mutant(
        "classic member's offsets need no fence",
        _COMMIT,
        '            fences.append(TableOperation("groups", fence(group_id, member_id, generation)))\n',
        "            pass\n",
    ),
    Mutant(
        "refused offset does not fail the commit",
        _COMMIT,
        "            if isinstance(refusal, ErrorCode):\n                return Failed(",
        "            if isinstance(refusal, ErrorCode) and False:\n                return Failed(",
    ),
    Mutant(
        "commit under an older producer epoch follows",
        _TRANSACTION,
        "if state is not None and state.epoch > epoch:",
        "if False:",
    ),
    Mutant(
        "gap in a transaction's batches is taken",
        _TRANSACTION,
        "        if entry.base_sequence != next_expected:",
        "        if False:",
    ),
    Mutant(
        "transaction's batches are not compared with the log",
        _TRANSACTION,
        "new = [entry for entry in entries if not _lies_behind(entry.base_sequence, next_expected)]",
        "new = list(entries)",
    ),
    Mutant(
        "open transaction goes on under the old number",
        _TRANSACTION,
        "number=row.number + 1, start_ms=now_ms)",
        "number=row.number, start_ms=now_ms)",
    ),
    Mutant(
        "aborted sequences are not kept",
        _TRANSACTION,
        "            kept[partition] = _after(entries[-1])\n",
        "            pass\n",
    ),
    Mutant(
        "transaction that timed out may end",
        _TRANSACTION,
        "return TimedOut() if row.has_timed_out(now_ms) else End()",
        "return End()",
    ),
    Mutant(
        "transactional id's row is written whatever its version",
        _STORE,
        'condition: Condition = Absent(("v",)) if before is None else Compare(("n",), "=", before.version)',
        'condition: Condition = Absent(("v",)) if before is None else Compare(("n",), ">=", 0)',
    ),
    Mutant(
        "pending batches overwrite others",
        _STORE,
        'encode_batches(pending), Absent(("v",)))',
        "encode_batches(pending))",
    ),
    Mutant(
        "pending offset overwrites a later one",
        _STORE,
        'condition = AnyOf((Absent(("v",)), Compare(("c",), "<", pending.stamp_ms)))',
        'condition = AnyOf((Absent(("v",)), Compare(("v",), ">=", 0)))',
    ),
    Mutant(
        "open transaction's items are deleted as ended ones",
        _STORE,
        "return row.number - 1 if row.is_ongoing else row.number",
        "return row.number",
    ),
]
