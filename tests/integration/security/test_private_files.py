"""Everything that the embedded service writes is its user's alone, from the first moment, whatever the umask."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import odradek
import pytest
from odradek.adapters.embedded import backup

# What creates something: (event, index of the path in its arguments).
_CREATING = {"open": 0, "os.mkdir": 0, "sqlite3.connect": 0}
_watched: list[Path] = []
_found: list[str] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: look at every folder and file under what is watched while others are being created."""
    if not _watched or event not in _CREATING:
        return
    root = _watched[0]
    _watched.clear()  # looking opens folders, which are events of their own
    try:
        _found.extend(readable_by_others(root))
    finally:
        _watched.append(root)


sys.addaudithook(_watch)


def readable_by_others(root: Path) -> list[str]:
    paths_found = []
    for path in (root, *root.rglob("*")):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            continue
        if stat.S_IMODE(mode) & 0o077:
            paths_found.append(f"{path.relative_to(root.parent)} {stat.S_IMODE(mode):o}")
    return paths_found


@pytest.fixture
def open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_nobody_else_may_read_the_data_directory_or_its_backup(tmp_path: Path) -> None:
    data = tmp_path / "deep" / "data"
    tmp_path.chmod(0o700)
    os.mkdir(tmp_path / "deep", 0o700)
    _found.clear()
    _watched.append(tmp_path / "deep")
    try:
        with odradek.local(data, kafka_port=0, registry_port=0) as service:
            with odradek.Admin(**service.client_config) as admin:
                admin.create_topics([odradek.NewTopic("t", 1)])
                admin.create_user("ann", "secret")
            with odradek.Producer(**service.client_config) as producer:
                producer.send("t", b"x" * 100_000).result(30)
            assert readable_by_others(data) == []
            target = tmp_path / "deep" / "backup"
            made = backup.Backup(data, target, copies=True, advance=lambda count: None)
            made.secure_objects()
            made.snapshot()
            made.secure_objects()
            made.finish(created_ms=0, release="test")
        backup.restore(target, tmp_path / "deep" / "restored", advance=lambda count: None)
        assert readable_by_others(tmp_path / "deep") == []
        assert any(path.suffix == ".db" for path in (tmp_path / "deep" / "restored").iterdir())
    finally:
        _watched.clear()
    assert _found == []
