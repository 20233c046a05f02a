"""Source connectors: each record once, whatever happens to workers and tasks; states; offsets of one's own choice."""

from __future__ import annotations

import threading
from typing import Any

import odradek
import pytest
from odradek.connect import Cluster
from odradek.connect.errors import BadRequest, Conflict, NotFound
from odradek.connect.state.statuses import Status, Unit
from odradek.connect.tasks.source import transactional_id

from tests.support.connect.plugins import BOUNDED, COUNTER
from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import until


def counted(running: RunningCluster, topic: str, count: int) -> list[tuple[str, int]]:
    """The counters' records, which must be complete and without doubles."""
    import json

    records = running.read(topic, count, more=True)
    found = sorted((each["task"], each["n"]) for each in (json.loads(record.value) for record in records))
    assert len(found) == len(set(found)), "a record is there twice"
    return found


def test_two_workers_share_the_tasks_and_each_record_is_there_once(service: Any) -> None:
    with RunningCluster(service, workers=2) as running:
        running.create("c", {"connector.class": COUNTER, "topic": "shared", "count": "150"}, tasks=3)
        expected = [(str(task), n) for task in range(3) for n in range(150)]
        assert counted(running, "shared", 450) == expected
        workers = {each["worker_id"] for each in running.cluster.status("c")["tasks"]}
        assert workers == {"worker-0", "worker-1"}
        assert running.cluster.topics("c") == {"c": {"topics": ["shared"]}}


def test_a_worker_that_stops_hands_its_tasks_over(service: Any) -> None:
    with RunningCluster(service, workers=2) as running:
        running.create("c", {"connector.class": COUNTER, "topic": "handed", "count": "200", "pause": "0.02"}, tasks=2)
        running.read("handed", 50)
        running.workers.pop(0).stop()
        assert counted(running, "handed", 400) == [(str(task), n) for task in range(2) for n in range(200)]
        until(lambda: {each["worker_id"] for each in running.cluster.status("c")["tasks"]} == {"worker-1"}, 20, "moved")


def test_a_second_run_of_a_task_fences_the_first_one(running: RunningCluster) -> None:
    """A worker that was cut off commits nothing more after another one has taken over its task."""
    running.create("c1", {"connector.class": COUNTER, "topic": "fenced", "count": "300", "pause": "0.02"})
    running.read("fenced", 20)
    own = transactional_id(running.settings.group_id, Unit("c1", 0))
    with odradek.Producer(**running.client, transactional_id=own) as intruder:
        intruder.init_transactions()
    # The task notices, ends without a word, and is started again by the worker that still has its slot.
    assert counted(running, "fenced", 300) == [("0", n) for n in range(300)]


def test_a_change_of_the_configuration_makes_a_new_generation_of_tasks(running: RunningCluster) -> None:
    running.create("c2", {"connector.class": COUNTER, "topic": "changed", "count": "60"}, tasks=3)
    assert len(counted(running, "changed", 180)) == 180
    info = running.cluster.patch_config("c2", {"tasks.max": "1", "count": "100"})
    assert info["config"]["tasks.max"] == "1"
    running.wait_running("c2", 1)
    found = counted(running, "changed", 220)
    assert found == [*(("0", n) for n in range(100)), *((task, n) for task in "12" for n in range(60))]


def test_pause_resume_stop_and_offsets(running: RunningCluster) -> None:
    cluster = running.cluster
    running.create("c3", {"connector.class": COUNTER, "topic": "paused", "count": "100000", "pause": "0.02"})
    with pytest.raises(BadRequest, match="STOPPED state"):
        cluster.reset_offsets("c3")
    cluster.set_target("c3", "PAUSED")
    running.wait_states("c3", "PAUSED", "PAUSED")
    paused_at = cluster.offsets("c3")
    assert cluster.offsets("c3") == paused_at
    cluster.set_target("c3", "STARTED")
    running.wait_running("c3")
    until(lambda: cluster.offsets("c3") != paused_at, 10, "the task goes on")

    cluster.set_target("c3", "STOPPED")
    running.wait_states("c3", "STOPPED")
    partition = {"counter": "0"}
    cluster.alter_offsets("c3", [{"partition": partition, "offset": {"next": 99_990}}])
    assert cluster.offsets("c3") == {"offsets": [{"partition": partition, "offset": {"next": 99_990}}]}
    cluster.set_target("c3", "STARTED")
    done = {"offsets": [{"partition": partition, "offset": {"next": 100_000}}]}
    until(lambda: cluster.offsets("c3") == done, 20, "ten more records")
    cluster.set_target("c3", "STOPPED")
    running.wait_states("c3", "STOPPED")
    assert "reset" in cluster.reset_offsets("c3")
    assert cluster.offsets("c3") == {"offsets": []}


