"""Mutants of maintenance: lease, sweep, orphans, retention, merge, compaction, expiry."""

from __future__ import annotations

from tests.mutants.mutation import Mutant

_LEASE = "engine/partition/maintenance_lease.py"
_SWEEP = "engine/maintenance/sweep.py"
_RETENTION = "engine/maintenance/retention.py"
_ORPHANS = "engine/maintenance/orphans.py"
_MERGE = "engine/maintenance/merge.py"
_WINDOW = "engine/maintenance/merge_decisions.py"
_SWAP = "engine/maintenance/segment_swap.py"
_SWAPPED = "engine/maintenance/swap_decisions.py"
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
        killed_by="tests/unit/engine/maintenance/test_merge.py::test_a_swap_may_arrive_late_until_the_lease_has_moved_on",
    ),
    Mutant(
        "lease is taken whatever its epoch is by now",
        _LEASE,
        'Update(key, taking, Compare(("e",), "=", seen))',
        'Update(key, taking, Exists(("e",)))',
        killed_by="tests/unit/engine/maintenance/test_maintenance.py"
        "::test_a_taking_that_arrives_late_takes_nothing_from_the_holder",
    ),
    Mutant(
        "held lease says that it was left clean",
        _LEASE,
        '_UNCLEAN = Set(("c",), False)',
        '_UNCLEAN = Set(("c",), True)',
        killed_by="tests/unit/engine/maintenance/test_maintenance.py::test_a_plan_names_every_kind_of_work",
    ),
    Mutant(
        "release does not say whether it was clean",
        _LEASE,
        'actions = (Set(("h",), _NOBODY), Set(("c",), clean))',
        'actions = (Set(("h",), _NOBODY), Set(("c",), True))',
        killed_by="tests/unit/engine/maintenance/test_merge.py::test_a_fault_anywhere_loses_nothing_and_the_next_pass_tidies_up",
    ),
    Mutant(
        "lease left unclean is not settled",
        _LEASE,
        "if lease is not None and not lease.was_clean:",
        "if False:",
        killed_by="tests/unit/engine/append/test_isolation.py::test_a_new_holder_waits_until_the_last_swap_is_visible",
    ),
    # --- sweep
    Mutant(
        "sweep reads rows before the head",
        _SWEEP,
        "            head = await patiently(clock, rng, lambda: index.read_head(partition))\n"
        "            if head is None:\n"
        "                return\n",
        "            found = await index.newest_rows(partition, 10_000)\n"
        "            head = await patiently(clock, rng, lambda: index.read_head(partition))\n"
        "            if head is None:\n"
        "                return\n"
        "            object_ids.difference_update(e.object_id for _, e in head.entries())\n"
        "            for row in found:\n"
        "                object_ids.difference_update(e.object_id for e in row.entries)\n"
        "            return\n",
        killed_by="tests/unit/engine/maintenance/test_sweep.py::test_what_is_spilled_while_it_is_looked_for_is_found",
    ),
    Mutant(
        "sweep raises no floor of lower heads",
        _SWEEP,
        "if image is not None and image.sweep_floor < self._floor",
        "if image is not None and False",
        killed_by="tests/unit/engine/maintenance/test_sweep.py"
        "::test_a_writer_that_stalls_past_the_sweep_is_refused_and_uploads_again",
    ),
    Mutant(
        "sweep does not look at topics that are new",
        _SWEEP,
        "            self._partitions.update(fresh)\n",
        "            self._partitions.update(fresh)\n            break\n",
        equivalent="a creation whose transaction comes after the floor rose is refused, and makes its heads with the "
        "new one: what the second look would find has the floor",
    ),
    Mutant(
        "sweep looks at spilled rows from the second on",
        _SWEEP,
        "            at = head.merged_offset\n            while rows",
        "            at = head.merged_offset + 1\n            while rows",
        killed_by="tests/unit/engine/maintenance/test_sweep.py::test_lost_and_merged_uploads_go_referenced_and_young_ones_stay",
    ),
    Mutant(
        "sweep does not go back to recent hours",
        _SWEEP,
        "fresh = range(max(0, next_hour - self._settings.sweep_recheck_hours), _hour(end) + 1)",
        "fresh = range(next_hour, _hour(end) + 1)",
        killed_by="tests/unit/engine/maintenance/test_sweep.py::test_a_late_upload_to_an_hour_long_swept_is_found",
    ),
    Mutant(
        "sweep forgets the hours where items were left",
        _SWEEP,
        "return sorted({*state.hours_left, *fresh})",
        "return sorted({*fresh})",
        killed_by="tests/unit/engine/maintenance/test_sweep.py"
        "::test_what_a_tail_or_a_spilled_row_needs_is_kept_for_years_and_goes_once_merged",
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
        killed_by="tests/unit/engine/maintenance/test_maintenance.py::test_an_upload_that_came_late_is_found_after_a_day_of_rest",
    ),
    Mutant(
        "orphan is told by its base offset alone",
        _ORPHANS,
        "if (each.base_offset, each.segment_id) not in referenced]",
        "if each.base_offset not in {base for base, _ in referenced}]",
        killed_by="tests/unit/engine/maintenance/test_maintenance.py::test_an_upload_that_came_late_is_found_after_a_day_of_rest",
    ),
    Mutant(
        "unclean partition is not searched for orphans",
        _ORPHANS,
        "return not is_clean or epoch % _SCAN_EVERY_EPOCHS == 0 or idle_ms > _SCAN_AFTER_IDLE_MS",
        "return epoch % _SCAN_EVERY_EPOCHS == 0 or idle_ms > _SCAN_AFTER_IDLE_MS",
        killed_by="tests/unit/engine/maintenance/test_maintenance.py::test_a_plan_names_every_kind_of_work",
    ),
    # --- retention
    Mutant(
        "retention takes what is a minute too young",
        _RETENTION,
        "return newest_ms < oldest_kept_ms",
        "return newest_ms <= oldest_kept_ms + 60_000",
        killed_by="tests/unit/engine/maintenance/test_retention.py::test_a_row_is_dropped_only_when_its_age_exceeds_the_limit",
    ),
    Mutant(
        "retention drops the row in which the bytes suffice",
        _RETENTION,
        "                if kept >= retention_bytes:\n                    return row.end_offset\n"
        "                kept += row.size_bytes\n",
        "                kept += row.size_bytes\n                if kept >= retention_bytes:\n"
        "                    return row.end_offset\n",
        killed_by="tests/unit/engine/maintenance/test_retention.py::test_by_size_a_row_goes_if_what_is_newer_is_enough",
    ),
    Mutant(
        "retention does not count the tail",
        _RETENTION,
        "kept = sum(entry.length for _, entry in head.entries())",
        "kept = 0",
        killed_by="tests/unit/engine/maintenance/test_retention.py::test_by_size_a_row_goes_if_what_is_newer_is_enough",
    ),
    Mutant(
        "retention of a compacted topic",
        _RETENTION,
        "if not config.is_deleting or start >= head.tail_base_offset:",
        "if start >= head.tail_base_offset:",
        killed_by="tests/unit/engine/maintenance/test_retention.py::test_without_a_limit_and_without_the_policy_nothing_goes",
    ),
    Mutant(
        "retention removes the row of a spill under way",
        _RETENTION,
        "        below = min(head.log_start_offset, head.tail_base_offset)\n        at = 0",
        "        below = head.log_start_offset\n        at = 0",
        killed_by="tests/unit/engine/maintenance/test_retention.py::test_the_row_of_a_spill_under_way_stays_where_older_rows_go",
    ),
    Mutant(
        "retention drops a row that reaches above the log start",
        _RETENTION,
        "old = [row for row in rows if row.end_offset <= below]",
        "old = [row for row in rows if row.base_offset < below]",
        killed_by="tests/unit/engine/maintenance/test_retention.py::test_deleted_records_go_whatever_the_policy_is_by_then",
    ),
    Mutant(
        "retention keeps the merged offset",
        _RETENTION,
        "await self._index.replace_rows(held.lease, old, (), merged_offset=raised)",
        "await self._index.replace_rows(held.lease, old, ())",
        killed_by="tests/unit/engine/maintenance/test_retention.py::test_a_merge_removes_a_ghost_and_not_the_row_in_which_it_ends",
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
        killed_by="tests/unit/engine/maintenance/test_merge.py::test_rows_whose_spill_is_not_finished_are_left",
    ),
    Mutant(
        "merge takes ghosts",
        _MERGE,
        "if row.end_offset <= head.tail_base_offset and not is_ghost(row, head.merged_offset)]",
        "if row.end_offset <= head.tail_base_offset]",
        equivalent="whoever calls it has passed over ghosts by the same head; rows that are read from the merged "
        "offset on begin above it, so none of them is one",
    ),
    Mutant(
        "merge does not raise the merged offset",
        _SWAPPED,
        "return None if old[-1].is_segment else old[-1].end_offset",
        "return None",
        killed_by="tests/unit/engine/maintenance/test_merge.py::test_rows_become_a_segment_and_nobody_sees_a_difference",
    ),
    Mutant(
        "swap says nothing of an upload that may appear late",
        _SWAP,
        "                    held.left_clean = False  # it may appear again after it was deleted\n",
        "                    pass\n",
        killed_by="tests/unit/engine/compaction/test_compaction_faults.py"
        "::test_an_upload_that_may_come_late_leaves_the_partition_unclean",
    ),
    Mutant(
        "swap leaves the segments that it replaced",
        _SWAP,
        "        await self._delete(held, old)\n",
        "",
        killed_by="tests/unit/engine/maintenance/test_merge.py::test_later_rows_are_taken_into_what_is_small",
    ),
    Mutant(
        "merge goes by the present epoch",
        _MERGE,
        "epoch = await self._epochs.at(held.partition, head, piece.base_offset)",
        "epoch = head.leader_epoch",
        killed_by="tests/unit/engine/leaders/test_leaders.py"
        "::test_a_merge_keeps_the_epoch_under_which_a_batch_was_written",
        near=("rewritten", "incarnations", "leaders"),
    ),
    Mutant(
        "merged row has the spill floor of its first row",
        _SWAPPED,
        "spill_floor_ms=max(row.spill_floor_ms for row in old),",
        "spill_floor_ms=old[0].spill_floor_ms,",
        killed_by="tests/unit/engine/maintenance/test_merge.py::test_a_merged_row_has_the_floor_of_all_that_it_holds",
    ),
    Mutant(
        "swap without an upload of the index",
        _SWAP,
        "        await self._put(held, index_key(held.partition, index.base_offset, segment_id), [packed])\n",
        "",
        killed_by="tests/unit/engine/maintenance/test_merge.py::test_rows_become_a_segment_and_nobody_sees_a_difference",
    ),
    Mutant(
        "merge takes rows that are too young",
        _WINDOW,
        "rows = [row for row in rows if row.is_segment or _has_aged(row, policy.delay_ms, now_ms)]",
        "rows = list(rows)",
        killed_by="tests/unit/engine/maintenance/test_merge.py::test_a_partition_under_steady_writes_is_merged",
        equivalent="when rows are merged is a matter of cost: readers see the same",
    ),
    Mutant(
        "merge waits for one row more",
        _WINDOW,
        "is_many_or_old = len(spilled) >= policy.rows_min or",
        "is_many_or_old = len(spilled) > policy.rows_min or",
        killed_by="tests/unit/engine/maintenance/test_merge.py::test_one_row_larger_than_a_segment_becomes_several",
        equivalent="when rows are merged is a matter of cost: readers see the same",
    ),
    # --- compaction
    Mutant(
        "compaction drops records from the pass's end on",
        _CLEANING,
        "    if offset >= bounds.pass_end:\n        return True\n",
        "",
        equivalent="of a batch that the pass's end cuts, what a later record replaces, what has no key and what is "
        "past its delete horizon goes with this pass, not with the next: when it goes is not promised",
    ),
    Mutant(
        "compaction drops the latest record too",
        _CLEANING,
        "    if offset < latest_offset:\n        return False\n",
        "    if offset <= latest_offset:\n        return False\n",
        killed_by="tests/unit/engine/compaction/test_compaction.py::test_the_last_record_of_each_key_stays_at_its_offset",
    ),
    Mutant(
        "compaction keeps every record of a key",
        _CLEANING,
        "    if offset < latest_offset:\n        return False\n",
        "",
        killed_by="tests/unit/engine/compaction/test_compaction.py::test_the_last_record_of_each_key_stays_at_its_offset",
    ),
    Mutant(
        "tombstones go before their horizon",
        _CLEANING,
        "bounds.keeps_tombstones or bounds.now_ms < delete_horizon_ms",
        "bounds.keeps_tombstones",
        killed_by="tests/unit/engine/compaction/test_compaction.py"
        "::test_a_tombstone_outlives_the_first_cleaning_by_delete_retention",
    ),
    Mutant(
        "tombstones without a horizon go",
        _CLEANING,
        "return has_value or delete_horizon_ms is None or bounds.keeps",
        "return has_value or (delete_horizon_ms is not None and bounds.now_ms < delete_horizon_ms) or bounds.keeps",
        killed_by="tests/unit/engine/compaction/test_compaction.py::test_log_append_time_stays",
    ),
    Mutant(
        "no batch gets a horizon",
        _CLEANING,
        "return keeps_tombstone and delete_horizon_ms is None and is_below",
        "return False",
        killed_by="tests/unit/engine/compaction/test_compaction.py"
        "::test_the_last_batch_of_the_cleanable_part_stays_without_records",
    ),
    Mutant(
        "minimum lag is not kept",
        _CLEANING,
        "if policy.min_lag_ms and row.max_timestamp_ms > now_ms - policy.min_lag_ms:",
        "if False:",
        killed_by="tests/unit/engine/compaction/test_compaction.py::test_younger_than_the_minimum_lag_stays",
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
        killed_by="tests/unit/engine/compaction/test_compaction.py::test_the_last_record_of_each_key_stays_at_its_offset",
    ),
    Mutant(
        "full offset map does not end the pass",
        _COMPACTOR,
        "                        return min(full_at, work.limit)\n",
        "                        return work.limit\n",
        killed_by="tests/unit/engine/compaction/test_compaction_faults.py::test_any_call_may_fail_once",
    ),
    Mutant(
        "segments are deleted after a swap of unknown outcome",
        _SWAP,
        "        await self._swap(held, old, new)\n",
        "        try:\n            await self._swap(held, old, new)\n"
        "        except OutcomeUnknown:\n            pass\n",
        killed_by="tests/unit/engine/maintenance/test_segment_swap.py"
        "::test_of_a_swap_whose_outcome_is_unknown_both_sides_stay",
        near=("rewritten", "duel", "storm"),
    ),
    Mutant(
        "compaction writes its state without the lease",
        _COMPACTOR,
        "operations: list[Operation] = [held.lease.held, Put(state_key(held.partition), encode_state(state))]",
        "operations: list[Operation] = [Put(state_key(held.partition), encode_state(state))]",
        killed_by="tests/unit/engine/compaction/test_compaction_faults.py"
        "::test_stalled_at_any_call_it_is_fenced_and_changes_nothing",
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
        killed_by="tests/unit/engine/compaction/test_compaction.py"
        "::test_the_last_batch_of_the_cleanable_part_stays_without_records",
    ),
    # --- expiry
    Mutant(
        "producers expire at once",
        _EXPIRY,
        "oldest_kept_ms = self._clock.now_ms() - self._settings.producer_expiry_ms",
        "oldest_kept_ms = self._clock.now_ms() + 1",
        killed_by="tests/unit/engine/maintenance/test_producer_expiry.py"
        "::test_rows_of_silent_producers_go_and_those_of_others_stay",
        near=("storm", "stock"),
    ),
    Mutant(
        "producer that came back is forgotten",
        _EXPIRY,
        'unchanged = [Compare((name,), "=", row.item[name]) for name in ("o", "t")]  # type: ignore[arg-type]',
        'unchanged = [Compare((name,), ">=", 0) for name in ("o", "t")]',
        killed_by="tests/unit/engine/maintenance/test_producer_expiry.py"
        "::test_a_deletion_that_fails_is_repeated_and_one_that_is_late_spares_a_producer_that_came_back",
        near=("stock",),
    ),
]
