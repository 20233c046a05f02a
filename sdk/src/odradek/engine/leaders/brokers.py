"""The registration of gateways as brokers: identity, address, and liveness.

Key (catalog): `brokers` / `<broker id>`. Lifetime: for ever; a broker that leaves sets `x` to 0. So where there is no
row at all, no gateway has ever led anything and every partition is the fleet's at epoch 0.

    v   format version 1
    i   incarnation: 16 random bytes of the process
    n   version: one higher with every write
    h   host        p   port        r   rack (absent: none)
    d   session, ms: the silence after which others may lead in its place
    x   when that silence is over by its own clock, ms; 0: it has left
    g   1: it is going, and takes nothing any more (absent: no)

    register   the row as a whole   on condition that it is absent, or n is as seen and that session is over
    renew      x, n + 1             on condition that i is ours
    retire     g, n + 1             on condition that i is ours
    release    x = 0, n + 1         on condition that i is ours

A registration only tells others whether to try to take over; no safety rests on it (partition/claims.py). An observing
process keeps what it saw (`Sighting`): a registration whose version has not changed for a session is over, whatever the
clocks say. If the version changed although its time was over, the clocks disagree: from then on only an unchanged
version counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from odradek.backoff import Backoff
from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import ConditionFailed, ErrorCode, KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.format.item_keys import BROKERS_PK
from odradek.model.cluster import FLEET_BROKER_ID, Broker
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Absent, Action, Add, Compare, Condition, Item, Key, Put, Set, Table, Update, all_of
from odradek.settings import Settings

VERSION = 1

_LEFT_MS = 0
_ATTEMPTS = 5
_BROKER_ID_MAX = 2**31 - 1


class RegistrationLost(Exception):
    """Another incarnation of this broker id has registered: this process must stop acting for it."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker's row."""

    broker: Broker
    incarnation: bytes
    version: int
    session_ms: int
    expires_ms: int  # by the broker's clock; 0: it has left
    is_going: bool = False


@dataclass(frozen=True, slots=True)
class Sighting:
    """An observation of a registration by one process."""

    incarnation: bytes
    version: int
    since_s: float  # monotonic: when this version was first seen
    was_over: bool = False  # by the clock, when it was last looked at
    clocks_disagree: bool = False


def look(before: Sighting | None, found: Registration, now_ms: int, now_s: float) -> Sighting:
    """The sighting after another look."""
    was_over = now_ms >= found.expires_ms
    if before is None or before.incarnation != found.incarnation:
        return Sighting(found.incarnation, found.version, now_s, was_over)
    if before.version == found.version:
        return replace(before, was_over=was_over)
    return Sighting(
        found.incarnation, found.version, now_s, was_over, clocks_disagree=before.clocks_disagree or before.was_over
    )


def is_over(found: Registration, sighting: Sighting, now_ms: int, now_s: float) -> bool:
    """Return True if the broker may be regarded as dead."""
    if found.expires_ms == _LEFT_MS or (now_s - sighting.since_s) * 1000 >= found.session_ms:
        return True
    return now_ms >= found.expires_ms and not sighting.clocks_disagree


