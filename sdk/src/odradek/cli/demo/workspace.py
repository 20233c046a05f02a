"""The folder of the demo. A fresh run empties it, so a marker file, which is also the lock, must show that it is ours.

<data dir>/.odradek-demo   marker and lock
<data dir>/store/          the embedded service's data directory
<data dir>/checkpoint/     the job's
<data dir>/output/         the job's Parquet
<data dir>/spark/          links and bytecode of its Spark; a fresh run leaves it
<data dir>/*.log, delays.png
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from odradek.cli.demo.failure import DemoFailed

MARKER = ".odradek-demo"
SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The paths of the demo."""

    root: Path

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def spark(self) -> Path:
        return self.root / SPARK

    @property
    def chart(self) -> Path:
        return self.root / "delays.png"

    def log(self, name: str) -> Path:
        return self.root / f"{name}.log"

    def forget_results(self) -> None:
        """Delete the job's results from topics that no longer exist."""
        for folder in (self.checkpoint, self.output):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_workspace(data_dir: Path, *, keep: bool) -> Iterator[Workspace]:
    """Lock the folder while the context lasts, and empty it first unless `keep`.

    Raises DemoFailed: the folder holds something else, or another demo uses it.
    """
    root = data_dir.absolute()
    marker = root / MARKER
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not marker.exists() and any(root.iterdir()):
            raise DemoFailed(f"{data_dir} holds files that are not the demo's: choose another --data-dir")
        descriptor = os.open(marker, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise DemoFailed(f"cannot use {data_dir}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DemoFailed(f"another demo is running in {data_dir}") from None
        if not keep:
            for entry in root.iterdir():
                if entry.name in (MARKER, SPARK):
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        yield Workspace(root)
    finally:
        os.close(descriptor)
