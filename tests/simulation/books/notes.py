"""The ledger's notes of a write, for the other books and for the audits at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Entered(NamedTuple):
    """An entry that entered a log; `call` numbers the calls of the store: what one call wrote has one number."""

    base_offset: int
    packed: bytes
    call: int


@dataclass(frozen=True)
class StartMove:
    """A log start that rose; `entries`: how many had entered by then."""

    pk: str
    at_ms: int
    before: int
    start: int
    tail_base: int
    caller: str
    entries: int


@dataclass(frozen=True)
class LeaderEpoch:
    """A leader epoch that began."""

    epoch: int
    leader_id: int
    start: int
    caller: str


@dataclass(frozen=True)
class Commit:
    """A commit as the table applied it."""

    committer: str
    owner: str | None
    lease_epoch: int
    offset: int
    call: int
