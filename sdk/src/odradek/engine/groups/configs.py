"""Configurations of groups (KIP-848, 932, 1191, 1263): their values, bounds, and storage.

Catalog table:

    group-configs   <group id>   {"v": 1, "n": version, "c": {name: value}}    overrides only

A group need not exist to be configured, and its configuration outlives it, as in Kafka. Those named `consumer.` are of
consumer groups, those named `streams.` of streams groups, the others of share groups.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TypeVar

from odradek.backoff import Backoff
from odradek.engine.catalog.config_values import Check, ConfigType, boolean, canonical, one_of, split_list, whole_number
from odradek.engine.catalog.topic_configs import VALUE_CHARACTERS_MAX
from odradek.engine.groups.requests import check_group_id
from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import ConditionFailed, ErrorCode, KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.format.item_keys import GROUP_CONFIGS_PK
from odradek.limits import SHARE_RECORD_LOCKS_MAX
from odradek.model.share import SharePolicy
from odradek.model.topic import ConfigEntry
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Absent, Compare, Item, Key, Put, Table, Value
from odradek.settings import Settings

R = TypeVar("R")

VERSION = 1
EARLIEST, LATEST = "earliest", "latest"
BY_DURATION = "by_duration:"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
CONSUMER_HEARTBEAT, CONSUMER_SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
STREAMS_HEARTBEAT, STREAMS_SESSION = "streams.heartbeat.interval.ms", "streams.session.timeout.ms"
STREAMS_INTERVAL = "streams.assignment.interval.ms"
STREAMS_STANDBYS, STREAMS_DELAY = "streams.num.standby.replicas", "streams.initial.rebalance.delay.ms"
STANDBYS_MAX = 2  # as on Apache Kafka
STREAMS_DELAY_MS_MAX = 300_000
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
_INT_MAX = 2**31 - 1
_ATTEMPTS = 8
_READ_ATTEMPTS = 5
_REMEMBERED_MAX = 10_000
_COPIES_OF_HEARTBEATS = 12
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.ASCII)
_UNIT_MS = (86_400_000, 3_600_000, 60_000, 1_000)
_unavailable = partial(
    KafkaError, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the catalog table cannot be reached: try again"
)


def duration_ms(text: str) -> int | None:
    """Parse an ISO 8601 duration of days, hours, minutes and seconds; return None for another text.

    Only seconds may have a fraction, of which whole milliseconds count.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    return sum(int(Fraction(number or 0) * unit_ms) for number, unit_ms in zip(match.groups(), _UNIT_MS, strict=True))


def _is_reset(text: str) -> bool:
    if text.startswith(BY_DURATION):
        return duration_ms(text.removeprefix(BY_DURATION)) is not None
    return text in (EARLIEST, LATEST)


def _is_set(text: str) -> bool:
    parts = split_list(text)
    return len(set(parts)) == len(parts)


def _broker_config(name: str) -> str:
    """The broker's configuration that is the default of a group's, as DescribeConfigs tells it."""
    return _OTHER_BROKER_CONFIGS.get(name, f"group.{name}")


def _always(value: str) -> Callable[[Settings], str]:
    return lambda settings: value


@dataclass(frozen=True, slots=True)
class _Definition:
    type: ConfigType
    default: Callable[[Settings], str]
    documentation: str
    check: Check


