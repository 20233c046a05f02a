"""Music charts: events of plays become the top five songs of each genre, answered by HTTP.

Stream SQL counts plays and ranks songs; the chart is a served table, so a lookup reads one row, and no process holds
state. Needs `odradek[local,spark]` and Java 17. What Kafka Streams does with interactive queries.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import odradek
from odradek.extras import program_needs
from odradek.model.table import TableRow

with program_needs("odradek[local,spark]"):
    import pyspark  # noqa: F401
    from odradek.local import ThreadedService

SCRIPT = """
CREATE STREAM plays (listener VARCHAR KEY, song VARCHAR, genre VARCHAR)
    WITH (KAFKA_TOPIC = 'plays', VALUE_FORMAT = 'JSON', PARTITIONS = 3);
CREATE TABLE song_plays AS
    SELECT genre, song, COUNT(*) AS plays FROM plays GROUP BY genre, song;
CREATE TABLE charts WITH (SERVED = 'charts', PARTITIONS = 3) AS
    SELECT genre, TOPK(plays, song, 5) AS top FROM song_plays GROUP BY genre;
"""
GENRES = {"punk": "ABCDEFG", "jazz": "PQR"}


def plays() -> list[dict[str, str]]:
    """The later in its genre, the more often a song is played."""
    return [
        {"song": f"Song {song}", "genre": genre}
        for genre, songs in GENRES.items()
        for times, song in enumerate(songs, start=1)
        for _ in range(times)
    ]


def process(service: ThreadedService, script: Path) -> None:
    """Run the script: each query processes what is there. On AWS it runs as the job sql_job, without --once."""
    where = ["--bootstrap-servers", service.bootstrap_servers, "--data-dir", str(service.data_dir)]
    options = ["--once", "--checkpoints", str(script.parent / "state")]
    command = [sys.executable, "-m", "odradek.cli", "sql", str(script), *options, *where]
    print("counting and ranking plays: Spark takes half a minute to start", file=sys.stderr)
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
        raise SystemExit("the script of stream SQL failed: see the error above; Spark needs Java 17")


def show(row: TableRow | None) -> None:
    assert row is not None
    for place, entry in enumerate(row.value["TOP"], start=1):
        print(f"{row.key} {place}: {entry['col0']}, {entry['sort_col']} plays")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, odradek.local(Path(scratch) / "data") as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("plays", 3)])
        with odradek.Producer(**service.client_config) as producer:
            for number, play in enumerate(plays()):
                producer.send("plays", json.dumps(play).encode(), key=b"listener-%d" % number)
        script = Path(scratch) / "charts.sql"
        script.write_text(SCRIPT)
        process(service, script)

        with odradek.Table("charts", **service.client_config) as charts:
            # Up to where the topic ends now: without it, the answer may be a moment old.
            ends = {each.partition: each.end_offset - 1 for each in charts.describe().partitions if each.end_offset}
            show(charts.get("punk", min_offset=ends))
            show(charts.get("jazz"))


if __name__ == "__main__":
    main()
