"""Users who log in with SASL: an item each in the catalog, salted keys only (format/scram.py).

    Key                   Value                                                                  Lifetime
    users   <name>        v: format version 1; for each mechanism a map                          created .. deleted
                          {s: salt, i: iterations, k: stored key, vk: server key}

    logins  salts         v, s: random bytes from which salts of unknown names are derived        first login .. ever

Writing a credential again replaces its password; existing connections stay open. Writing is idempotent, so an unknown
outcome is repeated; a deletion that is repeated after it was applied may report that there was nothing to delete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from odradek.backoff import Backoff
from odradek.engine.partition.fields import attribute, check_version, is_version, is_version_or_absent
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
)
from odradek.format.item_keys import LOGIN_SALTS_SK, LOGINS_PK, USERS_PK
from odradek.format.scram import ITERATIONS, ITERATIONS_MAX, ITERATIONS_MIN, SALT_BYTES, credential_of, salt_password
from odradek.model.user import SCRAM_MECHANISMS, SaslMechanism, ScramCredential, User
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Absent, Delete, Exists, Item, Key, Put, Remove, Set, Table, Update, Value, all_of

VERSION = 1
NAME_BYTES_MAX = 255
SALT_BYTES_MAX = 1024  # that clients send; ours have 20 or so
_SECRET_BYTES = 32
_ATTEMPTS = 6


class Users:
    """The users of a cluster."""

    def __init__(self, catalog: Table, clock: Clock, rng: Rng) -> None:
        self._catalog = catalog
        self._rng = rng
        self._backoff = Backoff(clock, rng, first_s=0.05, max_s=2.0)
        self._secret: bytes | None = None

    async def secret(self) -> bytes:
        """Return the secret that salts of unknown names are derived from; it is the same in every process.

        Raises StoreUnavailable, OutcomeUnknown, FormatError.
        """
        if self._secret is None:
            key = Key(LOGINS_PK, LOGIN_SALTS_SK)
            item = await self._catalog.get(key)
            if item is None:
                made: Item = {"v": VERSION, "s": self._rng.random_bytes(_SECRET_BYTES)}
                try:
                    await self._catalog.put(Put(key, made, Absent(("s",))))
                except ConditionFailed:
                    item = await self._catalog.get(key)
                else:
                    item = made
            check_version(item or {}, VERSION, "the secret of logins")
            self._secret = attribute(item or {}, "s", bytes)
        return self._secret

    async def create(self, name: str, password: str) -> User:
        """Create a user who can log in with every mechanism, or change the password of one. Raises KafkaError."""
        if not password:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the password is empty")
        credentials = {}
        for mechanism in SCRAM_MECHANISMS:
            salt = self._rng.random_bytes(SALT_BYTES)
            salted = salt_password(mechanism, password, salt, ITERATIONS)
            credentials[mechanism] = credential_of(mechanism, salted, salt, ITERATIONS)
        user = User(name, credentials)
        await self.put(user)
        return user

    async def put(self, user: User) -> None:
        """Store these credentials; others of the user stay. Raises KafkaError: UNACCEPTABLE_CREDENTIAL,
        COORDINATOR_NOT_AVAILABLE."""
        _check_name(user.name)
        for credential in user.credentials.values():
            if not ITERATIONS_MIN <= credential.iterations <= ITERATIONS_MAX:
                raise KafkaError(
                    ErrorCode.UNACCEPTABLE_CREDENTIAL,
                    f"iterations must be between {ITERATIONS_MIN} and {ITERATIONS_MAX}, not {credential.iterations}",
                )
            if len(credential.salt) > SALT_BYTES_MAX:
                raise KafkaError(
                    ErrorCode.UNACCEPTABLE_CREDENTIAL,
                    f"a salt may have at most {SALT_BYTES_MAX} bytes, not {len(credential.salt)}",
                )
        actions = [Set((name,), value) for name, value in _encode(user).items()]
        update = Update(Key(USERS_PK, user.name), tuple(actions), is_version_or_absent(VERSION))
        try:
            await self._repeat(lambda: self._catalog.update(update))
        except ConditionFailed as refused:
            check_version(refused.current or {}, VERSION, f"user {user.name}")

    async def get(self, name: str) -> User | None:
        """The user, or None. Raises StoreUnavailable, FormatError."""
        if not name or len(name.encode()) > NAME_BYTES_MAX:
            return None
        item = await self._catalog.get(Key(USERS_PK, name))
        return None if item is None else _decode(name, item)

    async def list(self) -> list[User]:
        """All users in the order of their names. Raises StoreUnavailable, FormatError."""
        return [_decode(row.key.sk, row.item) for row in await self._catalog.query(USERS_PK)]

    async def delete(self, name: str, mechanism: SaslMechanism) -> None:
        """Remove a credential, and with the last one the user; existing connections stay open.

        Raises KafkaError: RESOURCE_NOT_FOUND, COORDINATOR_NOT_AVAILABLE.
        """
        key = Key(USERS_PK, name)
        is_there = all_of(is_version(VERSION), Exists((mechanism.value,)))
        nothing = all_of(*(Absent((each.value,)) for each in SCRAM_MECHANISMS))
        if not name or len(name.encode()) > NAME_BYTES_MAX:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND, f"invalid user name: it must have 1 to {NAME_BYTES_MAX} bytes"
            )
        try:
            await self._repeat(lambda: self._catalog.update(Update(key, (Remove((mechanism.value,)),), is_there)))
        except ConditionFailed as refused:
            if refused.current is not None:
                check_version(refused.current, VERSION, f"user {name}")
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"{name!r} has no {mechanism.value} credential") from None
        try:
            await self._repeat(lambda: self._catalog.delete(Delete(key, nothing)))
        except (ConditionFailed, ItemTooLarge, StoreRejected):
            return  # another credential is left, or what is left names none

    async def _repeat(self, write: Callable[[], Awaitable[object]]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                await write()
            except (StoreUnavailable, OutcomeUnknown):
                await self._backoff.pause(attempt)
            else:
                return
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the catalog table cannot be reached: try again")


def _check_name(name: str) -> None:
    if not name or len(name.encode()) > NAME_BYTES_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the name of a user must have 1 to {NAME_BYTES_MAX} bytes")


def _encode(user: User) -> Item:
    item: Item = {"v": VERSION}
    for mechanism, credential in user.credentials.items():
        stored: dict[str, Value] = {
            "s": credential.salt,
            "i": credential.iterations,
            "k": credential.stored_key,
            "vk": credential.server_key,
        }
        item[mechanism.value] = stored
    return item


def _decode(name: str, item: Item) -> User:
    check_version(item, VERSION, f"user {name}")
    credentials = {}
    for mechanism in SCRAM_MECHANISMS:
        if mechanism.value in item:
            stored = attribute(item, mechanism.value, dict)
            credentials[SaslMechanism(mechanism)] = ScramCredential(
                attribute(stored, "s", bytes),
                attribute(stored, "i", int),
                attribute(stored, "k", bytes),
                attribute(stored, "vk", bytes),
            )
    return User(name, credentials)
