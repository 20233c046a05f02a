"""ksqlDB's own Java client and command line, on a server of stream SQL.

Their licence lets nobody ship them, and their artefacts are not in Maven Central: whoever has them names their class
path in ODRADEK_KSQLDB_CLIENT_CLASSPATH (the jars of a ksqlDB installation, or what was compiled from its sources). The
programs that call them are in tests/java/ksqldb.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from odradek.cli.pipeline.sql_shell import own_server

CLASSPATH = os.environ.get("ODRADEK_KSQLDB_CLIENT_CLASSPATH", "")
SOURCES = Path(__file__).parent / "ksqldb"
JVM = ("java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF")
WAIT_S = 60
pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not CLASSPATH, reason="ODRADEK_KSQLDB_CLIENT_CLASSPATH names no class path"),
]


@pytest.fixture(autouse=True, scope="session")
def java_clients() -> None:
    """The other clients are not needed here."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server, as users start it, with a worker for connectors."""
    folder = tmp_path_factory.mktemp("ksqldb")
    with odradek.local(folder / "store", registry_port=0) as service:
        arguments = [
            "--data-dir",
            str(folder / "store"),
            "--bootstrap-servers",
            service.bootstrap_servers,
            "--connect-worker",
        ]
        arguments += ["--schema-registry", service.registry_url]
        with own_server(arguments, folder / "server.log") as url:
            yield url