class Brokers:
    """The registry: this process's own registration, if it has one, and a look at the others'."""

    def __init__(self, catalog: Table, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._catalog = catalog
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(clock, rng, first_s=0.05, max_s=1.0)
        self._settings = settings
        self._sightings: dict[int, Sighting] = {}
        self._rows: dict[int, tuple[float, Registration | None]] = {}
        self._all: tuple[float, list[Registration]] | None = None
        self.own: Registration | None = None

    # --- our own --------------------------------------------------------------------------------------------------

    async def register(self, broker: Broker) -> Registration:
        """Register this process as the broker.

        Raises KafkaError: INVALID_REQUEST for the fleet's id; DUPLICATE_BROKER_REGISTRATION while another incarnation
            of the id is alive: wait for its session to end, or choose another id; BROKER_NOT_AVAILABLE where the
            store did not answer.
        """
        if not FLEET_BROKER_ID < broker.broker_id <= _BROKER_ID_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a broker id must be 1 to {_BROKER_ID_MAX}; {FLEET_BROKER_ID} belongs to the functions",
            )
        incarnation = self._rng.random_bytes(16)
        for attempt in range(_ATTEMPTS):
            try:
                found = await self._read(broker.broker_id)
                if found is not None and found.incarnation == incarnation:
                    self.own = found  # an attempt whose answer was lost
                    return found
                if found is not None and not self._is_over(found):
                    raise KafkaError(
                        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                        f"broker {broker.broker_id} is running at {found.broker.host}:{found.broker.port}: stop it, "
                        f"wait {found.session_ms} ms after it died, or choose another id",
                    )
                row = Registration(
                    broker,
                    incarnation,
                    version=1 if found is None else found.version + 1,
                    session_ms=self._settings.broker_session_ms,
                    expires_ms=self._clock.now_ms() + self._settings.broker_session_ms,
                )
                condition: Condition = Absent(("v",)) if found is None else Compare(("n",), "=", found.version)
                await self._catalog.put(Put(_key(broker.broker_id), _encode(row), condition))
            except (ConditionFailed, OutcomeUnknown):
                continue  # the next look shows whose row it is
            except StoreUnavailable:
                await self._backoff.pause(attempt)
            else:
                self.own = row
                return row
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker.broker_id} could not be registered: try again"
        )

    async def renew(self) -> None:
        """Say that we are still there. Raises RegistrationLost; StoreUnavailable, OutcomeUnknown: say it again."""
        await self._update(Set(("x",), self._clock.now_ms() + self._registered().session_ms))

    async def retire(self) -> None:
        """Say that we are about to leave, so that others get what we lead. Raises as `renew`."""
        await self._update(Set(("g",), 1))

    async def _update(self, action: Action) -> None:
        own = self._registered()
        update = Update(_key(own.broker.broker_id), (action, Add(("n",), 1)), _is_own(own))
        try:
            item = await self._catalog.update(update)
        except ConditionFailed:
            self.own = None
            raise RegistrationLost(f"broker {own.broker.broker_id} was registered by another process") from None
        self.own = _decode(own.broker.broker_id, item)

    async def release(self) -> None:
        """Deregister, so that others need not wait for the session's end. After an error the session expires."""
        own, self.own = self.own, None
        if own is None:
            return
        actions = (Set(("x",), _LEFT_MS), Add(("n",), 1))
        try:
            await self._catalog.update(Update(_key(own.broker.broker_id), actions, _is_own(own)))
        except (ConditionFailed, OutcomeUnknown, StoreUnavailable):
            return

    def _registered(self) -> Registration:
        if self.own is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this process is not registered as a broker: register it")
        return self.own

    # --- the others' ----------------------------------------------------------------------------------------------

    async def find(self, broker_id: int) -> Registration | None:
        """Return a broker's live registration, at most `leader_cache_ms` old, or None. Raises StoreUnavailable."""
        read_s, found = self._rows.get(broker_id, (0.0, None))
        if broker_id not in self._rows or self._is_stale(read_s):
            found = await self._read(broker_id)
            self._rows[broker_id] = (self._clock.monotonic(), found)
        return None if found is None or self._is_over(found) else found

    async def alive(self) -> list[Registration]:
        """All registrations that are not over, by id, at most `leader_cache_ms` old. Raises StoreUnavailable."""
        return [found for found in await self._everyone() if not self._is_over(found)]

    async def takers(self) -> list[Broker]:
        """Those of them that take heads: all but the ones that are going. Raises StoreUnavailable."""
        return [found.broker for found in await self.alive() if not found.is_going]

    async def ever(self) -> bool:
        """Return True if a gateway ever registered; at most `leader_cache_ms` old. Raises StoreUnavailable."""
        return bool(await self._everyone())

    async def _everyone(self) -> list[Registration]:
        if self._all is None or self._is_stale(self._all[0]):
            rows = await self._catalog.query(BROKERS_PK)
            found = [_decode(int(row.key.sk), row.item) for row in rows]
            self._all = (self._clock.monotonic(), sorted(found, key=lambda each: each.broker.broker_id))
        return self._all[1]

    async def _read(self, broker_id: int) -> Registration | None:
        item = await self._catalog.get(_key(broker_id))
        return None if item is None else _decode(broker_id, item)

    def _is_stale(self, read_s: float) -> bool:
        return (self._clock.monotonic() - read_s) * 1000 >= self._settings.leader_cache_ms

    def _is_over(self, found: Registration) -> bool:
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic()
        broker_id = found.broker.broker_id
        seen = self._sightings[broker_id] = look(self._sightings.get(broker_id), found, now_ms, now_s)
        return is_over(found, seen, now_ms, now_s)


def _key(broker_id: int) -> Key:
    return Key(BROKERS_PK, str(broker_id))


def _is_own(own: Registration) -> Condition:
    return all_of(Compare(("v",), "=", VERSION), Compare(("i",), "=", own.incarnation))


def _encode(row: Registration) -> Item:
    item: Item = {
        "v": VERSION,
        "i": row.incarnation,
        "n": row.version,
        "h": row.broker.host,
        "p": row.broker.port,
        "d": row.session_ms,
        "x": row.expires_ms,
    }
    if row.broker.rack is not None:
        item["r"] = row.broker.rack
    if row.is_going:
        item["g"] = 1
    return item


def _decode(broker_id: int, item: Item) -> Registration:
    check_version(item, VERSION, "a broker")
    return Registration(
        Broker(
            broker_id,
            attribute(item, "h", str),
            attribute(item, "p", int),
            attribute(item, "r", str) if "r" in item else None,
        ),
        incarnation=attribute(item, "i", bytes),
        version=attribute(item, "n", int),
        session_ms=attribute(item, "d", int),
        expires_ms=attribute(item, "x", int),
        is_going="g" in item,
    )