def test_a_failed_task_says_why_and_can_be_restarted(running: RunningCluster) -> None:
    cluster = running.cluster
    cluster.create("c4", {"connector.class": COUNTER, "topic": "failing", "count": "40", "fail": "20"})
    assert "ValueError: a bug of the connector" in running.trace("c4")
    assert len(counted(running, "failing", 20)) == 20
    cluster.restart_task("c4", 0)
    until(lambda: running.states("c4") == ["RUNNING", "FAILED"], 20, "it fails again")
    cluster.put_config("c4", {"connector.class": COUNTER, "topic": "failing", "count": "40"})
    assert counted(running, "failing", 40) == [("0", n) for n in range(40)]
    status = cluster.restart("c4", include_tasks=True, only_failed=False)
    assert status["connector"]["state"] == "RESTARTING"
    running.wait_running("c4")


def test_a_connector_that_cannot_start_is_failed_and_the_others_go_on(running: RunningCluster) -> None:
    running.cluster.create("bad", {"connector.class": COUNTER, "topic": "bad", "fail": "start"})
    assert running.trace("bad") == "DataError: it cannot start"
    running.create("good", {"connector.class": COUNTER, "topic": "good", "count": "5"})
    assert len(counted(running, "good", 5)) == 5


def test_requests_that_are_refused(service: Any) -> None:
    with RunningCluster(service, workers=0) as running:
        cluster = running.cluster
        good = {"connector.class": COUNTER, "topic": "t"}
        cluster.create("c", good)
        with pytest.raises(Conflict, match="already exists"):
            cluster.create("c", good)
        with pytest.raises(NotFound, match="Connector x not found"):
            cluster.status("x")
        with pytest.raises(BadRequest, match="must be from 1") as refused:
            cluster.create("d", {**good, "tasks.max": "0", "transforms": "a", "errors.tolerance": "some"})
        for problem in ("tasks.max", "transforms.a.type is required", "errors.tolerance must be one of none, all"):
            assert problem in str(refused.value)
        with pytest.raises(BadRequest, match="did you mean"):
            cluster.create("d", {"connector.class": "FileStreamSorce"})
        with pytest.raises(BadRequest, match="doesn't match"):
            cluster.create("d", {**good, "name": "e"})
        assert cluster.connectors() == ["c"]
        cluster.delete("c")
        assert cluster.connectors() == []


def test_at_least_once_without_transactions(service: Any) -> None:
    with RunningCluster(service, **{"exactly.once.source.support": "disabled"}) as running:
        required = {"connector.class": COUNTER, "topic": "x", "exactly.once.support": "required"}
        with pytest.raises(BadRequest, match="of the worker"):
            running.cluster.create("required", required)
        running.create("c", {"connector.class": COUNTER, "topic": "plain", "count": "50"})
        assert counted(running, "plain", 50) == [("0", n) for n in range(50)]
        until(lambda: running.cluster.offsets("c")["offsets"][0]["offset"] == {"next": 50}, 10, "stored")


def test_of_two_requests_at_the_same_time_one_counts(running: RunningCluster) -> None:
    """Configurations are written on condition that they are as they were read, by whichever worker."""
    clusters = [Cluster(running.settings) for _ in range(4)]
    outcomes: list[str] = []

    def create(number: int) -> None:
        try:
            clusters[number].create("once", {"connector.class": COUNTER, "topic": f"once-{number}", "count": "1"})
            outcomes.append(f"once-{number}")
        except Conflict:
            outcomes.append("refused")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in clusters:
        each.close()
    assert sorted(outcomes)[1:] == ["refused"] * 3
    assert running.cluster.config("once")["topic"] == sorted(outcomes)[0]


def test_a_task_says_where_transactions_end(running: RunningCluster) -> None:
    """KIP-618: an aborted transaction leaves no records and does not come again; an open one is read again."""
    bounded = {"connector.class": BOUNDED, "topic": "bounded", "transaction.boundary": "connector", "count": "1000000"}
    running.create("c8", {**bounded, "pause": "0.05"})
    numbers = [n for _, n in counted(running, "bounded", 60)]
    running.cluster.restart("c8", include_tasks=True)
    more = [n for _, n in counted(running, "bounded", len(numbers) + 60)]
    assert more == [n for n in range(more[-1] + 1) if not 30 <= n < 45]
    assert more[-1] % 15 == 14, "the end of a transaction"
    running.cluster.delete("c8")
    wrong = {"connector.class": COUNTER, "topic": "x", "transaction.boundary": "connector"}
    with pytest.raises(BadRequest, match="does not say where transactions end"):
        running.cluster.create("c9", wrong)


def test_a_failure_is_shown_in_place_of_what_a_dead_worker_has_said(running: RunningCluster) -> None:
    """A task that fails before it runs has not written a state of its own yet."""
    statuses = running.workers[0]._environment.statuses
    for task in (None, 0):
        statuses.put(Unit("c-dead", task), Status("RUNNING", "a-dead-worker", None, 0))
    running.cluster.create("c-dead", {"connector.class": COUNTER, "topic": "none", "fail": "start"})
    assert "it cannot start" in running.trace("c-dead")
