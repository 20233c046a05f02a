"""Mutants of the log's writes: append, the order of batches, the partition's index, spill."""

from __future__ import annotations

from tests.mutants.mutation import Mutant

_DECISIONS = "engine/append/decisions.py"
_APPEND = "engine/append/conditional_append.py"
_COMMIT_TIMES = "engine/append/commit_times.py"
_ORDER = "engine/append/order.py"
_SEARCH = "engine/append/row_search.py"
_HEAD_APPEND = "engine/partition/head_append.py"
_INDEX = "engine/partition/index.py"
_ROW = "engine/partition/index_row.py"
_SWAP = "engine/partition/row_swap.py"
_PLACES = "engine/partition/producer_places.py"
_SPILL = "engine/partition/spill.py"
_SPILLED = "engine/partition/spill_decisions.py"

MUTANTS = [
    # --- append: decisions
    Mutant(
        "refused append is not looked for in the tail",
        _DECISIONS,
        "    if found is not None:\n        return Applied(found)\n",
        "",
        killed_by="tests/unit/engine/append/test_append.py::test_an_update_that_fails_in_any_way_is_applied_once",
    ),
    Mutant(
        "spill floor equal to the commit time is no refusal",
        _DECISIONS,
        "if head.spill_floor_ms >= first.commit_ms:",
        "if head.spill_floor_ms > first.commit_ms:",
        killed_by="tests/unit/engine/append/test_append.py::test_a_late_update_is_refused_after_its_entry_was_spilled",
    ),
    Mutant(
        "refused append does not look whether the sweep passed",
        _DECISIONS,
        "if head.sweep_floor > first.object_id:",
        "if False:",
        killed_by="tests/unit/engine/append/test_append.py::test_a_writer_past_the_sweep_floor_uploads_again",
    ),
    Mutant(
        "older producer epoch is taken",
        _DECISIONS,
        "if first.producer_epoch < state.epoch:",
        "if first.producer_epoch < state.epoch - 1:",
        killed_by="tests/unit/engine/append/test_append.py::test_a_newer_epoch_fences_the_older",
    ),
    Mutant(
        "new epoch may begin anywhere",
        _DECISIONS,
        "    if first.producer_epoch > state.epoch:\n        if first.base_sequence != 0:",
        "    if first.producer_epoch > state.epoch:\n        if False:",
        killed_by="tests/unit/engine/append/test_idempotence.py::test_what_a_sequence_means",
    ),
    Mutant(
        "duplicate is told by its sequence alone",
        _DECISIONS,
        "                first.base_sequence,\n                first.offset_count,",
        "                first.base_sequence,\n                batch.record_count,",
        killed_by="tests/unit/engine/append/test_idempotence.py::test_what_a_sequence_means",
    ),
    Mutant(
        "evicted producer is taken for unknown",
        _DECISIONS,
        "    if head.may_have_evicted(producer_id):\n        if not",
        "    if False:\n        if not",
        killed_by="tests/unit/engine/append/test_append.py::test_producers_at_work_stay_in_the_head_and_silent_ones_leave_it",
    ),
    Mutant(
        "evictions that were seen are not compared with the head's",
        _DECISIONS,
        "return head.turnover <= self.bound and producer_id in self.rows",
        "return producer_id in self.rows",
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_what_a_row_said_of_a_producer_that_came_and_left_since_is_read_again",
    ),
    Mutant(
        "rows of producers are read one an attempt",
        _DECISIONS,
        "return ReadProducerRows(_unread(entries, head, known))",
        "return verdict",
        killed_by="tests/unit/engine/append/test_many_producers.py::test_a_call_of_many_producers_is_appended_whole",
    ),
    Mutant(
        "one update takes whatever comes",
        "engine/append/fitting.py",
        "        if share <= 1:",
        "        if True:",
        killed_by="tests/unit/engine/append/test_many_producers.py::test_a_call_of_many_producers_is_appended_whole",
    ),
    Mutant(
        "returning producer does not check that nobody was evicted",
        _PLACES,
        'return all_of(Absent(("p", str(producer_id))), Compare(("pv",), "=", evictions))',
        'return all_of(Absent(("p", str(producer_id))))',
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_what_a_row_said_of_a_producer_that_came_and_left_since_is_read_again",
    ),
    Mutant(
        "first batch does not check that nobody was evicted",
        _PLACES,
        "fresh = self._absent(producer_id, 0)",
        "fresh = self._absent(producer_id, 0).conditions[0]",
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_a_producer_that_writes_while_it_is_evicted_stays_and_the_others_leave",
    ),
    Mutant(
        "follower compares the epoch no more",
        _PLACES,
        'return all_of(Compare((*path, "e"), "=", epoch), Compare((*path, "s"), "=", sequence))',
        'return all_of(Compare((*path, "s"), "=", sequence))',
        killed_by="tests/unit/engine/append/test_append.py::test_a_newer_epoch_fences_the_older",
    ),
    Mutant(
        "returning producer forgets its last batches",
        _DECISIONS,
        "after = replace(after, recent=tuple(recent), first_sequence=state.first_sequence)",
        "after = replace(after, first_sequence=state.first_sequence)",
        killed_by="tests/unit/engine/append/test_append.py"
        "::test_the_last_five_batches_of_a_producer_that_left_the_head_and_came_back_are_known",
    ),
    # --- append: the procedure
    Mutant(
        "unknown outcome is forgotten",
        _APPEND,
        "            self._maybe_applied = True\n",
        "            pass\n",
        killed_by="tests/unit/engine/append/test_append.py::test_an_outcome_that_stays_unknown_is_said_to_be_so",
    ),
    Mutant(
        "search in rows forgets a lost attempt that it cannot rule out",
        _APPEND,
        "self._maybe_applied &= any(where is Search.UNKNOWABLE for where in found.values())",
        "self._maybe_applied = False",
        killed_by="tests/unit/engine/append/test_unknown_outcomes.py"
        "::test_a_search_in_rows_forgets_a_lost_attempt_only_where_it_proves_that_it_is_not_there",
    ),
    Mutant(
        "search in rows proves nothing about a lost attempt",
        _APPEND,
        "self._maybe_applied &= any(where is Search.UNKNOWABLE for where in found.values())",
        "pass",
        killed_by="tests/unit/engine/append/test_unknown_outcomes.py"
        "::test_a_search_in_rows_forgets_a_lost_attempt_only_where_it_proves_that_it_is_not_there",
    ),
    Mutant(
        "search in rows that cannot be read ends as not appended",
        _APPEND,
        "        except StoreUnavailable:\n            self._settle_all(MAYBE_APPENDED)",
        "        except StoreUnavailable:\n            self._settle_all(NOT_APPENDED)",
        killed_by="tests/unit/engine/append/test_unknown_outcomes.py"
        "::test_a_search_in_rows_forgets_a_lost_attempt_only_where_it_proves_that_it_is_not_there",
    ),
    Mutant(
        "parted append forgets its lost attempt",
        _APPEND,
        "        parted._maybe_applied = self._maybe_applied\n",
        "",
        killed_by="tests/unit/engine/append/test_unknown_outcomes.py"
        "::test_what_parts_from_an_append_remembers_its_lost_attempt",
    ),
    Mutant(
        "search in rows ends at the first row",
        _SEARCH,
        "if row.spill_floor_ms < entry.commit_ms:",
        "if True:",
        killed_by="tests/unit/engine/append/test_append.py::test_a_lost_answer_is_found_in_the_index_rows",
    ),
    Mutant(
        "search in rows passes over the oldest candidates",
        _SEARCH,
        "if row.spill_floor_ms < entry.commit_ms:",
        "if row.spill_floor_ms <= entry.commit_ms:",
        killed_by="tests/unit/engine/append/test_append.py::test_a_lost_answer_is_found_in_the_index_rows",
    ),
    Mutant(
        "segment in the search is taken for a proof",
        _SEARCH,
        "            return Search.UNKNOWABLE\n        if row",
        "            return Search.ABSENT\n        if row",
        killed_by="tests/unit/engine/append/test_commit_times.py::test_a_plain_append_is_refused_once_and_not_for_ever",
        near=("duel", "storm"),
    ),
    Mutant(
        "search believes ghosts",
        _SEARCH,
        "        if is_ghost(row, head.merged_offset):\n            continue\n",
        "",
        killed_by="tests/unit/engine/append/test_isolation.py::test_what_rows_say_of_an_entry",
        near=("rewritten", "duel", "storm"),
    ),
    Mutant(
        "search passes over gaps between rows",
        _SEARCH,
        "if row.end_offset < head.tail_base_offset if end is None else row.end_offset != end:",
        "if False:",
        killed_by="tests/unit/engine/append/test_isolation.py::test_what_rows_say_of_an_entry",
        near=("rewritten", "duel", "storm"),
    ),
    Mutant(
        "search does not ask whether the floor was lowered",
        _SEARCH,
        "is_lowered = image is None or image.spill_floor_ms < floor_ms",
        "is_lowered = image is None",
        killed_by="tests/unit/engine/append/test_wrong_clocks.py"
        "::test_a_plain_append_whose_rows_are_searched_during_the_repair_is_not_applied_twice",
        unseen="floors are lowered by an operator's repair (audit/floors.py), which no actor runs",
    ),
    Mutant(
        "plain append that cannot be known is tried again",
        _APPEND,
        "            elif where is Search.UNKNOWABLE and member.is_plain:\n",
        "            elif False:\n",
        killed_by="tests/unit/engine/append/test_commit_times.py::test_a_plain_append_is_refused_once_and_not_for_ever",
        near=("rewritten", "duel", "storm"),
    ),
    Mutant(
        "entry uploaded again keeps its old position",
        _APPEND,
        "                position=entry.position - start,",
        "                position=entry.position,",
        killed_by="tests/unit/engine/append/test_append.py"
        "::test_each_batch_of_a_swept_request_is_uploaded_again_and_read_from_its_new_place",
        near=("tidy", "storm"),
    ),
    Mutant(
        "attempt that may be applied ends as not appended",
        _APPEND,
        "return MAYBE_APPENDED if self._maybe_applied else NOT_APPENDED",
        "return NOT_APPENDED",
        killed_by="tests/unit/engine/append/test_append.py::test_an_outcome_that_stays_unknown_is_said_to_be_so",
    ),
    Mutant(
        "batch ahead that may arrive yet ends as refused",
        _APPEND,
        "self._settle_all(MAYBE_APPENDED if self._maybe_applied else answer)",
        "self._settle_all(answer)",
        killed_by="tests/unit/engine/append/test_append_order.py"
        "::test_a_batch_that_may_arrive_with_its_predecessor_is_not_called_refused",
        near=("connections",),
    ),
    Mutant(
        "former leader's unknown attempt ends as refused",
        _APPEND,
        "if self._maybe_applied and self._tools.leaders.claim(self._head_id) is FLEET_CLAIM:",
        "if False:",
        killed_by="tests/unit/engine/leaders/test_leaders.py"
        "::test_the_fleet_says_that_it_does_not_know_when_its_lost_attempt_may_come_back",
    ),
    Mutant(
        "offset of an append is that after it",
        _APPEND,
        "self._settle(member, self._appended(member, end_offset - member.offset_count))",
        "self._settle(member, self._appended(member, end_offset))",
        killed_by="tests/unit/engine/append/test_append.py"
        "::test_the_happy_path_is_one_upload_and_one_update_a_partition_without_a_read",
    ),
    Mutant(
        "commit time ignores the floors that were met",
        _COMMIT_TIMES,
        "return max(self._clock.now_ms(), floor_ms + 1 if is_kept else 0)",
        "return self._clock.now_ms()",
        killed_by="tests/unit/engine/append/test_append.py::test_a_late_update_is_refused_after_its_entry_was_spilled",
    ),
    Mutant(
        "batches of a request lie at the same place",
        "engine/append/upload.py",
        "                position += len(upload.bytes_)\n",
        "",
        killed_by="tests/unit/engine/read/test_log_reader.py::test_batches_of_one_upload_are_read_each_from_its_place",
    ),
    Mutant(
        "partition of a request goes by the one before",
        "engine/append/append.py",
        "            start = group[0].position - placed[0].position",
        "            start = 0",
        killed_by="tests/unit/engine/append/test_append.py"
        "::test_each_batch_of_a_swept_request_is_uploaded_again_and_read_from_its_new_place",
        near=("tidy", "storm"),
    ),
    # --- append: the order of a producer's batches
    Mutant(
        "batch does not wait for its turn",
        _ORDER,
        "            await turn.ended()\n",
        "            pass\n",
        killed_by="tests/unit/engine/append/test_append_order.py"
        "::test_a_follower_waits_for_its_predecessor_however_long_that_takes",
    ),
    Mutant(
        "batch does not wait for those of an older epoch",
        _ORDER,
        "turn.waits_for = [each for each in line if _is_older(each, turn)]",
        "turn.waits_for = []",
        killed_by="tests/unit/engine/append/test_append_order.py::test_a_new_epoch_waits_for_the_older_one_of_its_connection",
    ),
    Mutant(
        "followers of a refused batch go on",
        _ORDER,
        "                    if follower.fate is None:",
        "                    if False:",
        killed_by="tests/unit/engine/append/test_append_order.py"
        "::test_followers_are_refused_with_their_predecessor_and_never_reach_the_head",
    ),
    Mutant(
        "followers of a batch refused for good are refused for now",
        _ORDER,
        "    return Fate.FOR_GOOD\n",
        "    return Fate.FOR_NOW\n",
        killed_by="tests/unit/engine/append/test_append_order.py::test_behind_a_batch_that_is_refused_for_good_there_is_a_gap",
    ),
    Mutant(
        "gap is shown at the first lone arrival",
        _ORDER,
        "if missing.answered < LONE_ARRIVALS:",
        "if missing.answered < 0:",
        killed_by="tests/unit/engine/append/test_append_order.py::test_a_follower_that_is_still_uploading_is_decided_too",
    ),
    Mutant(
        "gap is never shown",
        _ORDER,
        "if missing.answered < LONE_ARRIVALS:",
        "if True:",
        killed_by="tests/unit/engine/append/test_append_order.py::test_what_a_batch_without_its_predecessor_is_answered",
    ),
    Mutant(
        "producer that is unknown is refused",
        _ORDER,
        "return AheadAnswer.GAP if is_known else AheadAnswer.TAKE",
        "return AheadAnswer.GAP",
        killed_by="tests/unit/engine/append/test_append_order.py::test_what_a_batch_without_its_predecessor_is_answered",
    ),
    Mutant(
        "producer that is known may leave a gap",
        _ORDER,
        "return AheadAnswer.GAP if is_known else AheadAnswer.TAKE",
        "return AheadAnswer.TAKE",
        killed_by="tests/unit/engine/append/test_append_order.py::test_what_a_batch_without_its_predecessor_is_answered",
    ),
    Mutant(
        "lone arrivals are counted over their predecessor's return",
        _ORDER,
        "            self._missing.pop((turn.line, turn.epoch, turn.end), None)",
        "            pass",
        killed_by="tests/unit/engine/append/test_append_order.py"
        "::test_a_follower_whose_predecessor_comes_again_is_never_told_of_a_gap",
    ),
    Mutant(
        "predecessor is told by its end alone",
        _ORDER,
        "if (each.epoch, each.end) == (turn.epoch, turn.begin)), None)",
        "if each.end == turn.begin), None)",
        killed_by="tests/unit/engine/append/test_append_order.py::test_a_predecessor_is_of_the_same_epoch",
    ),
    # --- the partition's index
    Mutant(
        "append does not compare the sweep floor of equal ids",
        _HEAD_APPEND,
        'Compare(("wf",), "<=", self._object_id),',
        'Compare(("wf",), "<=", self._object_id + bytes(1)),',
        equivalent="all entries of one append share one object, and an id with a byte more sorts right after it",
    ),
    Mutant(
        "append at the spill floor is taken",
        _HEAD_APPEND,
        'Compare(("sf",), "<", self._commit_ms),',
        'Compare(("sf",), "<=", self._commit_ms),',
        killed_by="tests/unit/engine/append/test_append.py::test_a_lost_answer_is_found_in_the_index_rows",
    ),
    Mutant(
        "append that decides by itself is taken at the spill floor",
        _HEAD_APPEND,
        "or floor_ms >= self._commit_ms",
        "or floor_ms > self._commit_ms",
        killed_by="tests/property/engine/test_head_append.py::test_each_condition_refuses_by_itself",
    ),
    Mutant(
        "append that decides by itself does not look for its entry",
        _HEAD_APPEND,
        "or self._packed[0] in tail",
        "or not tail",
        killed_by="tests/property/engine/test_head_append.py::test_each_condition_refuses_by_itself",
    ),
    Mutant(
        "append that decides by itself does not ask who leads",
        _HEAD_APPEND,
        "or not self._claim.is_of(item)",
        "or self._claim is None",
        killed_by="tests/property/engine/test_head_append.py::test_each_condition_refuses_by_itself",
    ),
    Mutant(
        "append that decides by itself asks for one producer",
        _HEAD_APPEND,
        "for clause in self._clauses:",
        "for clause in self._clauses[:1]:",
        killed_by="tests/property/engine/test_head_append.py::test_each_condition_refuses_by_itself",
    ),
    Mutant(
        "late sweep floor lowers a higher one",
        _INDEX,
        'condition = all_of(is_version(VERSION), Compare(("wf",), "<", floor))',
        "condition = all_of(is_version(VERSION))",
        killed_by="tests/unit/engine/maintenance/test_sweep.py::test_a_floor_that_comes_late_does_not_lower_the_heads",
        near=("duel", "storm"),
    ),
    Mutant(
        "new head has no sweep floor",
        _INDEX,
        "encode_head(PartitionHead(sweep_floor=sweep_floor))",
        "encode_head(PartitionHead())",
        killed_by="tests/unit/engine/maintenance/test_sweep.py::test_a_partition_made_in_the_middle_of_a_sweep_has_the_floor",
        near=("tidy", "topics"),
    ),
    # --- spill
    Mutant(
        "spill does not compare the tail's base",
        _SPILLED,
        'conditions: list[Condition] = [is_version(VERSION), Compare(("tb",), "=", row.base_offset)]',
        "conditions: list[Condition] = [is_version(VERSION)]",
        killed_by="tests/unit/engine/partition/test_spill.py::test_entries_are_forgotten_once",
    ),
    Mutant(
        "spill goes by its own row where another's is there",
        _SPILL,
        "return None if refused.current is None else decode_index_row(row.base_offset, refused.current)",
        "return None if refused.current is None else row",
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_a_row_that_was_begun_when_the_tail_was_short_does_not_leave_it_long",
    ),
    Mutant(
        "spill trusts a row longer than its tail",
        _SPILL,
        "if row is None or row.is_segment or len(row.entries) > len(head.tail):",
        "if row is None or row.is_segment:",
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_a_spiller_that_saw_less_than_the_row_holds_leaves_the_forgetting_to_others",
    ),
    Mutant(
        "spill trusts a segment in its row's place",
        _SPILL,
        "if row is None or row.is_segment or len(row.entries) > len(head.tail):",
        "if row is None or len(row.entries) > len(head.tail):",
        equivalent="where a segment begins, the tail's base has moved on: the head refuses the forgetting, by which "
        "no entries would leave",
    ),
    Mutant(
        "spill floor of a row is its own entries' alone",
        _SPILLED,
        "spill_floor_ms=max(head.spill_floor_ms, *(entry.commit_ms for entry in entries)),",
        "spill_floor_ms=max(entry.commit_ms for entry in entries),",
        killed_by="tests/unit/engine/partition/test_spill.py::test_a_row_has_the_floor_of_those_below_it",
    ),
    Mutant(
        "spilled row's end forgets its last entry",
        _SPILLED,
        "end_offset=head.tail_base_offset + sum(entry.offset_count for entry in entries),",
        "end_offset=head.tail_base_offset + sum(entry.offset_count for entry in entries[:-1]),",
        killed_by="tests/unit/engine/partition/test_spill.py::test_while_spills_fail_only_a_few_appends_try_one",
    ),
    Mutant(
        "eviction compares no sequence",
        _SPILLED,
        '        conditions.append(Compare((*path, "s"), "=", state.next_sequence))\n',
        "",
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_a_producer_that_writes_while_it_is_evicted_stays_and_the_others_leave",
    ),
    Mutant(
        "evictions are not counted",
        _SPILLED,
        'return conditions, [*actions, Add(("pv",), len(producer_ids))]',
        "return conditions, actions",
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_a_producer_that_writes_while_it_is_evicted_stays_and_the_others_leave",
    ),
    Mutant(
        "older eviction overwrites a newer producer row",
        _SPILL,
        'condition = AnyOf((Absent(("v",)), all_of(is_version(VERSION), Compare(("o",), "<=", newest))))',
        'condition = AnyOf((Absent(("v",)), is_version(VERSION)))',
        killed_by="tests/unit/engine/partition/test_spill.py::test_an_eviction_that_comes_late_leaves_the_row_of_a_later_one",
    ),
    Mutant(
        "head forgets the last batches that leave the tail",
        _SPILLED,
        "    kept = _unsettled(head, row, {*evictable})\n",
        "    kept = []\n",
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_a_producer_that_writes_while_it_is_evicted_stays_and_the_others_leave",
    ),
    Mutant(
        "producer with entries in the tail is evicted",
        _SPILLED,
        "if producer_id not in newest or last < end_offset:",
        "if True:",
        killed_by="tests/unit/engine/partition/test_spill.py::test_who_has_entries_that_stay_in_the_tail_stays_in_the_head",
        equivalent="it costs the producer's row and the reading of it; what the row says is true",
    ),
    Mutant(
        "producer whose row failed is evicted",
        _SPILL,
        "            except StoreError:\n                return False\n\n        written",
        "            except StoreError:\n                return True\n\n        written",
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_a_producer_whose_row_cannot_be_written_stays_and_the_spill_goes_on",
    ),
    Mutant(
        "entries leave before all producers are settled",
        _SPILLED,
        "is_last=False)",
        "is_last=True)",
        killed_by="tests/property/engine/test_spill_properties.py::test_every_update_fits_and_nothing_is_forgotten",
    ),
    Mutant(
        "producers that wrote meanwhile are evicted",
        _SPILLED,
        '        conditions.append(Compare((*path, "e"), "=", state.epoch))\n',
        "",
        killed_by="tests/unit/engine/partition/test_spill.py"
        "::test_a_producer_that_goes_on_under_a_new_epoch_while_it_is_evicted_stays",
    ),
    Mutant(
        "ghosts end where the merged offset is",
        _ROW,
        "return not row.is_segment and row.base_offset < merged_offset",
        "return not row.is_segment and row.end_offset < merged_offset",
        killed_by="tests/unit/engine/maintenance/test_retention.py::test_a_merge_removes_a_ghost_and_not_the_row_in_which_it_ends",
    ),
    Mutant(
        "ghosts are believed",
        _ROW,
        "return not row.is_segment and row.base_offset < merged_offset",
        "return False",
        killed_by="tests/unit/engine/append/test_isolation.py::test_what_rows_say_of_an_entry",
        near=("duel", "storm"),
    ),
    Mutant(
        "rows that overlap are kept",
        _ROW,
        "if not kept or row.base_offset >= kept[-1].end_offset:",
        "if True:",
        killed_by="tests/unit/engine/append/test_isolation.py::test_rows_that_begin_within_the_one_before_are_passed_over",
        near=("rewritten", "tidy", "storm"),
    ),
    Mutant(
        "swap does not compare the rows that it replaces",
        _SWAP,
        'condition = Absent(("v",)) if there is None else _is_row(there)',
        'condition = Absent(("v",)) if there is None else is_version(VERSION)',
        equivalent="the lease's epoch in the same transaction lets nobody else change the rows",
    ),
    Mutant(
        "swap does not raise the merged offset",
        _SWAP,
        "    if merged_offset is not None:\n        path",
        "    if False:\n        path",
        killed_by="tests/unit/engine/maintenance/test_retention.py::test_a_merge_removes_a_ghost_and_not_the_row_in_which_it_ends",
        near=("duel", "storm"),
    ),
    Mutant(
        "log start passes the high watermark",
        _INDEX,
        'is_below(path, offset), Compare(next_offset_path(partition), ">=", offset)',
        "is_below(path, offset)",
        equivalent="callers ask for offsets that a head showed as its next one or less, and that only rises",
    ),
    Mutant(
        "log start goes back",
        _INDEX,
        'is_below(path, offset), Compare(next_offset_path(partition), ">=", offset)',
        'Compare(next_offset_path(partition), ">=", offset)',
        killed_by="tests/unit/engine/read/test_delete_records.py::test_a_log_start_that_comes_late_changes_nothing",
        near=("duel", "storm"),
    ),
]
