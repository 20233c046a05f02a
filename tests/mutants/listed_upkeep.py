"""Mutants of maintenance: lease, sweep, orphans, retention, merge, compaction, expiry."""

from __future__ import annotations

from tests.mutants.mutation import Mutant

_LEASE = "engine/partition/maintenance_lease.py"
_SWEEP = "engine/maintenance/sweep.py"
_RETENTION = "engine/maintenance/retention.py"
_ORPHANS = "engine/maintenance/orphans.py"
_MERGE = "engine/maintenance/merge.py"
_WINDOW = "engine/maintenance/merge_decisions.py"
_COMPACTOR = "engine/compaction/compactor.py"
_CLEANING = "engine/compaction/decisions.py"
_BATCH = "engine/compaction/batch.py"
_EXPIRY = "engine/maintenance/producer_expiry.py"

MUTANTS = [
    # --- the lease
    Mutant(
        "lease is checked by its holder alone",
        _LEASE,
        'return all_of(Compare(("e",), "=", self.epoch), Compare(("h",), "=", self.holder))',
        'return all_of(Compare(("h",), "=", self.holder))',
        equivalent="a holder is 16 random bytes drawn at each taking: it stands for the epoch",
    ),
    Mutant(
        "lease is checked by its epoch alone",
        _LEASE,
        'return all_of(Compare(("e",), "=", self.epoch), Compare(("h",), "=", self.holder))',
        'return all_of(Compare(("e",), "=", self.epoch))',
    ),
    Mutant(
        "lease is taken whatever its epoch is by now",
        _LEASE,
        'put = Put(key, _encode(lease, item.get("s")), Compare(("e",), "=", seen))',
        'put = Put(key, _encode(lease, item.get("s")), Exists(("e",)))',
    ),
    Mutant(
        "held lease says that it was left clean",
        _LEASE,
        '"x": lease.expires_ms, "c": False}',
        '"x": lease.expires_ms, "c": True}',
    ),
    Mutant(
        "release does not say whether it was clean",
        _LEASE,
        'actions = (Set(("h",), _NOBODY), Set(("c",), clean))',
        'actions = (Set(("h",), _NOBODY), Set(("c",), True))',
    ),
    Mutant(
        "lease left unclean is not settled",
        _LEASE,
        "if lease is not None and not lease.was_clean:",
        "if False:",
    ),
    # --- sweep
    Mutant(
        "sweep reads rows before the head",
        _SWEEP,
        "            head = await patiently(clock, lambda: index.read_head(partition))\n"
        "            if head is None:\n"
        "                return\n",
        "            found = await index.newest_rows(partition, 10_000)\n"
        "            head = await patiently(clock, lambda: index.read_head(partition))\n"
        "            if head is None:\n"
        "                return\n"
        "            object_ids.difference_update(e.object_id for _, e in head.entries())\n"
        "            for row in found:\n"
        "                object_ids.difference_update(e.object_id for e in row.entries)\n"
        "            return\n",
    ),
    Mutant(
        "sweep raises no floor of lower heads",
        _SWEEP,
        "if head is not None and head.sweep_floor < self._floor",
        "if head is not None and False",
    ),
    Mutant(
        "sweep does not look at topics that are new",
        _SWEEP,
        "            self._partitions.update(fresh)\n",
        "            self._partitions.update(fresh)\n            break\n",
    ),
    Mutant(
        "sweep looks at spilled rows from the second on",
        _SWEEP,
        "            at = head.merged_offset\n            while rows",
        "            at = head.merged_offset + 1\n            while rows",
    ),
    Mutant(
        "sweep does not go back to recent hours",
        _SWEEP,
        "fresh = range(max(0, next_hour - self._settings.sweep_recheck_hours), _hour(end) + 1)",
        "fresh = range(next_hour, _hour(end) + 1)",
    ),
    Mutant(
        "sweep forgets the hours where items were left",
        _SWEEP,
        "return sorted({*state.hours_left, *fresh})",
        "return sorted({*fresh})",
    ),
    Mutant(
        "sweep's horizon is now",
        _SWEEP,
        "horizon = _first_id(started_ms - self._settings.sweep_horizon_ms)",
        "horizon = _first_id(started_ms)",
        killed_by="tests/unit/engine/maintenance/test_sweep.py::test_lost_and_merged_uploads_go_referenced_and_young_ones_stay",
    ),
    # --- orphans
    Mutant(
        "orphans are looked for in the rows before the page",
        _ORPHANS,
        "at, end = segments[0].base_offset, segments[-1].base_offset + 1",
        "at, end = segments[0].base_offset, segments[-1].base_offset",
    ),
    Mutant(
        "orphan is told by its base offset alone",
        _ORPHANS,
        "if (each.base_offset, each.segment_id) not in referenced]",
        "if each.base_offset not in {base for base, _ in referenced}]",
    ),
    Mutant(
        "unclean partition is not searched for orphans",
        _ORPHANS,
        "return not is_clean or epoch % _SCAN_EVERY_EPOCHS == 0 or idle_ms > _SCAN_AFTER_IDLE_MS",
        "return epoch % _SCAN_EVERY_EPOCHS == 0 or idle_ms > _SCAN_AFTER_IDLE_MS",
    ),
    # --- retention
    Mutant(
        "retention takes what is a minute too young",
        _RETENTION,
        "return newest_ms < oldest_kept_ms",
        "return newest_ms <= oldest_kept_ms + 60_000",
    ),
    Mutant(
        "retention drops the row in which the bytes suffice",
        _RETENTION,
        "                if kept >= retention_bytes:\n                    return row.end_offset\n"
        "                kept += row.size_bytes\n",
        "                kept += row.size_bytes\n                if kept >= retention_bytes:\n"
        "                    return row.end_offset\n",
    ),
    Mutant(
        "retention does not count the tail",
        _RETENTION,
        "kept = sum(entry.length for _, entry in head.entries())",
        "kept = 0",
    ),
    Mutant(
        "retention of a compacted topic",
        _RETENTION,
        "if not config.is_deleting or start >= head.tail_base_offset:",
        "if start >= head.tail_base_offset:",
    ),
    Mutant(
        "retention removes the row of a spill under way",
        _RETENTION,
        "        below = min(head.log_start_offset, head.tail_base_offset)\n        at = 0",
        "        below = head.log_start_offset\n        at = 0",
    ),
    Mutant(
        "retention drops a row that reaches above the log start",
        _RETENTION,
        "old = [row for row in rows if row.end_offset <= below]",
        "old = [row for row in rows if row.base_offset < below]",
    ),
    Mutant(
        "retention keeps the merged offset",
        _RETENTION,
        "await self._index.replace_rows(held.lease, old, (), merged_offset=raised)",
        "await self._index.replace_rows(held.lease, old, ())",
    ),
    Mutant(
        "retention leaves the segments",
        _RETENTION,
        "                await self._delete_segments(held, old)\n",
        "",
        killed_by="tests/unit/engine/maintenance/test_retention.py"
        "::test_old_rows_go_and_the_first_that_is_not_old_stays_with_all_after_it",
    ),
    # --- merge
    Mutant(
        "merge takes rows of a spill under way",
        _MERGE,
        "if row.end_offset <= head.tail_base_offset and not is_ghost(row, head.merged_offset)]",
        "if not is_ghost(row, head.merged_offset)]",
    ),
    Mutant(
        "merge takes ghosts",
        _MERGE,
        "if row.end_offset <= head.tail_base_offset and not is_ghost(row, head.merged_offset)]",
        "if row.end_offset <= head.tail_base_offset]",
    ),
    Mutant(
        "merge does not raise the merged offset",
        _MERGE,
        "merged_offset = None if window[-1].is_segment else window[-1].end_offset",
        "merged_offset = None",
    ),
    Mutant(
        "merge says nothing of an upload that may appear late",
        _MERGE,
        "                    held.left_clean = False  # it may appear again after it was deleted\n",
        "                    pass\n",
    ),
    Mutant(
        "merge leaves the segments that it replaced",
        _MERGE,
        "        await self._delete_segments(held, window)\n        return merged",
        "        return merged",
    ),
    Mutant(
        "merge goes by the present epoch",
        _MERGE,
        "epoch = await self._epochs.at(held.partition, head, piece.base_offset)",
        "epoch = head.leader_epoch",
    ),
    Mutant(
        "merged row has the spill floor of its first row",
        _MERGE,
        "spill_floor_ms=window[-1].spill_floor_ms,",
        "spill_floor_ms=window[0].spill_floor_ms,",
    ),
    Mutant(
        "merge swaps before it uploads the index",
        _MERGE,
        "        await self._put(held, index_key(held.partition, base_offset, segment_id), [index])\n",
        "",
    ),
    Mutant(
        "merge takes rows that are too young",
        _WINDOW,
        "rows = [row for row in rows if row.is_segment or _has_aged(row, policy.delay_ms, now_ms)]",
        "rows = list(rows)",
    ),
    Mutant(
        "merge waits for one row more",
        _WINDOW,
        "return len(spilled) >= policy.rows_min or",
        "return len(spilled) > policy.rows_min or",
    ),
    # --- compaction
    Mutant(
        "compaction drops records from the pass's end on",
        _CLEANING,
        "    if offset >= bounds.pass_end:\n        return True\n",
        "",
    ),
    Mutant(
        "compaction drops the latest record too",
        _CLEANING,
        "    if offset < latest_offset:\n        return False\n",
        "    if offset <= latest_offset:\n        return False\n",
    ),
    Mutant(
        "compaction keeps every record of a key",
        _CLEANING,
        "    if offset < latest_offset:\n        return False\n",
        "",
    ),
    Mutant(
        "tombstones go before their horizon",
        _CLEANING,
        "return has_value or delete_horizon_ms is None or bounds.now_ms < delete_horizon_ms",
        "return has_value or delete_horizon_ms is None",
    ),
    Mutant(
        "tombstones without a horizon go",
        _CLEANING,
        "return has_value or delete_horizon_ms is None or bounds.now_ms < delete_horizon_ms",
        "return has_value or (delete_horizon_ms is not None and bounds.now_ms < delete_horizon_ms)",
    ),
    Mutant(
        "no batch gets a horizon",
        _CLEANING,
        "return keeps_tombstone and delete_horizon_ms is None and last_offset < bounds.pass_end",
        "return False",
        killed_by="tests/unit/engine/compaction/test_compaction.py"
        "::test_the_last_batch_of_the_cleanable_part_stays_without_records",
    ),
    Mutant(
        "minimum lag is not kept",
        _CLEANING,
        "if policy.min_lag_ms and row.max_timestamp_ms > now_ms - policy.min_lag_ms:",
        "if False:",
    ),
    Mutant(
        "compaction cleans what is not merged yet",
        _CLEANING,
        "        if not row.is_segment:\n            break\n        if policy",
        "        if policy",
        equivalent="its rows come from segments_from, which ends before the first row that is none",
    ),
    Mutant(
        "offset map is filled from the pass's second segment on",
        _COMPACTOR,
        "if header.last_offset < work.first_dirty or header.base_offset >= work.limit:",
        "if header.base_offset <= work.first_dirty or header.base_offset >= work.limit:",
    ),
    Mutant(
        "full offset map does not end the pass",
        _COMPACTOR,
        "                        return min(full_at, work.limit)\n",
        "                        return work.limit\n",
        killed_by="tests/unit/engine/compaction/test_compaction_faults.py::test_any_call_may_fail_once",
    ),
    Mutant(
        "compaction leaves the segments that it replaced",
        _COMPACTOR,
        "        await self._delete(held, [key for each in old for key in object_keys(held.partition, each)])\n",
        "",
    ),
    Mutant(
        "compaction writes its state without the lease",
        _COMPACTOR,
        "operations: list[Operation] = [held.lease.held, Put(state_key(held.partition), encode_state(state))]",
        "operations: list[Operation] = [Put(state_key(held.partition), encode_state(state))]",
    ),
    Mutant(
        "unfinished pass begins anew at its end",
        _COMPACTOR,
        "if state.is_under_way and first_dirty < state.pass_end <= dirty.end_offset:",
        "if False:",
        equivalent="a pass may begin again at its first dirty offset: what was cleaned is cleaned once more",
    ),
    Mutant(
        "empty last batch goes",
        _BATCH,
        "        if is_last:\n            return",
        "        if False:\n            return",
    ),
    # --- expiry
    Mutant(
        "producers expire at once",
        _EXPIRY,
        "oldest_kept_ms = self._clock.now_ms() - self._settings.producer_expiry_ms",
        "oldest_kept_ms = self._clock.now_ms() + 1",
    ),
    Mutant(
        "producer that came back is forgotten",
        _EXPIRY,
        'unchanged = [Compare((name,), "=", row.item[name]) for name in ("o", "t")]  # type: ignore[arg-type]',
        'unchanged = [Compare((name,), ">=", 0) for name in ("o", "t")]',
    ),
]
