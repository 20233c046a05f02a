"""Mutants of leadership, of reads and of transactions."""

from __future__ import annotations

from tests.mutants.mutation import Mutant

_AHEAD = "engine/read/read_ahead.py"
_CLAIMS = "engine/partition/claims.py"
_EPOCHS = "engine/partition/leader_epochs.py"
_READER = "engine/read/log_reader.py"
_FETCH = "engine/read/fetch.py"
_LOOKUP = "engine/read/timestamp_lookup.py"
_COMMIT = "engine/transactions/commit.py"
_TRANSACTION = "engine/transactions/decisions.py"
_STORE = "engine/transactions/store.py"

MUTANTS = [
    # --- leadership
    Mutant(
        "claim holds under any epoch",
        _CLAIMS,
        'return leader if self.leader_epoch is None else all_of(leader, Compare(("le",), "=", self.leader_epoch))',
        "return leader",
        killed_by="tests/unit/engine/leaders/test_leaders.py::test_two_incarnations_of_one_id_never_append_in_one_epoch",
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
        killed_by="tests/unit/engine/leaders/test_leaders.py::test_a_late_taking_never_turns_the_epoch_back",
    ),
    Mutant(
        "epoch begins where the one before began",
        _CLAIMS,
        '        Copy(("es",), ("n",) if shares_head else ("no",)),\n',
        "",
        killed_by="tests/unit/engine/leaders/test_leaders.py::test_a_gateway_takes_a_partition_and_the_fleet_is_sent_to_it",
    ),
    Mutant(
        "ended epoch is not written down",
        "engine/leaders/leaders.py",
        "        await self._epochs.keep(partition, head.leader_epoch, head.epoch_start)\n        condition",
        "        condition",
        killed_by="tests/unit/engine/leaders/test_leaders.py::test_a_taking_whose_answer_was_lost_is_not_believed",
    ),
    Mutant(
        "claim is kept where the taking's answer was lost",
        "engine/leaders/leaders.py",
        "        except OutcomeUnknown:\n            return None\n        taken = decode_image(partition, item or {})",
        "        except OutcomeUnknown:\n"
        "            self._claims[partition] = Claim(self.broker_id, head.leader_epoch + 1, 0)\n"
        "            return None\n        taken = decode_image(partition, item or {})",
        killed_by="tests/unit/engine/leaders/test_leaders.py::test_a_taking_whose_answer_was_lost_is_not_believed",
    ),
    Mutant(
        "epoch of an offset is that before it",
        _EPOCHS,
        "found = bisect_right(self.starts, offset, key=lambda start: start.offset) - 1",
        "found = bisect_right(self.starts, offset - 1, key=lambda start: start.offset) - 1",
        killed_by="tests/unit/engine/leaders/test_leaders.py::test_clocks_an_hour_apart_never_give_two_leaders_in_one_epoch",
    ),
    Mutant(
        "epochs without records count",
        _EPOCHS,
        "        if kept and kept[-1].offset == offset:\n            kept.pop()\n",
        "",
        killed_by="tests/unit/engine/partition/test_claims.py::test_where_an_epoch_ended",
        near=("crowded", "leaders"),
    ),
    # --- reads
    Mutant(
        "what is read ahead of one object answers for another",
        _AHEAD,
        "        starts = self._starts.get(key)\n        index",
        "        key = next(iter(self._starts), key)\n        starts = self._starts.get(key)\n        index",
        killed_by="tests/unit/engine/read/test_read_ahead.py::test_blocks_answer_what_they_hold_whole_or_in_part",
    ),
    Mutant(
        "every fetch is taken for one that goes on",
        _AHEAD,
        "            if each.from_offset < served.offset <= each.to_offset:",
        "            if each.from_offset <= served.offset:",
        killed_by="tests/unit/engine/read/test_read_ahead.py::test_who_turns_away_has_cost_a_window_at_most",
    ),
    Mutant(
        "blocks are dropped before they could be used",
        _AHEAD,
        "            if not oldest.is_used and block.begun_s - oldest.begun_s < _UNREAD_S:",
        "            if False:",
        killed_by="tests/unit/engine/read/test_read_ahead.py"
        "::test_a_block_is_not_dropped_before_somebody_had_time_to_ask_for_it",
    ),
    Mutant(
        "fetch reads the tail from its beginning",
        _READER,
        "            # A row may reach into a tail that was read before the row was made.\n"
        "            if base_offset + entry.offset_count <= offset or base_offset >= end_offset:",
        "            if base_offset + entry.offset_count <= start_offset or base_offset >= end_offset:",
        killed_by="tests/unit/engine/read/test_log_reader.py::test_a_tail_that_was_merged_since_is_read_once",
    ),
    Mutant(
        "row that begins after the offset is read",
        _READER,
        "if row is None or row.base_offset > offset:",
        "if row is None:",
        killed_by="tests/unit/engine/read/test_log_reader.py::test_a_row_that_is_gone_since_is_not_passed_over",
    ),
    Mutant(
        "rows that a merge replaced stay cached",
        _READER,
        "            for base in self.bases[first:stop]:\n                del self.rows[base]\n",
        "            stop = first\n",
        killed_by="tests/unit/engine/read/test_log_reader.py::test_rows_that_a_merge_replaced_are_not_kept",
        equivalent="what they say stays true, their uploads are there until a sweep, and a reader that misses one "
        "forgets them all: it costs memory, which is bounded",
    ),
    Mutant(
        "missing object is not forgotten",
        _FETCH,
        "                missed = plan.pieces\n                self._reader.forget(want.partition)\n",
        "                missed = plan.pieces\n",
        killed_by="tests/unit/engine/read/test_log_reader.py::test_a_reader_whose_segment_was_replaced_plans_again",
    ),
    Mutant(
        "joined ranges are cut at the wrong place",
        _READER,
        "                at = pieces[i].position - start",
        "                at = 0",
        killed_by="tests/unit/engine/read/test_log_reader.py::test_batches_of_one_upload_are_read_each_from_its_place",
    ),
    Mutant(
        "offset below the log start is read",
        _FETCH,
        "if not head.log_start_offset <= want.offset <= head.next_offset:",
        "if not 0 <= want.offset <= head.next_offset:",
        killed_by="tests/unit/engine/read/test_delete_records.py::test_deleted_records_are_gone_at_once_and_the_others_stay",
    ),
    Mutant(
        "epoch of records before the leader's is the leader's",
        _FETCH,
        "is_older = any(not p.is_segment and p.base_offset < head.epoch_start for p in pieces)",
        "is_older = False",
        killed_by="tests/unit/engine/leaders/test_leaders.py"
        "::test_a_fetched_batch_carries_the_epoch_under_which_it_was_written",
        near=("leaders", "transactions", "everything"),
    ),
    Mutant(
        "topic's deletion is not noticed by fetch",
        "engine/catalog/partitions.py",
        "    topics.forget(topic)\n    return",
        "    return",
        killed_by="tests/unit/engine/read/test_fetch.py::test_a_topic_that_was_recreated_is_found_by_the_next_fetch",
    ),
    Mutant(
        "DeleteRecords repeats to a newer high watermark",
        "engine/read/delete_records.py",
        "                offset = head.next_offset if offset == HIGH_WATERMARK else offset\n"
        "                return await self._delete(request, partition, head, offset)",
        "                at = head.next_offset if offset == HIGH_WATERMARK else offset\n"
        "                return await self._delete(request, partition, head, at)",
        killed_by="tests/unit/engine/read/test_delete_records.py::test_a_repetition_deletes_nothing_that_came_meanwhile",
    ),
    Mutant(
        "lookup by time passes over a row before the one that it finds",
        _LOOKUP,
        "        _check_seen(below, high)\n        return found\n",
        "        return found\n",
        killed_by="tests/unit/engine/read/test_list_offsets.py"
        "::test_a_lookup_does_not_pass_over_records_whose_row_is_not_visible_yet",
    ),
    Mutant(
        "lookup by time ends where the rows that it sees end",
        _LOOKUP,
        "            if not rows:\n                _check_seen(last.end_offset, head.tail_base_offset)\n",
        "",
        killed_by="tests/unit/engine/read/test_list_offsets.py"
        "::test_a_lookup_does_not_pass_over_records_whose_row_is_not_visible_yet",
    ),
    # --- transactions
    Mutant(
        "late beginning is answered while a transaction is going on",
        _TRANSACTION,
        "if given != (row.last_producer_id, row.last_epoch) or row.is_ongoing:",
        "if given != (row.last_producer_id, row.last_epoch):",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_a_repeated_beginning_does_not_drop_what_its_answer_began",
    ),
    Mutant(
        "id that begins again keeps the transaction open",
        _TRANSACTION,
        "return bumped(replace(row, timeout_ms=timeout_ms), TransactionState.EMPTY, keeps_last, fresh_id)",
        "return bumped(replace(row, timeout_ms=timeout_ms), row.state, keeps_last, fresh_id)",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_an_id_that_begins_again_takes_over_nothing_of_what_was_going_on",
    ),
    Mutant(
        "commit takes batches from below the sweep floor",
        _COMMIT,
        "if head.sweep_floor > oldest:",
        "if False:",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_objects_below_the_sweep_floor_fail_the_whole_transaction",
    ),
    Mutant(
        "commit goes by its own time alone",
        _COMMIT,
        "commit_ms = max(now_ms, image.spill_floor_ms + 1)",
        "commit_ms = now_ms",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_a_commit_above_a_raised_spill_floor_takes_a_new_time",
    ),
    Mutant(
        "commit under another leader is taken",
        _COMMIT,
        "            Claim(image.leader_id, image.leader_epoch),\n",
        "            Claim(image.leader_id, None),\n",
        equivalent="a commit over heads asks no leader (its claim is the one just read): sequences and the deciding "
        "row hold it to what was read, and a batch's leader epoch is told by its offset",
    ),
    Mutant(
        "classic member's offsets need no fence",
        _COMMIT,
        '            fences.append(TableOperation("groups", fence(group_id, member_id, generation)))\n',
        "            pass\n",
        killed_by="tests/unit/engine/transactions/test_faults.py"
        "::test_a_classic_member_that_is_removed_during_its_commit_commits_nothing_at_all",
        near=("copies",),
    ),
    Mutant(
        "refused offset does not fail the commit",
        _COMMIT,
        "                if isinstance(refusal, ErrorCode):\n                    return Failed(",
        "                if isinstance(refusal, ErrorCode) and False:\n                    return Failed(",
        killed_by="tests/unit/engine/transactions/test_faults.py"
        "::test_a_member_that_lost_its_partition_commits_nothing_at_all",
        near=("copies",),
    ),
    Mutant(
        "commit under an older producer epoch follows",
        _TRANSACTION,
        "if state is not None and state.epoch > epoch:",
        "if False:",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_a_plain_producer_of_a_newer_epoch_stops_the_commit",
    ),
    Mutant(
        "commit does not compare told offsets",
        _COMMIT,
        "if not keeps_told_offsets(told, verdict.entries, head.next_offset):",
        "if False:",
        killed_by="tests/unit/engine/transactions/test_told_offsets.py"
        "::test_two_transactions_that_were_told_the_same_offset_are_not_both_committed",
    ),
    Mutant(
        "told offset is not in the commit's condition",
        _COMMIT,
        "expected_offset = head.next_offset if told else None",
        "expected_offset = None",
        killed_by="tests/unit/engine/transactions/test_told_offsets.py"
        "::test_another_writer_between_the_commits_read_and_its_write_aborts_it",
    ),
    Mutant(
        "repeated produce is told another offset",
        _STORE,
        "return decode_told_offset(refused.current)",
        "return pending.told_offset",
        killed_by="tests/unit/engine/transactions/test_told_offsets.py"
        "::test_a_repeated_produce_is_told_what_the_first_one_was",
    ),
    Mutant(
        "gap in a transaction's batches is taken",
        _TRANSACTION,
        "        if entry.base_sequence != next_expected:",
        "        if False:",
        killed_by="tests/unit/engine/transactions/test_transactions.py::test_a_lost_batch_fails_the_whole_transaction",
    ),
    Mutant(
        "transaction's batches are not compared with the log",
        _TRANSACTION,
        "new = [entry for entry in entries if not _lies_behind(entry.base_sequence, next_expected)]",
        "new = list(entries)",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_a_late_duplicate_of_an_aborted_batch_never_enters_a_log",
    ),
    Mutant(
        "open transaction goes on under the old number",
        _TRANSACTION,
        "number=row.number + 1, start_ms=now_ms)",
        "number=row.number, start_ms=now_ms)",
        killed_by="tests/unit/engine/transactions/test_faults.py::test_of_two_that_end_a_transaction_one_way_is_taken",
    ),
    Mutant(
        "aborted sequences are not kept",
        _TRANSACTION,
        "            kept[partition] = _after(entries[-1])\n",
        "            pass\n",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_an_abort_leaves_no_trace_and_the_next_transaction_goes_on",
    ),
    Mutant(
        "late duplicate moves the aborted sequences back",
        _TRANSACTION,
        "        if partition in kept and _lies_behind(entries[-1].base_sequence, kept[partition]):\n"
        "            continue\n",
        "",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_a_late_duplicate_alone_does_not_move_the_sequence_back",
    ),
    Mutant(
        "transaction that timed out may end",
        _TRANSACTION,
        "return TimedOut() if row.has_timed_out(now_ms) else End()",
        "return End()",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_a_transaction_that_is_too_old_is_refused_and_its_producer_may_come_back",
    ),
    Mutant(
        "transactional id's row is written whatever its version",
        _STORE,
        'condition: Condition = Absent(("v",)) if before is None else Compare(("n",), "=", before.version)',
        'condition: Condition = Absent(("v",)) if before is None else Compare(("n",), ">=", 0)',
        killed_by="tests/unit/engine/transactions/test_faults.py::test_a_late_commit_of_a_fenced_producer_does_nothing",
    ),
    Mutant(
        "pending batches overwrite others",
        _STORE,
        'encode_batches(pending), Absent(("v",)))',
        "encode_batches(pending))",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_other_batches_under_a_used_sequence_are_refused",
    ),
    Mutant(
        "pending offset overwrites a later one",
        _STORE,
        'condition = AnyOf((Absent(("v",)), Compare(("c",), "<", pending.stamp_ms)))',
        'condition = AnyOf((Absent(("v",)), Compare(("v",), ">=", 0)))',
        killed_by="tests/unit/engine/transactions/test_late_offsets.py"
        "::test_a_late_repetition_of_an_earlier_offset_is_refused",
    ),
    Mutant(
        "open transaction's items are deleted as ended ones",
        _STORE,
        "return row.number - 1 if row.is_ongoing else row.number",
        "return row.number",
        killed_by="tests/unit/engine/transactions/test_transactions.py"
        "::test_maintenance_fences_and_removes_what_is_left",
    ),
]
