"""Shifts, as the function on AWS works: they end when nothing is to do or when the time is over, and go on exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.connect import Cluster, WorkerSettings
from odradek.connect.errors import ConfigError
from odradek.connect.runtime.function import BOOTSTRAP_SERVERS, CONNECT_CONFIG, HANDED_OVER, IDLE_S, ConnectFunction
from odradek.connect.runtime.shift import Ended, Shift, run_shift
from odradek.connect.runtime.wakes import keep_wakes
from odradek.connect.state.cluster_state import ClusterState

from tests.support.connect.lake import iceberg_configs, read_table
from tests.support.connect.plugins import COUNTER, KEEPER, values
from tests.support.connect.running import RunningCluster

ONE_SHIFT = Shift(work_s=60, idle_s=1.0)


@pytest.fixture
def cluster(service: Any) -> Any:
    """A Connect cluster without a worker."""
    with RunningCluster(service, workers=0) as running:
        yield running


def numbers(running: RunningCluster, topic: str, count: int) -> list[int]:
    return sorted(json.loads(record.value)["n"] for record in running.read(topic, count, more=True))


def test_nothing_to_do_ends_at_once(cluster: RunningCluster) -> None:
    assert run_shift(cluster.settings, ONE_SHIFT) is Ended.NOTHING
    configs = {"connector.class": COUNTER, "topic": "unused"}
    cluster.cluster.create("s", configs, "PAUSED")
    assert run_shift(cluster.settings, ONE_SHIFT) is Ended.NOTHING


def test_a_shift_ends_when_everything_is_done(cluster: RunningCluster) -> None:
    cluster.cluster.create("source", {"connector.class": COUNTER, "topic": "shifted", "count": "100"})
    cluster.topic("shifted")
    cluster.cluster.create("sink", {"connector.class": KEEPER, "topics": "shifted"})
    assert run_shift(cluster.settings, ONE_SHIFT) is Ended.IDLE
    assert numbers(cluster, "shifted", 100) == list(range(100))
    first = values("sink")  # at least once: a slow machine's rebalances repeat some within a shift
    assert {value["n"] for value in first} == set(range(100))
    assert cluster.states("source") == ["UNASSIGNED", "UNASSIGNED"]
    cluster.cluster.patch_config("source", {"count": "150"})
    assert run_shift(cluster.settings, ONE_SHIFT) is Ended.IDLE
    assert numbers(cluster, "shifted", 150) == list(range(150))
    later = values("sink")[len(first) :]
    assert {value["n"] for value in later} == set(range(100, 150)), "what was committed does not come again"


def test_a_stopped_connector_is_settled_and_then_there_is_nothing(cluster: RunningCluster) -> None:
    cluster.cluster.create("s", {"connector.class": COUNTER, "topic": "settled", "count": "10"})
    assert run_shift(cluster.settings, ONE_SHIFT) is Ended.IDLE
    cluster.cluster.set_target("s", "STOPPED")
    assert run_shift(cluster.settings, ONE_SHIFT) is Ended.IDLE
    assert cluster.cluster.status("s")["connector"]["state"] == "STOPPED"
    assert run_shift(cluster.settings, ONE_SHIFT) is Ended.NOTHING
    assert "reset" in cluster.cluster.reset_offsets("s")


def test_rows_that_wait_for_their_time_are_written_before_a_rest(cluster: RunningCluster, tmp_path: Path) -> None:
    cluster.topic("rows")
    cluster.produce("rows", *({"id": number} for number in range(7)))
    sink = {"connector.class": "IcebergSink", "topics": "rows", **iceberg_configs(tmp_path)}
    cluster.cluster.create("lake", sink)
    assert run_shift(cluster.settings, ONE_SHIFT) is Ended.IDLE
    assert sorted(row["id"] for row in read_table(tmp_path, "db.rows")) == list(range(7))
    assert cluster.cluster.offsets("lake")["offsets"][0]["offset"] == {"kafka_offset": 7}


def test_a_shift_keeps_triggers_on_the_topics_of_its_sinks(cluster: RunningCluster) -> None:
    arn = "arn:aws:lambda:eu-west-1:123456789012:function:odradek-dev-connect"

    def look(state: ClusterState) -> None:
        keep_wakes(cluster.settings, state, arn)

    cluster.topic("woken")
    cluster.cluster.create("sink", {"connector.class": KEEPER, "topics": "woken"})
    assert run_shift(cluster.settings, ONE_SHIFT, look=look) is Ended.IDLE
    with odradek.Admin(**cluster.client) as admin:
        [trigger] = admin.list_triggers()
        assert (trigger.topic, trigger.function, trigger.newest_only) == ("woken", arn, True)
        cluster.cluster.set_target("sink", "PAUSED")
        run_shift(cluster.settings, ONE_SHIFT, look=look)
        assert admin.list_triggers() == []


def test_the_function_calls_itself_while_there_is_more_to_do(cluster: RunningCluster) -> None:
    called: list[Mapping[str, Any]] = []
    graceful = {"task.shutdown.graceful.timeout.ms": "2000"}
    client = {name: value for name, value in cluster.client.items() if name != "bootstrap_servers"}
    environ = {
        BOOTSTRAP_SERVERS: cluster.client["bootstrap_servers"],
        CONNECT_CONFIG: json.dumps({**cluster.configs, **graceful}),
        IDLE_S: "1",
    }
    function = ConnectFunction(environ, called.append, client=client)
    with Cluster(WorkerSettings.of(cluster.configs, cluster.client)) as operations:
        operations.create("s", {"connector.class": COUNTER, "topic": "handed", "count": "100000", "pause": "0.02"})
    assert function.work(23_000) == {"ended": "busy"}
    assert called == [HANDED_OVER]
    first = len(numbers(cluster, "handed", 1))
    assert function.work(23_000) == {"ended": "busy"}
    found = numbers(cluster, "handed", first + 1)
    assert found == list(range(len(found))), "nothing is lost or doubled from shift to shift"
    with pytest.raises(ConfigError, match="too short"):
        function.work(10_000)
    with pytest.raises(ConfigError, match="the coordinator's URL"):
        ConnectFunction({}, called.append)
