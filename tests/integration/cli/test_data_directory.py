"""The data directory of an embedded service: damage, another release, a full disk, backup and restore."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.adapters.embedded import open_embedded
from odradek.adapters.embedded.backup import Backup, read_manifest
from odradek.adapters.embedded.database import SCHEMA_VERSION, Database
from odradek.adapters.embedded.store import DATABASE_NAME
from odradek.cli import run
from odradek.errors import StoreFull, StoreUnavailable
from odradek.settings import Settings

TOPIC = "kept"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with some records, at rest; do not write to it."""
    folder = tmp_path_factory.mktemp("filled") / "data"
    with odradek.local(folder) as service:  # type: ignore[operator]
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic(TOPIC, 2)])
        with odradek.Producer(**service.client_config) as producer:
            for number in range(200):
                producer.send(TOPIC, b"%d" % number * 100, partition=number % 2)
    return folder


@pytest.fixture
def data_dir(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "data"))


def _damage(data_dir: Path) -> None:
    """Overwrite pages in the middle of the database; its first page, which SQLite looks at, is whole."""
    database = data_dir / DATABASE_NAME
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (database.stat().st_size - 4096))


def test_a_damaged_database_is_not_served_and_not_called_clean(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _damage(data_dir)
    before = (data_dir / DATABASE_NAME).read_bytes()
    code, printed, error = said(capsys, "local", "--data-dir", str(data_dir), "--port", "0")
    assert (code, printed, error.count("\n")) == (2, "", 1)
    assert "is damaged (" in error
    assert "restore a backup" in error
    code, printed, error = said(capsys, "audit", "--data-dir", str(data_dir))
    assert (code, printed) == (2, "")
    assert "is damaged (" in error
    assert (data_dir / DATABASE_NAME).read_bytes() == before


@pytest.mark.parametrize(
    ("options", "synchronous"), [((), "FULL"), (("--fsync",), "FULL"), (("--no-fsync",), "NORMAL")]
)
def test_what_is_acknowledged_is_on_disk_unless_told_otherwise(
    options: tuple[str, ...],
    synchronous: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened = []

    def open_recorded(*args: Any, **kwargs: Any) -> Any:
        opened.append(kwargs["synchronous"])
        raise StoreUnavailable("seen")

    monkeypatch.setattr("odradek.local.service.open_embedded", open_recorded)
    code, _, error = said(capsys, "local", "--data-dir", str(tmp_path), "--port", "0", *options)
    assert (code, opened) == (2, [synchronous])
    assert "seen" in error


def test_a_directory_of_a_newer_release_is_left_alone(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An audit called it clean: what it did not know, it did not look at."""
    with sqlite3.connect(data_dir / DATABASE_NAME) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    for command in (["audit"], ["local", "--port", "0"], ["audit", "--repair"]):
        code, printed, error = said(capsys, *command, "--data-dir", str(data_dir))
        assert (code, printed) == (2, ""), command
        assert "was written by a newer release of Odradek" in error
    with pytest.raises(StoreUnavailable, match="newer release"):
        open_embedded(data_dir, read_only=True)


def test_a_file_of_something_else_is_no_database_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect(tmp_path / DATABASE_NAME) as connection:
        connection.execute("CREATE TABLE mine (x)")
    code, _, error = said(capsys, "audit", "--data-dir", str(tmp_path))
    assert (code, "is not a database of Odradek" in error) == (2, True)


def test_a_full_disk_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was REQUEST_TIMED_OUT: the attempt that the deadline cut short hid those before it."""
    with odradek.local(tmp_path / "data") as service:  # type: ignore[operator]
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic(TOPIC, 1)])
        monkeypatch.setattr(Database, "_store", lambda *_: StoreFull("cannot write: database or disk is full"))
        monkeypatch.setattr("sys.stdin", open_lines(tmp_path, b"one\ntwo\n"))
        where = ("-b", service.bootstrap_servers, "--data-dir", str(tmp_path / "data"))
        code, _, error = said(capsys, "produce", TOPIC, "--timeout", "3", *where)
        monkeypatch.undo()
    assert code == 1
    assert "KAFKA_STORAGE_ERROR" in error
    assert "the disk of the store is full" in error
    assert "0 records were written" in error


def open_lines(folder: Path, lines: bytes) -> object:
    path = folder / "lines"
    path.write_bytes(lines)
    return path.open(encoding="utf-8")


# --- backup and restore -----------------------------------------------------------------------------------------------


class Load:
    """A producer that does not stop: numbers to one partition, and how far they were acknowledged."""

    def __init__(self, config: dict[str, str]) -> None:
        self._config = config
        self._stopping = threading.Event()
        self.acknowledged = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with odradek.Producer(**self._config, linger_ms=1) as producer:
            number = 0
            while not self._stopping.is_set():
                for future in [producer.send(TOPIC, b"%d" % (number + i), partition=0) for i in range(20)]:
                    future.result(60)
                number += 20
                self.acknowledged = number

    def wait_for(self, count: int) -> None:
        while self.acknowledged < count:
            self._stopping.wait(0.01)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Path, Load]]:
    """A service that is written to, and whose maintenance merges and sweeps all the time."""
    settings = Settings(
        item_bytes_max=0,
        spill_entries=1,
        merge_rows_min=1,
        merge_delay_ms=0,
        maintenance_interval_ms=50,
        sweep_interval_ms=0,
    )
    with odradek.local(tmp_path / "data", settings=settings) as service:  # type: ignore[operator]
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic(TOPIC, 1)])
        load = Load(service.client_config)
        try:
            load.wait_for(200)
            yield tmp_path / "data", load
        finally:
            load.stop()


