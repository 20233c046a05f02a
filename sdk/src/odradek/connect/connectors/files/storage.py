"""Storage of files: a folder. connectors/files/s3.py has the same for Amazon S3."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import BinaryIO, Protocol

from odradek.connect.errors import ConnectError


class Storage(Protocol):
    """Files by name; a name has slashes between its parts."""

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Return a file's bytes as a seekable stream. Raises ConnectError."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file at once; an existing one is replaced. Raises ConnectError, RetriableError."""
        ...


class Folder:
    """Files below a folder, or a single file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def names(self) -> list[str]:
        if self._path.is_file():
            return [self._path.name]
        return sorted(
            path.relative_to(self._path).as_posix()
            for path in self._path.rglob("*")
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(self._path).parts)
        )

    def _of(self, name: str) -> Path:
        return self._path if self._path.is_file() else self._path / name

    def open(self, name: str) -> BinaryIO:
        try:
            return self._of(name).open("rb")
        except OSError as error:
            raise ConnectError(f"the file {self._of(name)} cannot be read: {error.strerror}") from error

    def write(self, name: str, data: bytes) -> None:
        """Write to a hidden file and rename it, so that a reader sees whole files only."""
        path = self._path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(path)
        except OSError as error:
            raise ConnectError(f"the file {path} cannot be written: {error.strerror}") from error
