"""One SQLite file, one writing process, one writer thread: group commit.

    callers (any thread, any event loop) ──> queue ──> writer thread: drain, evaluate all, one commit ──> futures

The writer takes all requests in its queue and evaluates each in turn against the stored items and the results of
earlier requests of the same group (a refused request changes nothing and does not affect the others). What it read or
wrote last is in memory (kept_states.py). It writes the
final state of every touched item, commits once, and only then answers. So all requests that arrived during the previous
commit share one fsync, and an item that is updated a hundred times in a group is written once.

With synchronous=NORMAL a commit waits for no disk: it takes less than two switches of threads. So a small request is
committed in its caller's thread, unless the writer is at work. Only checkpoints sync the file; the writer makes them,
and what comes meanwhile queues for it.

    item(tbl, pk, sk, data)    tbl: 0 log, 1 groups, 2 catalog, 3 rows; data: item_codec

Invariants:
* A request is answered after the commit that contains its write: with synchronous=FULL an answered write survives
  SIGKILL and power loss; with NORMAL it survives SIGKILL only.
* A second process cannot open the file for writing (flock, which the kernel releases when its holder dies).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import queue
import sqlite3
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal

from odradek.adapters.embedded.item_codec import decode_item, encode_item
from odradek.adapters.embedded.kept_states import KEPT_BYTES_MAX, KeptStates, Place
from odradek.adapters.embedded.private import create_file, make_folder
from odradek.adapters.embedded.write_ahead_log import warn_of_torn_log
from odradek.adapters.expressions import NOTHING, State, state_of
from odradek.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable

GROUP_REQUESTS_MAX: Final = 1000  # so that the first of a group does not wait for thousands
DIRECT_PLACES_MAX: Final = 16  # of a request that is committed in its caller's thread
CHECKPOINT_PAGES: Final = 1000  # about; as SQLite's own default
_PAGE_BYTES: Final = 4096
SCHEMA_VERSION: Final = 1
_APPLICATION_ID: Final = 0x4F445244  # "ODRD"
_SCHEMA: Final = """
CREATE TABLE item (
  tbl INTEGER NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (tbl, pk, sk)
) WITHOUT ROWID
"""
_UPSERT: Final = (
    "INSERT INTO item (tbl, pk, sk, data) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (tbl, pk, sk) DO UPDATE SET data = excluded.data"
)
_DELETE: Final = "DELETE FROM item WHERE tbl = ? AND pk = ? AND sk = ?"
_SELECT: Final = "SELECT data FROM item WHERE tbl = ? AND pk = ? AND sk = ?"

Synchronous = Literal["FULL", "NORMAL"]
Check = Literal["none", "quick", "full"]
_QUICK_CHECK_S: Final = 5.0  # the time limit of a check at opening; an audit checks the whole file
_CHECK_STEPS: Final = 10_000  # steps of SQLite's virtual machine between two checks of the time


# Given the states at the request's places, return the result and the new states (None: nothing to write).
Evaluate = Callable[[list[State]], tuple[Any, Sequence[State] | None]]


@dataclass(slots=True)
class _Request:
    places: Sequence[Place]
    evaluate: Evaluate
    context: Context | None  # of the caller, in another thread: what `evaluate` counts belongs to its invocation
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class _Queued(_Request):
    """A request that the writer thread answers."""

    loop: asyncio.AbstractEventLoop = field(kw_only=True)
    future: asyncio.Future[Any] = field(kw_only=True)


class _Told(Enum):
    """What the writer thread is told beside requests."""

    CHECKPOINT = "checkpoint"
    END = "end"


class Database:
    """The file `path`. Opened for writing unless `read_only`; close it to release the lock.

    Args:
        check: the extent of the check of SQLite's structure: none, a few seconds, or all of it.

    Raises StoreUnavailable: the file cannot be opened, is damaged, or is of another release.
    """

    def __init__(
        self, path: Path, *, synchronous: Synchronous = "FULL", read_only: bool = False, check: Check = "none"
    ) -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise ValueError(f"synchronous must be FULL or NORMAL, not {synchronous!r}")
        self._path = path
        self._read_only = read_only
        self._kept = KeptStates(0 if read_only else KEPT_BYTES_MAX)  # another process may write what this one reads
        self._readers: deque[sqlite3.Connection] = deque()
        self._requests: queue.SimpleQueue[_Queued | _Told] = queue.SimpleQueue()
        self._writing = threading.Lock()  # held by who uses the connection
        self._commits_directly = synchronous == "NORMAL"
        self._waiting = 0  # requests that are queued for the writer, or in its hands; under `_closing`
        self._pages = 0  # written since the last checkpoint, about; of direct commits and the groups between them
        self._closing = threading.Lock()
        self._closed = False
        self._lock_fd = -1
        if read_only:
            with self.reading() as connection:
                _refuse_foreign(connection, path)
                _refuse_damaged(connection, path, check)
            return
        self._lock_fd = _locked(path.with_name("lock"))
        try:
            warn_of_torn_log(path)
            os.close(create_file(path, os.O_RDWR))  # SQLite gives its other files the mode of this one
            self._connection = self._connect()
            _refuse_damaged(self._connection, path, check)
            _prepare(self._connection, path, synchronous)
            if self._commits_directly:
                self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        except (sqlite3.Error, OSError) as error:
            os.close(self._lock_fd)
            raise StoreUnavailable(f"cannot open {path}: {error}") from error
        except StoreUnavailable:
            os.close(self._lock_fd)
            raise
        self._thread = threading.Thread(target=self._write_forever, name="odradek-writer", daemon=True)
        self._thread.start()

    async def write(self, places: Sequence[Place], evaluate: Evaluate) -> Any:
        """Evaluate in the context of the caller, and store; return the result.

        Raises what `evaluate` raises; StoreFull, StoreUnavailable (closed, read-only), OutcomeUnknown (the commit
        itself failed).
        """
        if self._may_commit_directly(places) and self._writing.acquire(blocking=False):
            try:
                return self._write_directly(_Request(places, evaluate, None))
            finally:
                await asyncio.sleep(0)  # as a call of a store does everywhere else: others have their turn
        loop = asyncio.get_running_loop()
        queued = _Queued(places, evaluate, copy_context(), loop=loop, future=loop.create_future())
        with self._closing:
            self._refuse_unless_open()
            self._requests.put(queued)
            self._waiting += 1
        return await queued.future

    def _may_commit_directly(self, places: Sequence[Place]) -> bool:
        """Whether a request needs no thread: nobody is queued whom the next ones would overtake for good."""
        return self._commits_directly and not self._waiting and len(places) <= DIRECT_PLACES_MAX

    def _write_directly(self, request: _Request) -> Any:
        """Commit one request here, with the connection in hand; then let go of it."""
        try:
            self._refuse_unless_open()
            before = self._pages
            self._commit([request])
            if before < CHECKPOINT_PAGES <= self._pages:
                self._requests.put(_Told.CHECKPOINT)
        finally:
            self._writing.release()
        if request.error is not None:
            raise request.error
        return request.result

    def _refuse_unless_open(self) -> None:
        if self._closed or self._read_only:
            raise StoreUnavailable(f"{self._path} is " + ("opened for reading" if self._read_only else "closed"))

    def kept(self, place: Place) -> State | None:
        """Return the committed state of an item that is in memory, or None. Raises StoreUnavailable."""
        if self._closed:
            raise StoreUnavailable(f"{self._path} is closed")
        return self._kept.find(place)

    def find(self, place: Place) -> State:
        """Return the committed state of an item, from memory if it is there. Raises StoreUnavailable."""
        state = self.kept(place)
        if state is None:
            moment = self._kept.moment
            with self.reading() as connection:
                state = _selected(connection, place)
            self._kept.read(place, state, moment)
        return state

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that reads what is committed. Raises StoreUnavailable."""
        if self._closed:
            raise StoreUnavailable(f"{self._path} is closed")
        try:
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = self._connect(read_only=True)
            try:
                yield connection
            finally:
                self._readers.append(connection)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot read {self._path}: {error}") from error

    def close(self) -> None:
        """Finish queued writes, move the write-ahead log into the file, release the lock. Blocks."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._requests.put(_Told.END)
        while self._readers:
            self._readers.pop().close()
        if self._read_only:
            return
        self._thread.join()
        with self._writing:
            self._connection.close()
        os.close(self._lock_fd)

    def _connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        uri = f"{self._path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
        connection.execute("PRAGMA cache_size = -16384")  # KiB
        return connection

    # --- the writer thread ----------------------------------------------------------------------------------------

    def _write_forever(self) -> None:
        ended = False
        while not ended:
            group: list[_Queued] = []
            told: _Queued | _Told = self._requests.get()
            while True:
                if isinstance(told, _Queued):
                    group.append(told)
                elif told is _Told.END:
                    ended = True
                    break
                if len(group) == GROUP_REQUESTS_MAX:
                    break
                try:
                    told = self._requests.get_nowait()
                except queue.Empty:
                    break
            with self._writing:
                self._commit(group)
                with self._closing:
                    self._waiting -= len(group)
                _answer(group)
                if self._commits_directly and self._pages >= CHECKPOINT_PAGES:
                    self._checkpoint()

    def _checkpoint(self) -> None:
        """Move the write-ahead log into the file. A failure is one of the next commit, as with SQLite's own."""
        self._pages = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:
            pass

    def _commit(self, group: Sequence[_Request]) -> None:
        """Evaluate and store a group; afterwards every request has its result or its error."""
        states: dict[Place, State] = {}
        changed: set[Place] = set()
        created: set[Place] = set()  # hardly any new item is read soon; what is read is kept then
        for request in group:
            try:
                olds = [self._load(place, states) for place in request.places]
                if request.context is None:
                    request.result, news = request.evaluate(olds)
                else:
                    request.result, news = request.context.run(request.evaluate, olds)
            except Exception as error:
                request.error = _translated(error)
                continue
            for place, old, new in zip(request.places, olds, news or (), strict=bool(news)):
                if new is not old:
                    states[place] = new
                    changed.add(place)
                    if old.item is None:
                        created.add(place)
        if not changed:
            return
        self._kept.begin(changed)
        refusal: StoreError | None = None
        try:
            refusal = self._store({place: states[place] for place in changed})
        finally:
            kept = changed - created if refusal is None else ()
            self._kept.end({place: states[place] for place in kept})
        if refusal is not None:
            for request in group:
                request.error = refusal

    def _load(self, place: Place, states: dict[Place, State]) -> State:
        state = states.get(place)
        if state is None:
            state = states[place] = self._kept.find(place) or _selected(self._connection, place)
        return state

    def _store(self, states: dict[Place, State]) -> StoreError | None:
        """Write the states in one transaction. Return the error for the whole group, or None."""
        execute = self._connection.execute
        committing = False
        try:
            execute("BEGIN IMMEDIATE")
            for (table, key), state in states.items():
                if state.item is None:
                    execute(_DELETE, (table, *key))
                else:
                    data = encode_item(state.item)
                    self._pages += 1 + len(data) // _PAGE_BYTES
                    execute(_UPSERT, (table, *key, data))
            committing = True
            execute("COMMIT")
        except Exception as error:
            self._roll_back()
            # A commit may fail after its bytes have reached the log on disk; a full disk fails before that.
            if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
                return StoreFull(f"cannot write {self._path}: {error}")
            if committing:
                return OutcomeUnknown(f"commit to {self._path} failed: {error}")
            return StoreUnavailable(f"cannot write {self._path}: {error}")
        return None

    def _roll_back(self) -> None:
        """Roll back the transaction. If even that fails, the next BEGIN fails and reports it to its callers."""
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                pass