DEFINITIONS: Mapping[str, _Definition] = {
    ASSIGNMENT_INTERVAL: _Definition(
        ConfigType.INT,
        lambda settings: str(settings.group_assignment_interval_ms),
        "Between two computations of a consumer group's assignment, at least: 0 to 15000.",
        whole_number(0, 15_000),
    ),
    CONSUMER_HEARTBEAT: _Definition(
        ConfigType.INT,
        lambda settings: str(settings.group_heartbeat_interval_ms),
        "Between two heartbeats of a consumer group's member (KIP-848).",
        whole_number(1_000, 60_000),
    ),
    CONSUMER_SESSION: _Definition(
        ConfigType.INT,
        lambda settings: str(settings.group_session_timeout_ms),
        "Silence after which a consumer group's member is removed (KIP-848).",
        whole_number(6_000, 1_800_000),
    ),
    STREAMS_HEARTBEAT: _Definition(
        ConfigType.INT,
        lambda settings: str(settings.group_heartbeat_interval_ms),
        "Between two heartbeats of a streams group's member (KIP-1071).",
        whole_number(1_000, 60_000),
    ),
    STREAMS_SESSION: _Definition(
        ConfigType.INT,
        lambda settings: str(settings.group_session_timeout_ms),
        "Silence after which a streams group's member is removed (KIP-1071).",
        whole_number(6_000, 1_800_000),
    ),
    STREAMS_STANDBYS: _Definition(
        ConfigType.INT,
        lambda _: "0",
        f"Standby replicas of each stateful task of a streams group: 0 to {STANDBYS_MAX}.",
        whole_number(0, STANDBYS_MAX),
    ),
    STREAMS_DELAY: _Definition(
        ConfigType.INT,
        lambda settings: str(settings.group_initial_rebalance_delay_ms),
        f"Time in which the first members of an empty streams group wait for others: 0 to {STREAMS_DELAY_MS_MAX}.",
        whole_number(0, STREAMS_DELAY_MS_MAX),
    ),
    STREAMS_INTERVAL: _Definition(
        ConfigType.INT,
        lambda settings: str(settings.group_assignment_interval_ms),
        "Between two computations of a streams group's assignment, at least: 0 to 15000.",
        whole_number(0, 15_000),
    ),
    "streams.assignor.name": _Definition(
        ConfigType.STRING,
        _always(""),
        "No effect: the assignor is sticky.",
        Check(lambda text: True, "a name of an assignor, or empty"),
    ),
    "streams.rack.aware.assignment.tags": _Definition(
        ConfigType.LIST,
        _always(""),
        "No effect: standbys are distributed by processes.",
        Check(_is_set, "keys of client tags with commas, each once"),
    ),
    "share.assignment.interval.ms": _Definition(
        ConfigType.INT,
        _always("1000"),
        "No effect: every member of a share group is assigned everything.",
        whole_number(0, _INT_MAX),
    ),
    "share.heartbeat.interval.ms": _Definition(
        ConfigType.INT,
        lambda settings: str(settings.group_heartbeat_interval_ms),
        "Between two heartbeats of a member.",
        whole_number(1_000, 60_000),
    ),
    "share.session.timeout.ms": _Definition(
        ConfigType.INT,
        lambda settings: str(settings.group_session_timeout_ms),
        "Silence after which a member is removed.",
        whole_number(6_000, 1_800_000),
    ),
    "share.record.lock.duration.ms": _Definition(
        ConfigType.INT,
        lambda settings: str(settings.share_record_lock_duration_ms),
        "How long a delivered record is its member's: 1000 to 3600000.",
        whole_number(1_000, 3_600_000),
    ),
    "share.delivery.count.limit": _Definition(
        ConfigType.INT,
        lambda settings: str(settings.share_delivery_count_limit),
        "Deliveries after which a record is given up: 1 to 10.",
        whole_number(1, 10),
    ),
    "share.partition.max.record.locks": _Definition(
        ConfigType.INT,
        lambda settings: str(settings.share_partition_max_record_locks),
        f"Records of a partition between the oldest that is not done and the newest delivered: 100 to "
        f"{SHARE_RECORD_LOCKS_MAX}.",
        whole_number(100, SHARE_RECORD_LOCKS_MAX),
    ),
    "share.auto.offset.reset": _Definition(
        ConfigType.STRING,
        lambda _: LATEST,
        "Where the group begins in a partition: earliest, latest, or by_duration:PnDTnHnMnS before now.",
        Check(_is_reset, "earliest, latest, by_duration:PnDTnHnMnS"),
    ),
    "share.isolation.level": _Definition(
        ConfigType.STRING,
        lambda _: "read_uncommitted",
        "Both levels are the same: nothing uncommitted is in a log.",
        one_of("read_uncommitted", "read_committed"),
    ),
    "share.renew.acknowledge.enable": _Definition(
        ConfigType.BOOLEAN,
        lambda _: "true",
        "Whether members may renew locks.",
        boolean,
    ),
    DEAD_LETTER_TOPIC: _Definition(
        ConfigType.STRING,
        lambda _: "",
        "The topic for records that were rejected or have no delivery left; empty: they are dropped.",
        Check(lambda text: len(text) <= 249, "a name of a topic, or empty"),
    ),
    "errors.deadletterqueue.copy.record.enable": _Definition(
        ConfigType.BOOLEAN,
        lambda _: "true",
        "Whether dead letters carry key, value and headers of the record, or only where it stands.",
        boolean,
    ),
}


_OTHER_BROKER_CONFIGS = {
    "streams.assignor.name": "group.streams.assignors",
    **{name: name for name in DEFINITIONS if name.startswith("errors.")},
    **{
        f"share.{name}": f"share.{name}"
        for name in ("auto.offset.reset", "isolation.level", "renew.acknowledge.enable")
    },
}


