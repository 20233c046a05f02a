"""A server of stream SQL over a Connect cluster that runs: CREATE SOURCE CONNECTOR writes records, DROP ends it."""

from __future__ import annotations

from odradek.connect import Cluster
from odradek.sql.server.connectors import Connectors

from tests.support.connect.plugins import COUNTER
from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import until
from tests.support.sql_server import World


def test_statements_create_and_drop_what_workers_run(running: RunningCluster) -> None:
    world = World(connectors=Connectors(lambda: Cluster(running.settings), running.settings.group_id))
    try:
        create = f"CREATE SOURCE CONNECTOR `by-sql` WITH (\"connector.class\"='{COUNTER}', 'topic'='sql', 'count'=10);"
        [made] = world.ksql(create)
        assert made["warnings"] == [], "a worker runs"
        running.wait_running("by-sql")
        assert [
            each["state"] for each in world.ksql("SHOW CONNECTORS;")[0]["connectors"] if each["name"] == "by-sql"
        ] == ["RUNNING (1/1 tasks RUNNING)"]
        until(lambda: world.ksql("DESCRIBE CONNECTOR `by-sql`;")[0]["topics"] == ["sql"], 30)
        world.ksql("DROP CONNECTOR `by-sql`;")
        assert "by-sql" not in running.cluster.connectors()
    finally:
        world.service.close()


def test_a_cluster_without_workers_is_told(service: object) -> None:
    with RunningCluster(service, workers=0) as alone:
        assert not alone.cluster.has_workers()
