"""Objects as files: created once, complete, and durable before `put` returns.

    <root>/objects/<key>     one file per object
    <root>/uploads/<random>  uploads in progress; files left by a crash were never objects

put = write a file in uploads, fsync it, link it to its name (the link fails if the name exists), unlink the upload,
fsync the folder. So a name appears with its complete content or not at all, and one of several concurrent creators
wins.

What waits for no disk is done in the caller's thread, since two switches of threads take longer: a small `put` that is
not synced, and a range that the system has in its cache, which Linux tells (RWF_NOWAIT).

In S3 a key may be the folder of other keys, in a file system not, so such a key is refused (ValueError). Deletion is
not synced: after a power loss a deleted object may exist again, as an upload that nothing refers to.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

from odradek.adapters.embedded.private import FOLDER_MODE, create_file
from odradek.adapters.object_keys import check_limit, check_object_key, check_object_prefix, check_range, check_upload
from odradek.adapters.rejections import RejectionsTold
from odradek.errors import ObjectExists, ObjectMissing, OutcomeUnknown, StoreFull, StoreUnavailable
from odradek.model.log import Buffer
from odradek.ports.meter import Meter, NullMeter, Usage
from odradek.ports.object_store import ObjectInfo

T = TypeVar("T")

LIST_PAGE_KEYS = 1000
DIRECT_PUT_BYTES_MAX = 256 * 1024
DIRECT_READ_BYTES_MAX = 1024 * 1024
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)  # None: not on this system
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ATTEMPTS = 5  # another thread may remove an empty folder between its creation and the link into it


class FileObjectStore:
    """ports.object_store.ObjectStore over a folder.

    Args:
        root: the folder, created on demand.
        fsync: False trades durability against power loss (not against a killed process) for speed.
        threads: the number of concurrent calls, off the event loop.

    Attributes:
        reads_directly: whether the system tells if a range is in its cache.
    """

    reads_directly = _NO_WAIT is not None

    def __init__(self, root: Path | str, *, meter: Meter | None = None, fsync: bool = True, threads: int = 8) -> None:
        self._objects = os.path.abspath(os.path.join(root, "objects"))
        self._uploads = os.path.abspath(os.path.join(root, "uploads"))
        self._meter = meter or NullMeter()
        self._fsync = fsync
        self._folders: set[str] = set()  # folders that exist durably
        self._is_closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="odradek-files")

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        with RejectionsTold(self._meter, "PutObject", key):
            check_upload(key, parts)
        size = sum(memoryview(part).nbytes for part in parts)
        self._meter.add("PutObject", Usage(object_put_requests=1, object_bytes_written=size))
        if not self._fsync and size <= DIRECT_PUT_BYTES_MAX and not self._is_closed:
            with self._errors():
                self._put(key, parts)
        else:
            await self._run(lambda: self._put(key, parts))

    async def get(self, key: str) -> bytes:
        check_object_key(key)
        return await self._read(key, 0, None)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        check_object_key(key)
        check_range(start, length)
        return await self._read(key, start, length)

    async def head(self, key: str) -> ObjectInfo | None:
        check_object_key(key)
        self._meter.add("HeadObject", Usage(object_get_requests=1))
        return await self._run(lambda: self._head(key))

    async def list(self, prefix: str, *, start_after: str = "", limit: int | None = None) -> list[ObjectInfo]:
        check_object_prefix(prefix)
        check_limit(limit)
        found = [*await self._run(lambda: self._list(prefix, start_after, limit))]
        self._meter.add("ListObjectsV2", Usage(object_put_requests=len(found) // LIST_PAGE_KEYS + 1))
        return found

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_object_key(key)
        self._meter.add("DeleteObjects", Usage(object_delete_requests=-(-len(keys) // LIST_PAGE_KEYS)))
        await self._run(lambda: self._delete(keys))

    async def aclose(self) -> None:
        """Finish the calls in progress and end the threads."""
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)

    def remove_stale_uploads(self) -> int:
        """Remove files of crashed uploads; return their number. Only for the one process that writes to the folder."""
        try:
            stale = [entry.path for entry in os.scandir(self._uploads)]
        except FileNotFoundError:
            return 0
        for path in stale:
            os.unlink(path)
        return len(stale)

    # --- in the threads -------------------------------------------------------------------------------------------

    async def _run(self, call: Callable[[], T]) -> T:
        with self._errors():
            return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate the system's errors."""
        try:
            yield
        except OSError as error:
            kind = StoreFull if error.errno in _NO_ROOM else StoreUnavailable
            raise kind(f"cannot use {error.filename or self._objects}: {error.strerror}") from error
        except RuntimeError as error:  # the pool is shut down
            raise StoreUnavailable(f"{self._objects} is closed") from error

    def _put(self, key: str, parts: Sequence[Buffer]) -> None:
        path = self._path(key)
        folder = os.path.dirname(path)
        upload = os.path.join(self._uploads, secrets.token_hex(16))
        try:
            with os.fdopen(self._create_upload(upload), "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
            self._link(upload, path, folder, key)
        finally:
            try:
                os.unlink(upload)
            except FileNotFoundError:
                pass
        try:
            self._sync_folder(folder)
        except OSError as error:
            raise OutcomeUnknown(f"cannot sync {folder}: {error.strerror}") from error

    def _create_upload(self, upload: str) -> int:
        for attempt in range(_ATTEMPTS):
            self._make_folder(self._uploads)
            try:
                return create_file(upload)
            except FileNotFoundError:  # somebody has removed the folder
                self._folders.discard(self._uploads)
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _link(self, upload: str, path: str, folder: str, key: str) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                self._make_folder(folder)
                os.link(upload, path)
                return
            except FileExistsError:
                if os.path.isdir(path):
                    raise ValueError(f"{key!r} is a folder of other objects") from None
                raise ObjectExists(key) from None
            except NotADirectoryError:
                raise ValueError(f"a parent of {key!r} is another object") from None
            except FileNotFoundError:
                self._folders.discard(folder)
                if attempt == _ATTEMPTS - 1:
                    raise

    def _make_folder(self, folder: str) -> None:
        if folder in self._folders:
            return None
        try:
            os.mkdir(folder, FOLDER_MODE)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise NotADirectoryError(folder) from None
        except FileNotFoundError:
            parent = os.path.dirname(folder)
            self._folders.discard(parent)
            self._make_folder(parent)
            return self._make_folder(folder)
        self._sync_folder(os.path.dirname(folder))
        self._folders.add(folder)
        return None

    def _sync_folder(self, folder: str) -> None:
        if not self._fsync:
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    async def _read(self, key: str, start: int, length: int | None) -> bytes:
        content: bytes | None = None
        try:
            if length is not None and length <= DIRECT_READ_BYTES_MAX and self.reads_directly and not self._is_closed:
                content = self._cached(key, start, length)
            if content is None:
                content = await self._run(lambda: self._pread(key, start, length))
        finally:
            self._meter.add("GetObject", Usage(object_get_requests=1, object_bytes_read=len(content or b"")))
        return content

    def _cached(self, key: str, start: int, length: int) -> bytes | None:
        """Return the range if all of it is in the system's cache; None: ask a thread, which tells errors, too."""
        assert _NO_WAIT is not None
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            content = bytearray(length)
            count = os.preadv(descriptor, (content,), start, _NO_WAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:  # not by this file system
                self.reads_directly = False
            return None
        finally:
            os.close(descriptor)
        return bytes(content) if count == length else None  # less: not cached, or the object ends

    def _pread(self, key: str, start: int, length: int | None) -> bytes:
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissing(key) from None
        try:
            status = os.fstat(descriptor)
            if not _is_file(status):
                raise ObjectMissing(key)
            end = status.st_size if length is None else min(status.st_size, start + length)
            pieces = []
            while start < end:  # one read returns at most 2 GB
                pieces.append(os.pread(descriptor, end - start, start))
                start += len(pieces[-1])
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            os.close(descriptor)

    def _head(self, key: str) -> ObjectInfo | None:
        try:
            status = os.stat(self._path(key))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _info(key, status) if _is_file(status) else None

    def _list(self, prefix: str, start_after: str, limit: int | None) -> Sequence[ObjectInfo]:
        folder = prefix.rpartition("/")[0]
        return list(islice(self._walk(folder + "/" if folder else "", prefix, start_after), limit))

    def _walk(self, folder: str, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        """Yield objects under the folder (a prefix that ends with a slash, or empty) in the order of their keys."""
        try:
            with os.scandir(self._path(folder)) as entries:
                # A folder's name with its slash sorts among the keys.
                names = sorted(folder + entry.name + ("/" if entry.is_dir() else "") for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            if name.endswith("/"):
                if _may_hold(name, prefix) and (name > start_after or start_after.startswith(name)):
                    yield from self._walk(name, prefix, start_after)
            elif name.startswith(prefix) and name > start_after:
                info = self._head(name)
                if info is not None:
                    yield info

    def _delete(self, keys: Sequence[str]) -> None:
        folders = set()
        for key in keys:
            path = self._path(key)
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (IsADirectoryError, PermissionError):
                if not os.path.isdir(path):
                    raise
                continue
            folders.add(os.path.dirname(path))
        for folder in folders:
            self._remove_empty(folder)

    def _remove_empty(self, folder: str) -> None:
        while folder != self._objects:
            self._folders.discard(folder)
            try:
                os.rmdir(folder)
            except OSError:
                return  # not empty, or already removed
            folder = os.path.dirname(folder)

    def _path(self, key: str) -> str:
        return os.path.join(self._objects, key)


def _may_hold(folder: str, prefix: str) -> bool:
    return folder.startswith(prefix) or prefix.startswith(folder)


def _is_file(status: os.stat_result) -> bool:
    return (status.st_mode & 0o170000) == 0o100000


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, status.st_mtime_ns // 1_000_000)
