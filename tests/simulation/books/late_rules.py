"""Permitted effects of a write whenever it comes, by the kind of its item: pure, over the ledger's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.engine.groups.items import GROUP_SK, MEMBER_PREFIX
from odradek.engine.groups.leases import LEASE_PREFIX
from odradek.engine.partition.shared_head import PAGE_PREFIX
from odradek.engine.share.items import share_partition
from odradek.format.item_keys import (
    CLEAN_SK,
    HEAD_SK,
    INDEX_PREFIX,
    LEASE_SK,
    PRODUCER_PREFIX,
    SHARE_PARTITION_PREFIX,
    TRANSACTION_PREFIX,
    TRANSACTIONAL_IDS_PK,
    group_pk,
    index_base_offset,
)
from odradek.format.tail_entry import decode_tail_entry
from odradek.ports.table import Item, Key

from tests.simulation.books.classic_book import is_signed
from tests.simulation.books.group_book import foreign_commit
from tests.simulation.books.items import own_leases
from tests.simulation.books.producer_book import ProducerBook, is_shared

if TYPE_CHECKING:
    from tests.simulation.books.ledger import Ledger

_NOBODY = b""
RISING = {
    "no": "next offset",
    "ls": "log start",
    "tb": "tail base",
    "mo": "merged offset",
    "sf": "spill floor",
    "wf": "sweep floor",
    "le": "leader epoch",
    "by": "appended bytes",
}


class LateRules:
    """The rules, by what is known of the logs.

    Args:
        ledger: of the run.
        producers: what logs know of their producers.
    """

    def __init__(self, ledger: Ledger, producers: ProducerBook) -> None:
        self._ledger = ledger
        self._producers = producers

    def why_not(self, sender: str, table: str, key: Key, old: Item | None, new: Item | None, is_alone: bool) -> str:
        """Why the sender must not turn the old item into the new one (None: there is none); empty: it may.

        Args:
            is_alone: it is no transaction: those ask no leader.
        """
        if table == "groups":
            return self._of_groups(key, old, new)
        if table == "catalog":
            return _versioned(old, new) if key.pk == TRANSACTIONAL_IDS_PK else ""
        if key.pk.startswith(TRANSACTION_PREFIX):
            return _pending(key, old, new)
        if not self._ledger.is_readable(key.pk):
            return ""
        if key.sk == HEAD_SK and is_shared(key.pk):
            return self._shared_head(sender if is_alone else "", key.pk, old, new)
        if key.sk.startswith(PAGE_PREFIX):
            head = self._ledger.shared.heads.get(key.pk)
            is_believed = old is None and head is not None and head.indexed <= int(key.sk[2:]) < head.paged
            return "a page that was deleted comes back, and readers believe it" if is_believed else ""
        if key.sk == HEAD_SK:
            return self._head(sender if is_alone else "", key.pk, old, new)
        if key.sk.startswith(INDEX_PREFIX):
            return self._row(key, old, new)
        if key.sk.startswith(PRODUCER_PREFIX):
            if new is None:
                return "" if self._ledger.upkeep.is_silent(old) else "a producer that came back is forgotten"
            return "the producer's row gets older" if _falls("o", old, new) else ""
        if key.sk == CLEAN_SK:
            return self._unmaintained(key.pk)
        if key.sk == LEASE_SK and old is not None and new is not None:
            is_taken = new["h"] not in (_NOBODY, old["h"])
            return "the lease is taken within its epoch" if new["e"] < old["e"] + is_taken else ""  # type: ignore[operator]
        return ""

    # --- logs -------------------------------------------------------------------------------------------------------

    def _shared_head(self, sender: str, pk: str, old: Any, new: Any) -> str:
        if old is None or new is None:
            return ""
        for name, meaning in (("q", "number of elements paged out"), ("c", "number of elements in rows")):
            if new[name] < old[name]:
                return f"the {meaning} falls from {old[name]} to {new[name]}"
        before, after = self._ledger.shared.views(pk, old), self._ledger.shared.views(pk, new)
        if after is None:
            return "pages are missing"
        for own_pk, view in after.items():
            if reason := self._head(sender, own_pk, (before or {}).get(own_pk), view):
                return f"{own_pk}: {reason}"
        return ""

    def _head(self, sender: str, pk: str, old: Any, new: Any) -> str:
        if old is None or new is None:
            return ""
        for name, meaning in RISING.items():
            if new[name] < old[name]:
                return f"the {meaning} falls from {old[name]!r} to {new[name]!r}"
        if new["li"] != old["li"] and new["le"] <= old["le"]:
            return f"the leader changes within epoch {new['le']}"
        if new["ls"] > new["no"]:
            return "the log start passes the next offset"
        entries = [decode_tail_entry(packed) for packed in new["t"]]
        if new["tb"] + sum(entry.offset_count for entry in entries) != new["no"]:
            return "the tail does not end at the next offset"
        if new["no"] > old["no"]:
            return self._append(sender, pk, old, new)
        return self._producers.why_not_leave(
            pk, (int(producer_id) for producer_id in old["p"].keys() - new["p"].keys())
        )

    def _append(self, sender: str, pk: str, old: Any, new: Any) -> str:
        [packed, *_] = fresh = new["t"][len(old["t"]) :]
        entry = decode_tail_entry(packed)
        if any(self._ledger.has_entered(pk, entry) for entry in fresh):
            return f"the entry with the commit time {entry.commit_ms} enters a second time"
        if entry.commit_ms <= old["sf"]:
            return "an entry enters with a commit time below the spill floor"
        if entry.object_id < old["wf"]:
            return "an entry enters below the sweep floor"
        taker = self._ledger.taker(pk)
        if new["li"] and sender and taker != sender:
            return f"an append under epoch {new['le']}, which {taker} took"
        wrong = self._producers.why_not(pk, entry) if entry.producer_id >= 0 else ""
        return f"the batch {wrong}" if wrong else ""

    def _row(self, key: Key, old: Any, new: Any) -> str:
        if old is not None:
            return self._unmaintained(key.pk)
        head: Any = self._ledger.heads[key.pk]
        base = index_base_offset(key.sk)
        is_believed = new is not None and new["k"] == "w" and head["mo"] <= base < head["tb"]
        return "a row that was removed comes back, and readers believe it" if is_believed else ""

    def _unmaintained(self, pk: str) -> str:
        lease = self._ledger.log_rows(pk).get(LEASE_SK)
        return "nobody holds the maintenance lease" if lease is None or lease["h"] == _NOBODY else ""

    # --- groups -----------------------------------------------------------------------------------------------------

    def _of_groups(self, key: Key, old: Any, new: Any) -> str:
        if key.sk.startswith(LEASE_PREFIX):
            reasons = (self._commit(own, before, after) for own, before, after in own_leases(key, old, new))
            return next(filter(None, reasons), "")
        if key.sk == GROUP_SK and new is not None and old is not None and new.get("k") != old.get("k"):
            return ""  # the group becomes one of the other protocol
        if key.sk.startswith(SHARE_PARTITION_PREFIX) and old is not None and new is not None and old["i"] != new["i"]:
            return "the window is of another incarnation"
        if key.sk.startswith(SHARE_PARTITION_PREFIX) and old is None and new is not None:
            is_there = self._ledger.is_live(share_partition(key.sk).topic_id)
            return "" if is_there else "a window of a deleted topic is made"
        if (
            key.sk.startswith(MEMBER_PREFIX)
            and new is not None
            and (reason := self._ledger.groups.why_not_hold(key, new))
        ):
            return reason
        is_versioned = key.sk == GROUP_SK or key.sk.startswith((MEMBER_PREFIX, SHARE_PARTITION_PREFIX))
        return _versioned(old, new) if is_versioned else ""

    def _commit(self, key: Key, old: Any, new: Any) -> str:
        if new is None or "c" not in new or (old is not None and new["c"] == old.get("c") and new["f"] == old["f"]):
            return ""
        if old is not None and new["c"] <= old.get("c", -1):
            return f"a commit with the stamp {new['c']} comes after one with {old['c']}"
        metadata, owner = new["m"], new.get("o")
        if owner is None and is_signed(metadata):
            return self._ledger.classic.why_not(key.pk.removeprefix(group_pk("")), metadata)
        return foreign_commit(metadata, owner, new.get("e", -1))


def _versioned(old: Any, new: Any) -> str:
    if old is None or new is None:
        return ""
    if new["n"] <= old["n"]:
        return f"version {new['n']} follows {old['n']}"
    return ""


def _pending(key: Key, old: Any, new: Any) -> str:
    if old is None or new is None:
        return ""
    if key.sk.split("#", 2)[1] == "b":
        return "the pending batches are written again"
    return "an older offset takes the place of a later one" if _falls("c", old, new) else ""


def _falls(name: str, old: Any, new: Any) -> bool:
    return old is not None and new is not None and new[name] < old[name]