def _selected(connection: sqlite3.Connection, place: Place) -> State:
    """Read the state of an item. Raises sqlite3.Error."""
    row = connection.execute(_SELECT, (place.table, *place.key)).fetchone()
    return NOTHING if row is None else state_of(place.key, decode_item(row[0]))


def _answer(group: Sequence[_Queued]) -> None:
    """Resolve the futures, each in its event loop, with one wake-up per loop."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[_Queued]] = defaultdict(list)
    for request in group:
        by_loop[request.loop].append(request)
    for loop, requests in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, requests)
        except RuntimeError:
            continue  # the loop is closed: no caller waits


def _resolve(requests: Sequence[_Queued]) -> None:
    for request in requests:
        if request.future.done():
            continue  # cancelled while it waited; its write remains
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)


def _translated(error: Exception) -> Exception:
    return StoreUnavailable(f"cannot read the store: {error}") if isinstance(error, sqlite3.Error) else error


def _locked(path: Path) -> int:
    """Hold the lock file; return its descriptor. Raises StoreUnavailable."""
    try:
        make_folder(path.parent)
        descriptor = create_file(path, os.O_RDWR)
    except OSError as error:
        raise StoreUnavailable(f"cannot write to {path.parent}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise StoreUnavailable(
            f"{path.parent} is in use by another process ({holder}): a store has one writer, stop that process first"
        ) from error
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        os.close(descriptor)
        raise StoreUnavailable(f"cannot write to {path.parent}: {error.strerror}") from error
    return descriptor


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreUnavailable for a file of another release, or of another program. Raises sqlite3.Error."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StoreUnavailable(
            f"{path} was written by a newer release of Odradek (version {version}; this one knows {SCHEMA_VERSION}): "
            "install that release; nothing was changed"
        )
    if version != SCHEMA_VERSION:
        raise StoreUnavailable(f"{path} is not a database of Odradek (version {version}, not {SCHEMA_VERSION})")


def _refuse_damaged(connection: sqlite3.Connection, path: Path, check: Check) -> None:
    """Raise StoreUnavailable if SQLite finds its structure damaged.

    SQLite keeps no checksum of the data; the log's audit finds damaged bytes.
    Source: sqlite.org/pragma.html#pragma_quick_check.
    """
    if check == "none":
        return
    deadline = time.monotonic() + _QUICK_CHECK_S
    if check == "quick":
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _CHECK_STEPS)
    try:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            return  # the time is over, and no damage has been found
        verdict = str(error)
    finally:
        connection.set_progress_handler(None, 0)
    if verdict != "ok":
        raise StoreUnavailable(
            f"{path} is damaged ({' '.join(str(verdict).split())}): restore a backup (`odradek restore`); "
            "nothing was changed"
        )


def _prepare(connection: sqlite3.Connection, path: Path, synchronous: Synchronous) -> None:
    """Set the connection up and create the schema in a new file. Raises sqlite3.Error, StoreUnavailable."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    is_new = version == 0 and not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if not is_new:
        _refuse_foreign(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    if not is_new:
        return
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_SCHEMA)
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")
