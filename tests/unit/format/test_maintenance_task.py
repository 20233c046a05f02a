"""Messages of the queue of maintenance tasks: the text that docs/formats promises, and what is refused."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.errors import FormatError, UnknownVersion
from odradek.format.maintenance_task import MaintenanceTask, TaskKind, decode_task, encode_task
from odradek.model.topic_partition import PartitionId

TOPIC_ID = UUID("01234567-89ab-cdef-0123-456789abcdef")
MESSAGES = {
    MaintenanceTask.of_partitions(TOPIC_ID, [7, 3]): (
        '{"version":1,"task":"partition","topic_id":"01234567-89ab-cdef-0123-456789abcdef","partitions":[3,7]}'
    ),
    MaintenanceTask.of_partition(PartitionId(TOPIC_ID, 3)): (
        '{"version":1,"task":"partition","topic_id":"01234567-89ab-cdef-0123-456789abcdef","partitions":[3]}'
    ),
    MaintenanceTask.of_deletion(TOPIC_ID): (
        '{"version":1,"task":"topic_deletion","topic_id":"01234567-89ab-cdef-0123-456789abcdef"}'
    ),
    MaintenanceTask(TaskKind.TABLE, TOPIC_ID): (
        '{"version":1,"task":"table","topic_id":"01234567-89ab-cdef-0123-456789abcdef"}'
    ),
    MaintenanceTask(TaskKind.TRANSACTIONS): '{"version":1,"task":"transactions"}',
    MaintenanceTask(TaskKind.SWEEP): '{"version":1,"task":"sweep"}',
}


@pytest.mark.parametrize(("task", "message"), MESSAGES.items())
def test_messages(task: MaintenanceTask, message: str) -> None:
    assert encode_task(task) == message
    assert decode_task(message) == task


def test_every_kind_is_promised() -> None:
    assert {task.kind for task in MESSAGES} == set(TaskKind)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"version":1}',
        '{"version":1,"task":"other"}',
        '{"version":1,"task":["sweep"]}',
        '{"version":1,"task":"topic_deletion"}',
        '{"version":1,"task":"topic_deletion","topic_id":7}',
        '{"version":1,"task":"topic_deletion","topic_id":"../etc"}',
        f'{{"version":1,"task":"partition","topic_id":"{TOPIC_ID}"}}',
        f'{{"version":1,"task":"partition","topic_id":"{TOPIC_ID}","partitions":[]}}',
        f'{{"version":1,"task":"partition","topic_id":"{TOPIC_ID}","partitions":[-1]}}',
        f'{{"version":1,"task":"partition","topic_id":"{TOPIC_ID}","partitions":[true]}}',
    ],
)
def test_what_is_no_task_is_refused(message: str) -> None:
    with pytest.raises(FormatError):
        decode_task(message)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused_as_such(version: object) -> None:
    with pytest.raises(UnknownVersion):
        decode_task(json.dumps({"version": version, "task": "sweep"}))


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_text_breaks_the_decoder(message: str) -> None:
    with pytest.raises(FormatError):
        decode_task(message)
