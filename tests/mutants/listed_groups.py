"""Mutants of groups: both protocols, offsets, share groups; of topics; of the gateway."""

from __future__ import annotations

from tests.mutants.mutation import Mutant

_OFFSETS = "engine/offsets/decisions.py"
_COMMITS = "engine/offsets/offsets.py"
_GROUP = "engine/groups/decisions.py"
_STREAMS = "engine/streams/decisions.py"
_CLASSIC = "engine/classic/decisions.py"
_WINDOW = "engine/share/window.py"
_WINDOWS = "engine/share/windows.py"
_COMMIT = "gateway/group_commit.py"
_CONNECTION = "gateway/connection.py"

MUTANTS = [
    # --- offsets
    Mutant(
        "simple consumer commits where a member owns",
        _OFFSETS,
        "        return (Absent(owner),)\n",
        "        return ()\n",
        killed_by="tests/unit/engine/offsets/test_simple_consumers.py"
        "::test_a_simple_commit_under_way_does_not_move_the_offset_of_a_member_that_joins",
    ),
    Mutant(
        "member commits under an epoch before its lease's",
        _OFFSETS,
        'return Compare(owner, "=", committer.member_id), Compare(epoch, "<=", committer.member_epoch)',
        'return (Compare(owner, "=", committer.member_id),)',
        killed_by="tests/unit/engine/offsets/test_commit_stamps.py"
        "::test_a_commit_under_an_epoch_before_the_grant_is_refused",
    ),
    Mutant(
        "commit with the same stamp is taken",
        _OFFSETS,
        'return Not(Compare(slot.path("c"), ">=", stamp_ms))',
        'return Not(Compare(slot.path("c"), ">", stamp_ms))',
        killed_by="tests/unit/engine/offsets/test_commit_stamps.py"
        "::test_a_commit_that_is_not_newer_is_refused_and_says_what_to_exceed",
    ),
    Mutant(
        "refused commit exceeds the stamp by nothing",
        _COMMITS,
        "a later commit must not be undone by it\n                stamp_ms += 1\n",
        "a later commit must not be undone by it\n",
        killed_by="tests/integration/groups/test_offsets.py::test_a_member_commits_what_it_owns_also_backwards",
    ),
    # --- streams groups
    Mutant(
        "task is granted to a process that has a copy of it",
        _STREAMS,
        "        wanted.standby - beside,\n",
        "        wanted.standby,\n",
        killed_by="tests/unit/engine/streams/test_streams_decisions.py::test_a_process_gets_no_second_copy_of_a_task",
    ),
    Mutant(
        "member that owes a task is granted more",
        _STREAMS,
        "grantable = Tasks() if revoking else _free(",
        "grantable = _free(",
        killed_by="tests/unit/engine/streams/test_streams_decisions.py"
        "::test_who_owes_a_task_is_granted_none_and_keeps_its_epoch",
    ),
    Mutant(
        "task is released before it is reported gone",
        _STREAMS,
        "return Tasks() if reported is None else streams.revoking - reported",
        "return streams.revoking",
        killed_by="tests/unit/engine/streams/test_streams_groups.py"
        "::test_a_task_moves_only_when_its_owner_has_given_it_up",
    ),
    Mutant(
        "step that writes a target grants tasks",
        _STREAMS,
        "Tasks() if changes_group else grantable, member.held",
        "grantable, member.held",
        killed_by="tests/unit/engine/streams/test_streams_decisions.py"
        "::test_a_step_that_writes_a_target_grants_nothing_and_goes_on",
    ),
    Mutant(
        "tasks are granted under a group that is no longer as it was read",
        _STREAMS,
        "checks_group=bool(assigned - streams.assigned)",
        "checks_group=False",
        killed_by="tests/unit/engine/streams/test_streams_decisions.py"
        "::test_a_copy_is_granted_under_the_target_that_gives_it",
    ),
    # --- consumer groups
    Mutant(
        "partition of another member is granted",
        _GROUP,
        "for partition in target - (member.held - gone) - view.held_by_others(member.member_id)",
        "for partition in target - (member.held - gone)",
        killed_by="tests/unit/engine/groups/test_group_decisions.py"
        "::test_what_left_the_target_is_revoked_first_and_released_when_reported",
    ),
    Mutant(
        "member that revokes is granted more",
        _GROUP,
        "    if not revoking:\n        granted",
        "    if True:\n        granted",
        killed_by="tests/unit/engine/groups/test_group_decisions.py::test_who_owes_a_partition_is_granted_none",
    ),
    Mutant(
        "epoch rises while partitions are revoked",
        _GROUP,
        "epoch = member.epoch if revoking else group.epoch",
        "epoch = group.epoch",
        killed_by="tests/unit/engine/groups/test_group_decisions.py::test_reporting_only_some_gone_releases_those",
    ),
    Mutant(
        "member keeps what is not in its target",
        _GROUP,
        "assigned = (held & target) - gone  # what",
        "assigned = held - gone  # what",
        killed_by="tests/unit/engine/groups/test_group_decisions.py"
        "::test_what_left_the_target_is_revoked_first_and_released_when_reported",
    ),
    Mutant(
        "released partitions stay the member's",
        _GROUP,
        "held = member.held - released",
        "held = member.held",
        killed_by="tests/unit/engine/groups/test_group_decisions.py"
        "::test_what_left_the_target_is_revoked_first_and_released_when_reported",
    ),
    Mutant(
        "partitions are released before they are given up",
        _GROUP,
        "gone = NO_PARTITIONS if owned is None else member.revoking - owned",
        "gone = member.revoking",
        killed_by="tests/unit/engine/groups/test_group_decisions.py::test_reporting_only_some_gone_releases_those",
    ),
    Mutant(
        "member that does not give up stays",
        _GROUP,
        "if revoking - gone and member.revoking_elapsed_ms >= member.rebalance_timeout_ms:",
        "if False:",
        killed_by="tests/integration/groups/test_membership.py::test_member_that_owes_for_too_long_is_removed",
    ),
    Mutant(
        "dead members are not expired",
        _GROUP,
        "    if gone and replaced is None:\n        return decide_expiry(view, gone, around)\n",
        "",
        killed_by="tests/integration/groups/test_membership.py::test_crashed_member_is_expired_by_the_others",
    ),
    Mutant(
        "former epoch is taken without its partitions",
        _GROUP,
        "        and request.owned is not None\n        and _partitions(request.owned) <= member.held\n",
        "",
        killed_by="tests/unit/engine/groups/test_group_decisions.py"
        "::test_repeat_with_the_epoch_before_needs_what_it_owns",
    ),
    Mutant(
        "fenced member goes on",
        _GROUP,
        "if request.member_epoch == member.epoch or _lost_the_answer(member, request):",
        "if request.member_epoch <= member.epoch or _lost_the_answer(member, request):",
        killed_by="tests/unit/engine/groups/test_group_decisions.py"
        "::test_repeat_with_the_epoch_before_needs_what_it_owns",
    ),
    Mutant(
        "changed topics make no target",
        _GROUP,
        "        or topics_digest(members.values(), around.topics, around.held) != group.topics_digest\n",
        "",
        killed_by="tests/unit/engine/groups/test_group_decisions.py::test_a_grown_topic_makes_a_new_target",
    ),
    # --- classic groups
    Mutant(
        "round does not wait for all members",
        _CLASSIC,
        "        if not all(member.joined for member in group.members):\n            return None\n",
        "",
        killed_by="tests/unit/engine/classic/test_classic_decisions.py"
        "::test_a_round_waits_for_all_and_then_leaves_behind_who_did_not_come",
    ),
    Mutant(
        "round never ends without all members",
        _CLASSIC,
        "    if waited_ms < rebalance_timeout_ms(group):\n        if not all",
        "    if True:\n        if not all",
        killed_by="tests/unit/engine/classic/test_classic_decisions.py"
        "::test_a_round_waits_for_all_and_then_leaves_behind_who_did_not_come",
    ),
    Mutant(
        "round does not raise the generation",
        _CLASSIC,
        "        state=COMPLETING,\n        generation=group.generation + 1,",
        "        state=COMPLETING,\n        generation=group.generation,",
        killed_by="tests/unit/engine/classic/test_classic_decisions.py"
        "::test_the_first_member_begins_a_round_that_waits_a_little_for_more",
    ),
    Mutant(
        "those who missed the round stay",
        _CLASSIC,
        "members = tuple(member for member in group.members if member.joined or member.instance_id is not None)",
        "members = tuple(group.members)",
        killed_by="tests/unit/engine/classic/test_classic_decisions.py"
        "::test_a_round_waits_for_all_and_then_leaves_behind_who_did_not_come",
    ),
    Mutant(
        "anybody's assignment is taken",
        _CLASSIC,
        "        if group.leader != member_id:\n            return SyncStep()\n",
        "",
        killed_by="tests/unit/engine/classic/test_classic_decisions.py::test_sync",
    ),
    Mutant(
        "old assignment is kept over a round",
        _CLASSIC,
        'replace(member, assignment=b"", joined=False) for member in members',
        "replace(member, joined=False) for member in members",
        equivalent="nobody is answered between a round and the leader's assignment, which replaces all of them",
    ),
    Mutant(
        "generation of a request is not compared",
        _CLASSIC,
        "return None if identity.generation == group.generation else ErrorCode.ILLEGAL_GENERATION",
        "return None",
        killed_by="tests/unit/engine/classic/test_classic_decisions.py"
        "::test_commits_are_taken_while_a_round_gathers_but_not_between_round_and_sync",
    ),
    Mutant(
        "commit between a round and its sync",
        _CLASSIC,
        "return ErrorCode.REBALANCE_IN_PROGRESS if group.state is COMPLETING else ErrorCode.NONE",
        "return ErrorCode.NONE",
        killed_by="tests/unit/engine/classic/test_classic_decisions.py"
        "::test_commits_are_taken_while_a_round_gathers_but_not_between_round_and_sync",
    ),
    Mutant(
        "members are not told of a round",
        _CLASSIC,
        "return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING else ErrorCode.NONE",
        "return ErrorCode.NONE",
        killed_by="tests/unit/engine/classic/test_classic_decisions.py"
        "::test_members_are_told_to_join_while_a_round_gathers_and_not_before_or_after",
    ),
    # --- share groups
    Mutant(
        "lock never ends",
        _WINDOW,
        "if run.state is RecordState.ACQUIRED and _is_over(run.lock_until_ms, now_ms, policy):",
        "if False:",
        killed_by="tests/unit/engine/share/test_share_groups.py"
        "::test_an_expired_lock_refuses_the_acknowledgement_even_where_nobody_took_the_record",
    ),
    Mutant(
        "lock of a clock that was far ahead holds",
        _WINDOW,
        "return not now_ms < lock_until_ms <= now_ms + policy.lock_ms + CLOCK_AHEAD_MS_MAX",
        "return now_ms >= lock_until_ms",
        killed_by="tests/unit/engine/share/test_share_groups.py"
        "::test_a_lock_of_a_clock_that_is_far_ahead_holds_nobody_up",
    ),
    Mutant(
        "delivery is not counted",
        _WINDOW,
        "            delivery_count=run.delivery_count + 1,\n",
        "",
        killed_by="tests/unit/engine/share/test_share_faults.py::test_one_call_is_cut_short",
    ),
    Mutant(
        "release by a leaving member counts",
        _WINDOW,
        "replace(_available(run), delivery_count=run.delivery_count - 1)",
        "_available(run)",
        killed_by="tests/unit/engine/share/test_share_groups.py"
        "::test_a_delivery_that_no_application_saw_does_not_count",
    ),
    Mutant(
        "limit of deliveries is one more",
        _WINDOW,
        "if run.delivery_count >= policy.delivery_count_limit:",
        "if run.delivery_count > policy.delivery_count_limit:",
        killed_by="tests/unit/engine/share/test_share_groups.py"
        "::test_poison_is_given_up_after_its_last_delivery_and_goes_to_the_dead_letters_once",
    ),
    Mutant(
        "rejected record is done",
        _WINDOW,
        "                    return _dead(run, policy, is_rejected=True)\n",
        "                    return _done(run)\n",
        killed_by="tests/unit/engine/share/test_share_groups.py"
        "::test_without_the_dead_letter_topic_a_record_waits_for_it",
    ),
    Mutant(
        "window has no end",
        _WINDOW,
        "window_end = min(batches[-1].end, state.start_offset + policy.max_record_locks)",
        "window_end = batches[-1].end",
        killed_by="tests/unit/engine/share/test_share_groups.py::test_the_window_is_bounded",
    ),
    Mutant(
        "lot that is not the window's is done",
        _WINDOW,
        "if state.lot_number != lot_number or not state.lot:",
        "if not state.lot:",
        killed_by="tests/unit/engine/share/test_share_groups.py"
        "::test_a_writer_that_stalled_does_not_call_the_next_dead_letter_written",
    ),
    Mutant(
        "number of a written lot is used again",
        _WINDOW,
        "return _whole(replace(state, lot_number=lot_number + 1), runs)",
        "return _whole(state, runs)",
        killed_by="tests/unit/engine/share/test_share_groups.py"
        "::test_poison_is_given_up_after_its_last_delivery_and_goes_to_the_dead_letters_once",
    ),
    Mutant(
        "acquired records stay available",
        _WINDOW,
        "                runs = _changed(runs, piece.start, end, RecordState.AVAILABLE, take)\n",
        "",
        killed_by="tests/unit/engine/share/test_share_groups.py"
        "::test_two_members_share_one_partition_and_no_record_goes_to_both",
    ),
    Mutant(
        "window's incarnation is not compared",
        _WINDOWS,
        'return all_of(Compare(("n",), "=", item.version), Compare(("i",), "=", item.incarnation))',
        'return Compare(("n",), "=", item.version)',
        killed_by="tests/unit/engine/share/test_share_windows_end.py"
        "::test_a_late_write_of_a_deleted_group_changes_nothing_of_the_group_that_took_its_name",
    ),
    Mutant(
        "window of a deleted topic is made",
        _WINDOWS,
        '                        TableOperation("catalog", Check(_topic_key(partition.topic_id), '
        'Exists(("name",)))),\n',
        "",
        killed_by="tests/unit/engine/share/test_share_windows_end.py"
        "::test_a_first_fetch_that_meets_the_topics_deletion_makes_no_window",
    ),
    Mutant(
        "own write of unknown outcome is not recognised",
        _WINDOWS,
        "            found = _own_write(current, tried)\n",
        "            found = None\n",
        killed_by="tests/unit/engine/share/test_share_groups.py::test_a_lost_answer_of_a_write_is_recognized",
    ),
    # --- the gateway
    Mutant(
        "answers do not wait for the one before",
        _CONNECTION,
        "        while self._responses and self._responses[0].is_complete:\n"
        "            parts = self._responses.popleft().parts\n",
        "        for each in [each for each in self._responses if each.is_complete]:\n"
        "            self._responses.remove(each)\n            parts = each.parts\n",
        killed_by="tests/unit/gateway/test_connection.py::test_responses_have_the_order_of_their_requests",
    ),
    Mutant(
        "request after Produce does not wait for it",
        _CONNECTION,
        "            while self._produces:\n                await asyncio.wait(self._produces)\n",
        "",
        killed_by="tests/integration/gateway/test_produce_order.py::test_a_request_after_produce_sees_what_was_produced",
    ),
    Mutant(
        "each response is a send",
        _CONNECTION,
        "        if self._responses:  # others",
        "        if False:  # others",
        killed_by="tests/unit/gateway/test_connection.py::test_responses_that_are_complete_together_are_one_send",
    ),
    Mutant(
        "interval of uploads is not kept",
        _COMMIT,
        "        if newest is not None and self._interval_s:",
        "        if False:",
        killed_by="tests/unit/gateway/test_group_commit.py"
        "::test_with_an_interval_calls_begin_no_sooner_and_share_what_came_meanwhile",
    ),
    Mutant(
        "results of a merged call go to its first partition",
        _COMMIT,
        "            request.settle(own_index, result)\n",
        "            request.settle(0, result)\n",
        killed_by="tests/unit/gateway/test_group_commit.py::test_calls_begin_in_the_order_of_their_requests",
    ),
    Mutant(
        "what answers bring is not waited for",
        _COMMIT,
        "_ANSWERED_S = 0.001",
        "_ANSWERED_S = -1.0",
        killed_by="tests/unit/gateway/test_group_commit.py::"
        "test_what_a_client_sends_before_an_answer_shares_calls_again_and_again",
    ),
]
