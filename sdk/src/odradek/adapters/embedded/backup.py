"""Copies of an embedded store, made while its service runs.

    <backup>/odradek.db         a snapshot of the tables, by SQLite's online backup
    <backup>/objects/           the objects: hard links where the file system has them, else copies
    <backup>/credentials.json   of the clients, where the service has made them
    <backup>/backup.json        written last: a backup without it was not finished

An object is in place before a row refers to it, never changes, and is deleted only once no row does. So every object
of a snapshot was there at the snapshot's moment, and three steps suffice:

    1. link what is there         keeps what maintenance deletes from now on
    2. snapshot the tables
    3. link what came meanwhile   what was written between 1 and 2

What was written after 1 and deleted again before 3 is missing: rare, since maintenance waits before it deletes. Whoever
makes a backup has the audit look for every object (odradek.cli.service.backup) and starts again where one is missing.

A hard link shares the disk: copy the folder elsewhere, or make it there, against the loss of the disk.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from odradek.adapters.embedded.database import SCHEMA_VERSION
from odradek.adapters.embedded.store import DATABASE_NAME
from odradek.errors import StoreUnavailable

MANIFEST_NAME = "backup.json"
CREDENTIALS_NAME = "credentials.json"
MANIFEST_VERSION = 1
_OBJECTS = "objects"

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a finished backup says of itself."""

    created_ms: int  # since the epoch
    release: str  # of Odradek
    objects: int
    bytes: int  # of objects and tables
    version: int = MANIFEST_VERSION
    schema_version: int = SCHEMA_VERSION  # of the database


class Backup:
    """A backup in the making: call the three steps, have it checked, then `finish`.

    Args:
        data_dir: of the store; its service may run.
        target: a folder that does not exist or is empty.
        copies: copy objects even where hard links would do.
        advance: is told of the bytes that were secured.

    Raises StoreUnavailable: there is no store, or something is at the target already.
    """

    def __init__(self, data_dir: Path, target: Path, *, copies: bool, advance: Advance) -> None:
        if not (data_dir / DATABASE_NAME).exists():
            raise StoreUnavailable(f"{data_dir} is not the folder of an embedded service: name it with --data-dir")
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StoreUnavailable(f"{target} is not empty: name a new folder")
        self._from, self._to = data_dir, target
        self._copies, self._advance = copies, advance
        target.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds the clients' keys

    def secure_objects(self) -> None:
        """Steps 1 and 3: link or copy every object that is not secured yet. Raises OSError."""
        source, target = self._from / _OBJECTS, self._to / _OBJECTS
        target.mkdir(exist_ok=True)
        for folder, _, names in os.walk(source):
            there = target / Path(folder).relative_to(source)
            for name in names:
                if not (there / name).exists():
                    there.mkdir(parents=True, exist_ok=True)
                    self._secure(Path(folder, name), there / name)

    def _secure(self, source: Path, target: Path) -> None:
        try:
            if not self._copies:
                try:
                    os.link(source, target)
                except FileNotFoundError:
                    return  # deleted since it was listed: nothing refers to it
                except OSError:
                    self._copies = True  # another file system, or one without links
            if self._copies:
                _copy(source, target)
            self._advance(target.stat().st_size)
        except FileNotFoundError:
            return

    def snapshot(self) -> None:
        """Step 2: the tables as they are at one moment. A later call takes the place of an earlier one.

        Raises StoreUnavailable.
        """
        copy = self._to / DATABASE_NAME
        copy.unlink(missing_ok=True)
        self._forget_readers()
        uri = f"{(self._from / DATABASE_NAME).absolute().as_uri()}?mode=ro"
        try:
            source = sqlite3.connect(uri, uri=True, timeout=10)
            target = sqlite3.connect(copy)
            try:
                source.backup(target)  # in one step: a read of one moment, which writers do not wait for
            finally:
                target.close()
                source.close()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot copy {self._from / DATABASE_NAME}: {error}") from error
        _sync(copy)

    def _forget_readers(self) -> None:
        """Remove what those who looked at the snapshot left beside it: the snapshot is whole without."""
        for end in ("-wal", "-shm", "-journal"):
            (self._to / f"{DATABASE_NAME}{end}").unlink(missing_ok=True)

    def finish(self, *, created_ms: int, release: str) -> Manifest:
        """Write what the backup is, last. Raises OSError."""
        self._forget_readers()
        credentials = self._from / CREDENTIALS_NAME
        if credentials.exists():
            _copy(credentials, self._to / CREDENTIALS_NAME)
        sizes = [
            Path(folder, name).stat().st_size for folder, _, names in os.walk(self._to / _OBJECTS) for name in names
        ]
        manifest = Manifest(
            created_ms=created_ms,
            release=release,
            objects=len(sizes),
            bytes=sum(sizes) + (self._to / DATABASE_NAME).stat().st_size,
        )
        fresh = self._to / f"{MANIFEST_NAME}.new"
        fresh.write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
        _sync(fresh)
        fresh.replace(self._to / MANIFEST_NAME)
        return manifest


def read_manifest(backup: Path) -> Manifest:
    """What a backup says of itself. Raises StoreUnavailable for one that is not finished, or of a newer release."""
    try:
        document = json.loads((backup / MANIFEST_NAME).read_text(encoding="utf-8"))
        version, schema = int(document["version"]), int(document["schema_version"])
        if version > MANIFEST_VERSION or schema > SCHEMA_VERSION:
            raise StoreUnavailable(
                f"{backup} was made by Odradek {document.get('release')}: this release does not know its format"
            )
        return Manifest(**document)
    except FileNotFoundError:
        raise StoreUnavailable(f"{backup} is no finished backup: it has no {MANIFEST_NAME}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise StoreUnavailable(f"{backup / MANIFEST_NAME} cannot be read: {error}") from error


def restore(backup: Path, data_dir: Path, *, advance: Advance) -> Manifest:
    """Copy a backup to a new data directory; it appears whole or not at all.

    Args:
        data_dir: does not exist yet, or is an empty folder.

    Raises:
        StoreUnavailable: what is there is no finished backup, or something is at `data_dir` already.
        OSError: it cannot be written.
    """
    manifest = read_manifest(backup)
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise StoreUnavailable(f"{data_dir} is not empty: stop its service and move it away, or name a new folder")
    parent = data_dir.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    fresh = parent / f".{data_dir.name}.restoring"
    shutil.rmtree(fresh, ignore_errors=True)
    for folder, _, names in os.walk(backup):
        there = fresh / Path(folder).relative_to(backup)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            if Path(folder) == backup and name.startswith(MANIFEST_NAME):
                continue
            _copy(Path(folder, name), there / name)
            advance((there / name).stat().st_size)
    if data_dir.exists():
        data_dir.rmdir()
    fresh.replace(data_dir)
    _sync(parent)
    return manifest


def _copy(source: Path, target: Path) -> None:
    """Contents and permissions; on disk when it returns, and never half under its name."""
    fresh = target.with_name(f".{target.name}.new")
    shutil.copy(source, fresh)
    _sync(fresh)
    fresh.replace(target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
