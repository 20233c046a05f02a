"""The state of a cluster as its records say: generations, deletions, requests, slots."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.connect.state.cluster_state import ClusterState, Prefix


def state_of(*records: tuple[Prefix, str, int | None, Any]) -> ClusterState:
    state = ClusterState()
    for offset, (prefix, name, task, document) in enumerate(records):
        state.apply(prefix.key(name, task), None if document is None else json.dumps(document).encode(), offset)
    return state


def task(name: str, number: int) -> tuple[Prefix, str, int, Any]:
    return Prefix.TASK, name, number, {"properties": {"n": str(number)}}


CONNECTOR = (Prefix.CONNECTOR, "a-1", None, {"properties": {"name": "a-1"}})


def test_tasks_count_when_they_are_committed() -> None:
    state = state_of(CONNECTOR, task("a-1", 0), task("a-1", 1))
    assert (state.get("a-1").tasks, state.get("a-1").has_current_tasks) == ((), False)
    commit = (Prefix.COMMIT, "a-1", None, {"tasks": 2, "config": 0, "slots": [3, 1]})
    known = state_of(CONNECTOR, task("a-1", 0), task("a-1", 1), commit).get("a-1")
    assert (known.tasks, known.slots, known.generation) == (({"n": "0"}, {"n": "1"}), (3, 1), 3)
    assert known.has_current_tasks
    # A commit of tasks that are not all there is that of a worker whose records were overtaken.
    assert state_of(CONNECTOR, task("a-1", 1), commit).get("a-1").generation == -1
    changed = state_of(CONNECTOR, task("a-1", 0), task("a-1", 1), commit, CONNECTOR).get("a-1")
    assert not changed.has_current_tasks


def test_a_deleted_connector_keeps_what_has_to_be_fenced() -> None:
    fencing = (Prefix.FENCING, "a-1", None, {"tasks": 4, "generation": 9})
    target = (Prefix.TARGET, "a-1", None, {"state": "PAUSED"})
    state = state_of(CONNECTOR, target, fencing, (Prefix.CONNECTOR, "a-1", None, None))
    known = state.get("a-1")
    assert (known.exists, known.target, known.fenced_tasks, state.names()) == (False, "STARTED", 4, [])


def test_requests_to_restart_are_told_apart_by_their_offset() -> None:
    request = (Prefix.RESTART_CONNECTOR, "a-1", None, {"include-tasks": True, "only-failed": False})
    known = state_of(CONNECTOR, request, request, (Prefix.RESTART_TASK, "a-1", 7, {})).get("a-1")
    assert known.restart is not None
    assert (known.restart.offset, known.restart.include_tasks, known.task_restarts) == (2, True, {7: 3})


@pytest.mark.parametrize("value", [b"", b"[1]", b"{", b'{"properties": null}', b'{"tasks": "x"}', None])
@pytest.mark.parametrize("key", [b"", b"connector-x", b"task-x", b"task-x-1", b"commit-x", b"\xff", b"session-key"])
def test_records_of_others_do_no_harm(key: bytes, value: bytes | None) -> None:
    state = state_of(CONNECTOR)
    state.apply(key, value, 1)
    state.apply(None, value, 2)
    assert "a-1" in state.names()


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
@pytest.mark.parametrize("tasks", [2, 5, 12, 32, 70])
def test_ranges_of_slots_have_their_share_of_the_tasks(workers: int, tasks: int) -> None:
    slots = 32
    chosen = ClusterState().slots_for("a", tasks, slots)
    shares = [0] * workers
    for slot in chosen:
        shares[slot * workers // slots] += 1
    assert max(shares) - min(shares) <= 2 + tasks // slots, shares
    assert len(set(chosen)) == min(tasks, slots)


def test_tasks_keep_their_slots_and_take_free_ones() -> None:
    commit = (Prefix.COMMIT, "a-1", None, {"tasks": 2, "config": 0, "slots": [0, 16]})
    state = state_of(CONNECTOR, task("a-1", 0), task("a-1", 1), commit)
    assert state.slots_for("a-1", 3, 32) == [0, 16, 8]
    assert state.slots_for("other", 1, 32) == [8]