def test_every_method_of_the_java_client(url: str, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    compiled = [
        "javac",
        "-nowarn",
        "-proc:none",
        "-d",
        str(tmp_path),
        "-cp",
        CLASSPATH,
        str(SOURCES / "ClientTour.java"),
    ]
    subprocess.run(compiled, check=True)
    host, _, port = url.removeprefix("http://").rpartition(":")
    command = [*JVM, "-cp", f"{tmp_path}:{CLASSPATH}", "odradek.ksqldb.ClientTour", host, port, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    said = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line and line[0] not in " \t")
    wrong = {
        "create again": "already exists",
        "not a statement": "Use the listStreams() method instead",
        "wrong": "ORDERS has no column NOPE",
        "insertInto nothing": "unknown stream or table NOTHING",
        "insertInto wrong": "ORDERS has no column ZIP",
        "executeQuery wrong": "ORDERS has no column NOPE",
        "terminatePushQuery unknown": "No query with id no",
        "describeSource unknown": "unknown stream or table NOTHING",
        "assertTopic partitions": "417",
        "assertSchema": "417",
        "createConnector again": "already exists",
        "createConnector wrong": "is a source",
        "describeConnector unknown": "not found",
        "dropConnector again": "not found",
    }
    failed = {name: text for name, text in said.items() if text.startswith("failed: ")}
    assert {name: text for name, text in failed.items() if wrong.get(name, "\t") not in text} == {}
    assert set(wrong) == set(failed), done.stderr[-2_000:]
    assert len(said) == 54, sorted(said)
    assert said["create as"].startswith("CTAS_COUNTS_")
    assert said["define"] == "COUNTS{what=counts}"
    assert said["streamInserts"] == "0 1 complete"
    assert said["executeQuery"].endswith('["b",2]')
    assert '["a",1,1099511627776,12.5,true,1.5,["a","b"],{"X":1},{"k":1},"2026-01-02","AQI="]' in said[
        "executeQuery push"
    ]  # fmt: skip
    assert said["streamQuery"] == '[["a",1], ["b",2], ["b",3]] complete true'
    assert said["streamQuery of nothing yet"] == "[ID, N] true"
    assert said["listConnectors"].startswith("LINES SOURCE ")


class Terminal:
    """The command line of ksqlDB at a terminal."""

    def __init__(self, url: str, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, 200))
        command = [*JVM, f"-Dhistory-file={folder}/history", "-cp", CLASSPATH, "io.confluent.ksql.Ksql", url]
        environment = {**os.environ, "TERM": "xterm"}
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=folder,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
        )
        os.close(theirs)
        self.shown = ""

    def type(self, text: str, wanted: str) -> str:
        """Type, and wait until something is shown; return what was shown from then on."""
        self.shown = ""
        os.write(self._ours, text.encode())
        return self.wait(wanted)

    def wait(self, wanted: str) -> str:
        ends = time.monotonic() + WAIT_S
        while re.search(wanted, self.shown) is None:
            assert time.monotonic() < ends, f"no {wanted!r} in:\n{self.shown[-3_000:]}"
            if select.select([self._ours], [], [], 1)[0]:
                data = os.read(self._ours, 65_536).decode(errors="replace")
                self.shown += re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>]|\r", "", data)
        return self.shown

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def test_a_session_at_ksqldbs_command_line(url: str, tmp_path: Path) -> None:
    (tmp_path / "more.sql").write_text(
        "CREATE STREAM more (a INT) WITH (kafka_topic = 'more', value_format = 'json', partitions = 1);\n"
        "INSERT INTO more VALUES (7);\n"
    )
    terminal = Terminal(url, tmp_path)
    try:
        terminal.wait("(?s)Server Status: RUNNING.*ksql> ")
        steps = [
            ("SET 'auto.offset.reset' = 'earliest';", "Successfully changed"),
            ("CREATE STREAM s (id VARCHAR KEY, n INT) WITH (kafka_topic='s', value_format='json', partitions=1);",
             "Stream created"),
            ("CREATE STREAM IF NOT EXISTS s (id VARCHAR KEY) WITH (kafka_topic='s', value_format='json');",
             "Cannot add stream"),
            ("CREATE TABLE t AS SELECT id, SUM(n) AS total FROM s GROUP BY id EMIT CHANGES;", "Created query with ID"),
            ("INSERT INTO s (id, n) VALUES ('a', 41);", ""),
            ("SHOW STREAMS;", r"S +\| s +\| KAFKA"),
            ("SHOW TABLES EXTENDED;", r"TOTAL +\| INTEGER"),
            ("SHOW TOPICS EXTENDED;", "ConsumerGroups"),
            ("SHOW QUERIES EXTENDED;", "Processing topology"),
            ("DESCRIBE t EXTENDED;", "Local runtime statistics"),
            ("DESCRIBE FUNCTION ROUND;", r"ROUND\(arg0 number, arg1 INT\)"),
            ("EXPLAIN SELECT * FROM s EMIT CHANGES;", "Execution plan"),
            ("PRINT s FROM BEGINNING LIMIT 1;", "key: a, value: .*Topic printing ceased"),
            ("SELECT * FROM s EMIT CHANGES LIMIT 1;", "Limit Reached"),
            ("DEFINE who = 'a';", ""),
            ("SELECT id FROM s WHERE id = '${who}';", r"\|a +\|"),
            ("RUN SCRIPT 'more.sql';", "Stream created"),
            ("SELECT a FROM more;", r"\|7 +\|"),
            ("SELECT nope FROM s;", "S has no column NOPE"),
            (f"CREATE SOURCE CONNECTOR lines WITH ('connector.class' = 'org.apache.kafka.connect.file."
             f"FileStreamSourceConnector', 'file' = '{tmp_path}/more.sql', 'topic' = 'typed');", "Created connector"),
            ("SHOW CONNECTORS;", r"LINES +\| SOURCE"),
            ("DESCRIBE CONNECTOR lines;", r"Name +: LINES"),
            ("DROP CONNECTOR lines;", "Dropped connector"),
            ("PAUSE ALL;", "Query paused"),
            ("RESUME ALL;", "Query resumed"),
            ("TERMINATE ALL;", "Query terminated"),
        ]  # fmt: skip
        for typed, wanted in steps:
            terminal.type(f"{typed}\r", f"(?s){wanted}.*ksql> ")
        terminal.type("SELECT * FROM s EMIT CHANGES;\r", "41")
        terminal.type("\x03", "Query terminated")
        terminal.type("DROP TABLE t DELETE TOPIC;\r", "topic was deleted")
        terminal.type("DROP STREAM IF EXISTS nothing;\r", "Source `NOTHING` does not exist")
    finally:
        terminal.close()
