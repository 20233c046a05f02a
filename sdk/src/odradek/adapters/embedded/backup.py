"""Backups of an embedded store, made while its service runs.

    <backup>/odradek.db         a snapshot of the tables, by SQLite's online backup
    <backup>/objects/           the objects: hard links if the file system has them, else copies
    <backup>/credentials.json   of the clients, if the service has created them
    <backup>/backup.json        written last: a backup without it is not finished

An object exists before a row refers to it, never changes, and is deleted only after no row refers to it. So every
object of a snapshot existed at the snapshot's moment, and three steps suffice:

    1. link existing objects      keeps objects that maintenance deletes from now on
    2. snapshot the tables
    3. link new objects           those written between 1 and 2

An object written after 1 and deleted before 3 is missing. That is rare, since maintenance waits before it deletes. The
command has the audit look for every object (odradek.cli.service.backup) and starts again if one is missing.

Hard links share the disk: to survive its loss, copy the folder elsewhere, or create it elsewhere.
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
from odradek.adapters.embedded.private import create_file, make_folder
from odradek.adapters.embedded.store import DATABASE_NAME
from odradek.errors import StoreUnavailable

MANIFEST_NAME = "backup.json"
CREDENTIALS_NAME = "credentials.json"
MANIFEST_VERSION = 1
_OBJECTS = "objects"

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of backup.json, the manifest of a finished backup."""

    created_ms: int  # since the epoch
    release: str  # of Odradek
    objects: int
    bytes: int  # of objects and tables
    version: int = MANIFEST_VERSION
    schema_version: int = SCHEMA_VERSION  # of the database


class Backup:
    """A backup in progress: call the three steps, have it checked, then `finish`.

    Args:
        data_dir: of the store; its service may run.
        target: a folder that does not exist or is empty.
        copies: copy objects even if hard links are possible.
        advance: called with the number of bytes that were secured.

    Raises StoreUnavailable: there is no store, or the target is not empty.
    """

    def __init__(self, data_dir: Path, target: Path, *, copies: bool, advance: Advance) -> None:
        if not (data_dir / DATABASE_NAME).exists():
            raise StoreUnavailable(f"{data_dir} is not the folder of an embedded service: give it with --data-dir")
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StoreUnavailable(f"{target} is not empty: choose a new folder")
        self._from, self._to = data_dir, target
        self._copies, self._advance = copies, advance
        make_folder(target)  # it holds the clients' keys

    def secure_objects(self) -> None:
        """Do steps 1 and 3: link or copy every object that is not secured yet. Raises OSError."""
        source, target = self._from / _OBJECTS, self._to / _OBJECTS
        make_folder(target)
        for folder, _, names in os.walk(source):
            there = target / Path(folder).relative_to(source)
            for name in names:
                if not (there / name).exists():
                    make_folder(there)
                    self._secure(Path(folder, name), there / name)

    def _secure(self, source: Path, target: Path) -> None:
        try:
            if not self._copies:
                try:
                    os.link(source, target)
                except FileNotFoundError:
                    return  # deleted since the listing: nothing refers to it
                except OSError:
                    self._copies = True  # another file system, or one without links
            if self._copies:
                _copy(source, target)
            self._advance(target.stat().st_size)
        except FileNotFoundError:
            return

    def snapshot(self) -> None:
        """Do step 2: copy the tables as they are at one moment. A later call replaces an earlier copy.

        Raises StoreUnavailable.
        """
        copy = self._to / DATABASE_NAME
        copy.unlink(missing_ok=True)
        self._forget_readers()
        uri = f"{(self._from / DATABASE_NAME).absolute().as_uri()}?mode=ro"
        try:
            os.close(create_file(copy))
            source = sqlite3.connect(uri, uri=True, timeout=10)
            target = sqlite3.connect(copy)
            try:
                source.backup(target)  # in one step: a read of one moment, which does not delay writers
            finally:
                target.close()
                source.close()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot copy {self._from / DATABASE_NAME}: {error}") from error
        _sync(copy)

    def _forget_readers(self) -> None:
        """Remove the files that readers of the snapshot left beside it: the snapshot is complete without them."""
        for end in ("-wal", "-shm", "-journal"):
            (self._to / f"{DATABASE_NAME}{end}").unlink(missing_ok=True)

    def finish(self, *, created_ms: int, release: str) -> Manifest:
        """Write the manifest, as the last step. Raises OSError."""
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
        with os.fdopen(create_file(fresh, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(manifest), indent=2) + "\n")
        _sync(fresh)
        fresh.replace(self._to / MANIFEST_NAME)
        return manifest


def read_manifest(backup: Path) -> Manifest:
    """Return the manifest of a backup. Raises StoreUnavailable for one that is unfinished, or of a newer release."""
    try:
        document = json.loads((backup / MANIFEST_NAME).read_text(encoding="utf-8"))
        version, schema = int(document["version"]), int(document["schema_version"])
        if version > MANIFEST_VERSION or schema > SCHEMA_VERSION:
            raise StoreUnavailable(
                f"{backup} was made by Odradek {document.get('release')}: this release does not know its format"
            )
        return Manifest(**document)
    except FileNotFoundError:
        raise StoreUnavailable(f"{backup} is not a finished backup: it has no {MANIFEST_NAME}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise StoreUnavailable(f"{backup / MANIFEST_NAME} cannot be read: {error}") from error


def restore(backup: Path, data_dir: Path, *, advance: Advance) -> Manifest:
    """Copy a backup to a new data directory, which appears complete or not at all.

    Args:
        data_dir: does not exist yet, or is an empty folder.

    Raises:
        StoreUnavailable: `backup` is not a finished backup, or `data_dir` is not empty.
        OSError: the copy cannot be written.
    """
    manifest = read_manifest(backup)
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise StoreUnavailable(f"{data_dir} is not empty: stop its service and move it away, or choose a new folder")
    parent = data_dir.absolute().parent
    make_folder(parent)
    fresh = parent / f".{data_dir.name}.restoring"
    shutil.rmtree(fresh, ignore_errors=True)
    for folder, _, names in os.walk(backup):
        there = fresh / Path(folder).relative_to(backup)
        make_folder(there)
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
    """Contents, for this user alone; on disk when it returns, and never half under its name."""
    fresh = target.with_name(f".{target.name}.new")
    fresh.unlink(missing_ok=True)
    with source.open("rb") as content, os.fdopen(create_file(fresh), "wb") as file:
        shutil.copyfileobj(content, file, 1024 * 1024)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