@dataclass(frozen=True, slots=True)
class ShareConfig:
    """The configuration of a share group that the engine acts on."""

    heartbeat_interval_ms: int
    session_timeout_ms: int
    policy: SharePolicy
    offset_reset: str
    may_renew: bool
    dead_letter_topic: str  # empty: none
    copies_records: bool

    @classmethod
    def of(cls, overrides: Mapping[str, str], settings: Settings) -> ShareConfig:
        """Overrides over the settings."""

        def value(name: str) -> str:
            return overrides.get(name, DEFINITIONS[name].default(settings))

        topic = value(DEAD_LETTER_TOPIC)
        return cls(
            heartbeat_interval_ms=int(value("share.heartbeat.interval.ms")),
            session_timeout_ms=int(value("share.session.timeout.ms")),
            policy=SharePolicy(
                int(value("share.record.lock.duration.ms")),
                int(value("share.delivery.count.limit")),
                int(value("share.partition.max.record.locks")),
                has_dead_letters=bool(topic),
            ),
            offset_reset=value("share.auto.offset.reset"),
            may_renew=value("share.renew.acknowledge.enable") == "true",
            dead_letter_topic=topic,
            copies_records=value("errors.deadletterqueue.copy.record.enable") == "true",
        )


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """The configuration of a streams group."""

    settings: Settings  # with the group's heartbeat interval and session timeout
    assignment_interval_ms: int
    standby_replicas: int
    initial_delay_ms: int