@pytest.mark.parametrize("options", [(), ("--copy",)])
def test_a_backup_under_load_holds_what_was_acknowledged_and_is_served(
    options: tuple[str, ...], busy: tuple[Path, Load], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir, load = busy
    acknowledged = load.acknowledged
    target, again = tmp_path / "backup", tmp_path / "again"
    code, printed, error = said(
        capsys, "backup", str(target), "--data-dir", str(data_dir), "--output", "json", *options
    )
    assert code == 0, error
    assert json.loads(printed)["objects"] == read_manifest(target).objects > 0
    load.wait_for(load.acknowledged + 100)  # the service goes on
    linked = {path.stat().st_nlink for path in (target / "objects").rglob("*") if path.is_file()}
    assert linked == {1} if options else max(linked) > 1
    load.stop()

    code, printed, error = said(capsys, "restore", str(target), "--data-dir", str(again))
    assert code == 0, error
    assert said(capsys, "audit", "--data-dir", str(again))[0] == 0
    assert not (again / "backup.json").exists()
    with odradek.local(again) as service:  # type: ignore[operator]
        with odradek.Consumer(**service.client_config) as consumer:
            tp = odradek.TopicPartition(TOPIC, 0)
            consumer.assign([tp])
            consumer.seek_to_beginning(tp)
            end = consumer.end_offsets([tp])[tp]
            values: list[int] = []
            while consumer.position(tp) < end:
                values += [int(record.value or b"") for record in consumer.poll(1_000).get(tp, ())]
        with odradek.Producer(**service.client_config) as producer:
            assert producer.send(TOPIC, b"more", partition=0).result(30).offset == end
    assert len(values) >= acknowledged
    assert values == list(range(len(values))), "a prefix of what was written, nothing twice and nothing left out"


def test_a_deleted_topic_and_the_place_of_its_group_come_back_from_a_backup(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tp, again = odradek.TopicPartition(TOPIC, 0), tmp_path / "again"
    with odradek.local(data_dir) as service:  # type: ignore[operator]
        with odradek.Consumer(**service.client_config, group_id="g") as consumer:
            consumer.assign([tp])
            consumer.commit({tp: odradek.OffsetAndMetadata(7)})
        assert said(capsys, "backup", str(tmp_path / "b"), "--data-dir", str(data_dir))[0] == 0
        with odradek.Admin(**service.client_config) as admin:
            admin.delete_topics([TOPIC])
            admin.create_topics([odradek.NewTopic("regretted", 1)])
    assert said(capsys, "restore", str(tmp_path / "b"), "--data-dir", str(again))[0] == 0
    with odradek.local(again) as service:  # type: ignore[operator]
        with odradek.Admin(**service.client_config) as admin:
            assert admin.list_topics() == [TOPIC]
        with odradek.Consumer(**service.client_config, group_id="g") as consumer:
            consumer.assign([tp])
            committed = consumer.committed([tp])[tp]
            assert committed is not None
            assert committed.offset == 7
            consumer.seek(tp, 7)
            [record, *_] = consumer.poll(5_000)[tp]
            assert record.offset == 7


def test_a_backup_whose_objects_are_gone_is_no_backup(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if the objects were copied before the tables, and not again: the audit finds what is missing."""
    monkeypatch.setattr(Backup, "secure_objects", lambda self: (self._to / "objects").mkdir(exist_ok=True))
    code, _, error = said(capsys, "backup", str(tmp_path / "b"), "--data-dir", str(data_dir))
    assert any(path.is_file() for path in (data_dir / "objects").rglob("*")), "or there is nothing to miss"
    assert code == 1
    assert "is not a valid backup: " in error
    code, _, error = said(capsys, "restore", str(tmp_path / "b"), "--data-dir", str(tmp_path / "new"))
    assert (code, "is not a finished backup" in error) == (1, True)
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "backup"
    assert said(capsys, "backup", str(target), "--data-dir", str(data_dir))[0] == 0
    assert (target / "credentials.json").stat().st_mode & 0o077 == 0, "keys stay their owner's"
    names = {path.name for path in target.iterdir()}
    assert names == {"backup.json", "credentials.json", DATABASE_NAME, "objects"}
    code, _, error = said(capsys, "backup", str(target), "--data-dir", str(data_dir))
    assert (code, "is not empty" in error) == (1, True)
    code, _, error = said(capsys, "restore", str(target), "--data-dir", str(data_dir))
    assert (code, "is not empty" in error) == (1, True)
    code, _, error = said(capsys, "backup", str(tmp_path / "x"), "--data-dir", str(tmp_path / "nowhere"))
    assert (code, "is not the folder of an embedded service" in error) == (1, True)
    document = json.loads((target / "backup.json").read_text())
    (target / "backup.json").write_text(json.dumps({**document, "version": 99}))
    code, _, error = said(capsys, "restore", str(target), "--data-dir", str(tmp_path / "y"))
    assert (code, "does not know its format" in error) == (1, True)
