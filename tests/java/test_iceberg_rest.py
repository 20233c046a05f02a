"""Iceberg tables of topics in a REST catalog: Iceberg's own reference of one, over the files of the store.

The tests of the embedded catalog, again: each row against a consumer's, deletions, tags, columns, and kills.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from odradek.adapters.iceberg.tables import IcebergTables
from odradek.errors import StoreUnavailable
from odradek.ports.table_catalog import TableName

from bench.peers.maven import ICEBERG_REST, NoJars, maven_jars
from tests.integration.query import test_iceberg
from tests.integration.query.test_iceberg import SMALL, TABLE, fill
from tests.integration.query.test_iceberg_kills import tables_equal_topics_after_kills
from tests.support.spark.session import LiveLog

pytestmark = pytest.mark.java

TOKEN = "secret"
_PROGRAM = Path(__file__).parent / "iceberg" / "RestCatalog.java"

test_every_row_is_that_of_a_consumer = test_iceberg.test_every_row_is_that_of_a_consumer
test_the_table_grows_and_forgets_with_the_log = test_iceberg.test_the_table_grows_and_forgets_with_the_log
test_a_tag_on_what_is_gone_does_not_keep_it = test_iceberg.test_a_tag_on_what_is_gone_does_not_keep_it
test_columns_are_added_and_a_change_that_iceberg_does_not_have_is_refused = (
    test_iceberg.test_columns_are_added_and_a_change_that_iceberg_does_not_have_is_refused
)


@pytest.fixture(autouse=True, scope="session")
def java_clients() -> None:
    """Needs none of the clients' programs."""


@contextmanager
def rest_catalog(warehouse: Path) -> Iterator[str]:
    """Serve a catalog whose tables are in this folder; give its URI."""
    try:
        jars = ":".join(str(jar) for jar in maven_jars(ICEBERG_REST))
    except NoJars as reason:
        pytest.skip(f"Iceberg's REST catalog is not here: {reason}")
    warehouse.mkdir(parents=True, exist_ok=True)
    options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"  # it logs each table that is not there yet
    process = subprocess.Popen(
        ["java", *options, quiet, "-cp", jars, str(_PROGRAM), str(warehouse), TOKEN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the server ended"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def setting(uri: str, token: str = TOKEN) -> str:
    return f"type=rest,uri={uri},token={token}"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLog]:
    data_dir = tmp_path_factory.mktemp("rest") / "store"
    with (
        rest_catalog(data_dir / "iceberg") as uri,
        LiveLog(data_dir, table_catalog=setting(uri), **SMALL) as live,
    ):
        live.create("flights", 2, **TABLE)
        fill(live, 0, 1000)
        yield live


def test_the_tables_equal_the_topics_after_50_kills(tmp_path: Path) -> None:
    with rest_catalog(tmp_path / "store" / "iceberg") as uri:
        tables_equal_topics_after_kills(tmp_path / "store", setting(uri))


def test_who_bears_another_token_is_told_so_and_the_log_goes_on(tmp_path: Path) -> None:
    with rest_catalog(tmp_path / "store" / "iceberg") as uri:
        with pytest.raises(StoreUnavailable, match=r"the catalog does not allow it: .*unknown token"):
            IcebergTables.open("odradek", {"type": "rest", "uri": uri}, "s3://bucket").load(TableName("a", "b"))
        with LiveLog(tmp_path / "store", table_catalog=setting(uri, "old"), **SMALL) as log:
            log.create("flights", 1, **TABLE)
            for start in range(0, 1000, 20):
                log.produce("flights", 0, [(b"k", b'{"delay": %d}' % n) for n in range(start, start + 20)])
            report = log._run(log.engine.maintenance.run())
            assert report.done["table_segments_written"] > 0
            assert report.tables_behind["tables_behind"] == 1
            [state] = log._run(log.engine.tables.states.all())
            assert "the catalog does not allow it" in str(state.behind_why)
        with LiveLog(tmp_path / "store", table_catalog=setting(uri), **SMALL) as log:
            report = log._run(log.engine.maintenance.run())
            assert report.failures == []
            assert report.done["table_files_added"] > 0, "it catches up"