class GroupConfigs:
    """Configurations of groups, with a short-lived copy of those that were used."""

    def __init__(self, catalog: Table, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._catalog = catalog
        self._clock = clock
        self._backoff = Backoff(clock, rng, first_s=0.02, max_s=3.0)
        self._settings = settings
        self._remembered: dict[str, tuple[float, Mapping[str, str]]] = {}

    async def of(self, group_id: str) -> ShareConfig:
        """Return the configuration of a share group. Raises KafkaError(COORDINATOR_NOT_AVAILABLE), FormatError."""
        return ShareConfig.of(await self._overrides(group_id), self._settings)

    async def assignment_interval_ms(self, group_id: str) -> int:
        """Return the minimum time between two targets of a consumer group. Raises as `of`."""
        overrides = await self._overrides(group_id)
        return int(overrides.get(ASSIGNMENT_INTERVAL, self._settings.group_assignment_interval_ms))

    async def consumer_settings(self, group_id: str) -> Settings:
        """The settings with the group's heartbeat interval and session timeout (KIP-848), which every heartbeat needs:
        at most a dozen times `catalog_cache_ms` old. Raises as `of`.
        """
        overrides = await self._overrides(group_id, copies=_COPIES_OF_HEARTBEATS)
        return _timed(self._settings, overrides, CONSUMER_HEARTBEAT, CONSUMER_SESSION)

    async def streams_config(self, group_id: str) -> StreamsConfig:
        """The configuration of a streams group, as old as that of `consumer_settings`. Raises as `of`."""
        overrides = await self._overrides(group_id, copies=_COPIES_OF_HEARTBEATS)
        return StreamsConfig(
            settings=_timed(self._settings, overrides, STREAMS_HEARTBEAT, STREAMS_SESSION),
            assignment_interval_ms=int(overrides.get(STREAMS_INTERVAL, self._settings.group_assignment_interval_ms)),
            standby_replicas=int(overrides.get(STREAMS_STANDBYS, 0)),
            initial_delay_ms=int(overrides.get(STREAMS_DELAY, self._settings.group_initial_rebalance_delay_ms)),
        )

    async def _overrides(self, group_id: str, *, copies: int = 1) -> Mapping[str, str]:
        """The overrides as they were at most that many times `catalog_cache_ms` ago."""
        now_s = self._clock.monotonic()
        known = self._remembered.get(group_id)
        if known is not None and now_s - known[0] < copies * self._settings.catalog_cache_ms / 1000:
            return known[1]
        _, overrides = await self._read(group_id)
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[group_id] = (self._clock.monotonic(), overrides)
        return overrides

    async def describe(self, group_id: str) -> list[ConfigEntry]:
        """Every configuration of a group, in the order of names. Raises KafkaError, FormatError."""
        check_group_id(group_id)
        _, overrides = await self._read(group_id)
        return [
            ConfigEntry(
                name,
                overrides.get(name, definition.default(self._settings)),
                is_default=name not in overrides,
                config_type=int(definition.type),
                documentation=definition.documentation,
                default=definition.default(self._settings),
                broker_config=_broker_config(name),
            )
            for name, definition in sorted(DEFINITIONS.items())
        ]

    async def alter(
        self,
        group_id: str,
        *,
        set: Mapping[str, str],
        delete: Iterable[str] = (),
        replaces: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Change overrides; with `replaces` those that are not named go.

        A write of unknown outcome is made again: setting the same values twice is setting them once, unless another
        administrator came in between, and then it was later or earlier than theirs.

        Raises KafkaError: INVALID_GROUP_ID, INVALID_CONFIG, COORDINATOR_NOT_AVAILABLE (may have been applied).
        """
        check_group_id(group_id)
        gone = list(delete)
        for name in [*set, *gone]:
            if name not in DEFINITIONS:
                known = ", ".join(sorted(DEFINITIONS))
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown group configuration {name!r}; known are: {known}")
        for name, value in set.items():
            if len(value) > VALUE_CHARACTERS_MAX or not DEFINITIONS[name].check(value):
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG, f"{name} cannot be {value!r:.99}. {DEFINITIONS[name].documentation}"
                )
        checked = {name: canonical(DEFINITIONS[name].type, value) for name, value in set.items()}
        for attempt in range(_ATTEMPTS):
            try:
                version, overrides = await self._stored(group_id)
                kept = {} if replaces else {name: value for name, value in overrides.items() if name not in gone}
                changed = {**kept, **checked}
                self._check_sessions(changed)
                values: dict[str, Value] = dict(changed)
                item: Item = {"v": VERSION, "n": version + 1, "c": values}
                if validate_only:
                    return
                condition = Absent(("v",)) if version == 0 else Compare(("n",), "=", version)
                await self._catalog.put(Put(_key(group_id), item, condition))
            except (ConditionFailed, StoreUnavailable, OutcomeUnknown):
                await self._backoff.pause(attempt)
            else:
                self._remembered.pop(group_id, None)
                return
        raise _unavailable()

    def _check_sessions(self, overrides: Mapping[str, str]) -> None:
        """Raise KafkaError(INVALID_CONFIG) for a session that would end between two heartbeats, as Kafka does."""
        for kind in ("consumer", "share"):
            session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
            if session not in overrides and heartbeat not in overrides:
                continue  # the service's settings are the operator's business
            session_ms, heartbeat_ms = (
                int(overrides.get(name, DEFINITIONS[name].default(self._settings))) for name in (session, heartbeat)
            )
            if session_ms <= heartbeat_ms:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"{session}, {session_ms}, must be greater than {heartbeat}, {heartbeat_ms}",
                )

    async def list(self) -> Sequence[str]:
        """Return the groups with a configuration. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        rows = await self._patiently(lambda: self._catalog.query(GROUP_CONFIGS_PK))
        return [row.key.sk for row in rows if row.item.get("c")]

    async def _read(self, group_id: str) -> tuple[int, dict[str, str]]:
        """As `_stored`. Raises KafkaError(COORDINATOR_NOT_AVAILABLE), FormatError."""
        return await self._patiently(lambda: self._stored(group_id))

    async def _patiently(self, read: Callable[[], Awaitable[R]]) -> R:
        """Read again if the table is throttled. Raises KafkaError(COORDINATOR_NOT_AVAILABLE), FormatError."""
        for attempt in range(_READ_ATTEMPTS - 1):
            try:
                return await read()
            except StoreUnavailable:
                await self._backoff.pause(attempt)
        try:
            return await read()
        except StoreUnavailable as error:
            raise _unavailable() from error

    async def _stored(self, group_id: str) -> tuple[int, dict[str, str]]:
        """Return version and overrides; 0 and nothing without a row. Raises StoreUnavailable, FormatError."""
        item = await self._catalog.get(_key(group_id))
        if item is None:
            return 0, {}
        check_version(item, VERSION, f"the configuration of group {group_id}")
        values = attribute(item, "c", dict)
        return attribute(item, "n", int), {name: str(value) for name, value in values.items() if name in DEFINITIONS}


def _timed(settings: Settings, overrides: Mapping[str, str], heartbeat: str, session: str) -> Settings:
    """The settings with the heartbeat interval and the session timeout that have these names."""
    if heartbeat not in overrides and session not in overrides:
        return settings
    return replace(
        settings,
        group_heartbeat_interval_ms=int(overrides.get(heartbeat, settings.group_heartbeat_interval_ms)),
        group_session_timeout_ms=int(overrides.get(session, settings.group_session_timeout_ms)),
    )


def _key(group_id: str) -> Key:
    return Key(GROUP_CONFIGS_PK, group_id)
