"""A Connect cluster as its users see it: create, change, watch and delete connectors.

Every operation reads and writes the cluster's topics; the workers carry it out. So it needs an address and credentials
alone: the REST API of a worker, the command line and a program of one's own call the same methods, and no worker has to
be reached, or to run at all.

Source: KIP-26, KIP-196, KIP-507, KIP-558, KIP-745, KIP-875, KIP-980, KIP-477; Kafka Connect's REST resources.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from odradek.backoff import Backoff
from odradek.client.admin.sync import Admin
from odradek.client.producer.sync import Producer
from odradek.connect import plugins
from odradek.connect.errors import BadRequest, ConfigError, Conflict, ConnectError, NotFound
from odradek.connect.plugin import Connector, SinkConnector, SourceConnector
from odradek.connect.providers import has_variable
from odradek.connect.settings import WorkerSettings
from odradek.connect.state.cluster_state import PAUSED, STARTED, STOPPED, ClusterState, ConnectorState, Prefix
from odradek.connect.state.offsets import SourceOffsets, frozen
from odradek.connect.state.state_topic import Pair, StateTopic
from odradek.connect.state.statuses import UNASSIGNED, Status, Statuses, Unit
from odradek.connect.tasks.sink import group_of
from odradek.connect.tasks.source import transactional_id
from odradek.connect.validate import as_json, check, connector_class, definitions, validate
from odradek.errors import ErrorCode, KafkaError, OffsetConflict
from odradek.extras import MissingExtra
from odradek.model.topic_partition import TopicPartition
from odradek.patterns import compile_pattern
from odradek.ports.clock import Clock
from odradek.system import SystemClock, SystemRng

_ATTEMPTS = 20
_NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
    "connector by issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)


def pair(prefix: Prefix, name: str, document: Mapping[str, Any] | None, task: int | None = None) -> Pair:
    """Return a record of the topic of configurations; None deletes its key."""
    return prefix.key(name, task), None if document is None else json.dumps(document, separators=(",", ":")).encode()


_NAME_CHARACTERS_MAX = 249  # as of a topic


class Configs:
    """The topic of configurations, with conditional changes. Safe for use by several threads."""

    def __init__(self, settings: WorkerSettings, clock: Clock) -> None:
        self.state = ClusterState()
        self.log = StateTopic(settings.client, settings["config.storage.topic"], 1, self.state.apply)
        if self.log.partition_count != 1:
            raise ConnectError(f"the topic {self.log.topic} must have one partition, not {self.log.partition_count}")
        self._backoff = Backoff(clock, SystemRng(), first_s=0.02, max_s=0.5)

    def read(self) -> ClusterState:
        """Return the state of now."""
        self.log.read_to_end()
        return self.state

    def change(self, decide: Callable[[ClusterState], Sequence[Pair]]) -> int:
        """Write what `decide` returns for the state of now, on condition that it has not changed.

        Returns the offset of the last record, or -1 if there is nothing to write. Raises what `decide` raises.
        """
        for attempt in range(_ATTEMPTS):
            with self.log.lock:
                self.log.read_to_end()
                pairs = decide(self.state)
                try:
                    offset = self.log.write_at_end(pairs) if pairs else -1
                    self.log.read_to_end()
                    return offset
                except OffsetConflict:
                    self.log.read_to_end()
            # Outside of the lock; a conflict is another writer's success.
            threading.Event().wait(self._backoff.delay_s(attempt))
        raise Conflict("other requests changed the configurations at the same time, again and again: try again")

    def close(self) -> None:
        self.log.close()


class Cluster:
    """The operations on a Connect cluster. Safe for use by several threads; close it.

    Raises:
        RequestError: with the HTTP status of Kafka Connect, by all methods.
    """

    def __init__(self, settings: WorkerSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._configs = Configs(settings, self._clock)
        self._opening = threading.Lock()
        self._opened_statuses: Statuses | None = None
        self._opened_offsets: SourceOffsets | None = None

    # Most requests need only one of the topics, and the command line makes one request.

    @property
    def _statuses(self) -> Statuses:
        with self._opening:
            if self._opened_statuses is None:
                self._opened_statuses = Statuses(self.settings.client, self.settings["status.storage.topic"])
            return self._opened_statuses

    @property
    def _offsets(self) -> SourceOffsets:
        with self._opening:
            if self._opened_offsets is None:
                settings = self.settings
                self._opened_offsets = SourceOffsets(
                    settings.client, settings["offset.storage.topic"], settings["offset.storage.partitions"]
                )
            return self._opened_offsets

    def has_workers(self) -> bool:
        """Return True if a worker of the cluster runs, as far as its group knows."""
        with Admin(**self.settings.client) as admin:
            try:
                groups = admin.describe_consumer_groups([self.settings.group_id])
            except KafkaError as error:
                if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                    return False
                raise
        return bool(groups[self.settings.group_id].members)

    # --- connectors -----------------------------------------------------------------------------------------------

    def connectors(self) -> list[str]:
        """Return the names of all connectors."""
        return self._configs.read().names()

    def _existing(self, name: str) -> ConnectorState:
        return _known(self._configs.read(), name)

    def info(self, name: str) -> dict[str, Any]:
        """Return name, configuration, tasks and type of a connector."""
        return _info(name, self._existing(name))

    def config(self, name: str) -> dict[str, str]:
        """Return the configuration of a connector."""
        return dict(self._existing(name).config or {})

    def create(self, name: str, configs: Mapping[str, Any], initial_state: str | None = None) -> dict[str, Any]:
        """Create a connector, and return its info.

        Raises:
            BadRequest: for an invalid configuration.
            Conflict: if it exists.
        """
        target = str(initial_state or STARTED).upper().replace("RUNNING", STARTED)
        if target not in (STARTED, PAUSED, STOPPED):
            raise BadRequest(f"initial_state must be RUNNING, PAUSED or STOPPED, not {initial_state!r}")
        checked = _checked(name, configs, self.settings)

        def decide(state: ClusterState) -> list[Pair]:
            if state.get(name).exists:
                raise Conflict(f"Connector {name} already exists")
            return [
                pair(Prefix.TARGET, name, {"state": target}),
                pair(Prefix.CONNECTOR, name, {"properties": checked}),
            ]

        self._configs.change(decide)
        return self.info(name)

    def put_config(self, name: str, configs: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Create a connector or replace its configuration; return its info, and whether it is new."""
        checked = _checked(name, configs, self.settings)
        is_new = False

        def decide(state: ClusterState) -> list[Pair]:
            nonlocal is_new
            is_new = not state.get(name).exists
            return [pair(Prefix.CONNECTOR, name, {"properties": checked})]

        self._configs.change(decide)
        return self.info(name), is_new

    def patch_config(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change some configurations of a connector, remove those of value None, and return its info (KIP-477)."""

        def decide(state: ClusterState) -> list[Pair]:
            merged = {**(_known(state, name).config or {}), **changes}
            checked = _checked(name, {k: v for k, v in merged.items() if v is not None}, self.settings)
            return [pair(Prefix.CONNECTOR, name, {"properties": checked})]

        self._configs.change(decide)
        return self.info(name)

    def delete(self, name: str) -> None:
        """Delete a connector. Its source offsets and its consumer group stay."""

        def decide(state: ClusterState) -> list[Pair]:
            connector = _known(state, name)
            tasks = [pair(Prefix.TASK, name, None, number) for number in range(len(connector.tasks))]
            kinds = (Prefix.CONNECTOR, Prefix.TARGET, Prefix.COMMIT, Prefix.RESTART_CONNECTOR)
            return [*(pair(prefix, name, None) for prefix in kinds), *tasks]

        self._configs.change(decide)
        units = [unit for unit in self._statuses.all() if unit.connector == name]
        if units:
            self._statuses.forget(*units)
        self._statuses.forget_topics(name)

    def set_target(self, name: str, target: str) -> None:
        """Pause (PAUSED), resume (STARTED) or stop (STOPPED) a connector."""

        def decide(state: ClusterState) -> list[Pair]:
            same = _known(state, name).target == target
            return [] if same else [pair(Prefix.TARGET, name, {"state": target})]

        self._configs.change(decide)

    # --- tasks and states -----------------------------------------------------------------------------------------

    def tasks(self, name: str) -> list[dict[str, Any]]:
        """Return the tasks of a connector with their configurations."""
        tasks = self._existing(name).tasks
        return [
            {"id": {"connector": name, "task": n}, "config": dict(task_config)} for n, task_config in enumerate(tasks)
        ]

    def status(self, name: str) -> dict[str, Any]:
        """Return the states of a connector and its tasks."""
        connector = self._existing(name)
        statuses = self._statuses.all()
        tasks = [
            {"id": number, **_shown(statuses.get(Unit(name, number)), connector.generation)}
            for number in range(len(connector.tasks))
        ]
        return {
            "name": name,
            "connector": _shown(statuses.get(Unit(name)), -1),
            "tasks": tasks,
            "type": _type(connector.config or {}),
        }

    def task_status(self, name: str, task: int) -> dict[str, Any]:
        """Return the state of a task."""
        connector = self._existing(name)
        if not 0 <= task < len(connector.tasks):
            raise NotFound(f"No status found for task {name}-{task}")
        return {"id": task, **_shown(self._statuses.all().get(Unit(name, task)), connector.generation)}

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> dict[str, Any]:
        """Restart a connector, with or without its tasks, and return the states, in which those are RESTARTING."""
        request = {"include-tasks": include_tasks, "only-failed": only_failed}

        def decide(state: ClusterState) -> list[Pair]:
            _known(state, name)
            return [pair(Prefix.RESTART_CONNECTOR, name, request)]

        status = self.status(name)
        self._configs.change(decide)
        for unit_status in (status["connector"], *(status["tasks"] if include_tasks else ())):
            if unit_status["state"] == "FAILED" or not only_failed:
                unit_status["state"] = "RESTARTING"
        return status

    def restart_task(self, name: str, task: int) -> None:
        """Restart one task."""

        def decide(state: ClusterState) -> list[Pair]:
            if not 0 <= task < len(_known(state, name).tasks):
                raise NotFound(f"Task {name}-{task} not found")
            return [pair(Prefix.RESTART_TASK, name, {}, task)]

        self._configs.change(decide)

    def topics(self, name: str) -> dict[str, Any]:
        """Return the topics that a connector has used."""
        self._existing(name)
        return {name: {"topics": self._statuses.topics(name)}}

    def reset_topics(self, name: str) -> None:
        """Empty the list of topics that a connector has used."""
        self._existing(name)
        self._statuses.forget_topics(name)

    # --- offsets --------------------------------------------------------------------------------------------------

    def offsets(self, name: str) -> dict[str, Any]:
        """Return the offsets of a connector: a source's own, or those of a sink's consumer group."""
        connector = self._existing(name)
        if _type(connector.config or {}) == "source":
            source_offsets = self._offsets.of(name)
            return {
                "offsets": [
                    {"partition": json.loads(key), "offset": offset} for key, offset in sorted(source_offsets.items())
                ]
            }
        with Admin(**self.settings.client) as admin:
            committed = admin.list_consumer_group_offsets(group_of(name))
        return {
            "offsets": [
                {
                    "partition": {"kafka_topic": tp.topic, "kafka_partition": tp.partition},
                    "offset": {"kafka_offset": committed_offset.offset},
                }
                for tp, committed_offset in sorted(committed.items())
            ]
        }

    def _stopped(self, name: str) -> tuple[ConnectorState, type[Connector]]:
        connector = self._existing(name)
        if connector.target != STOPPED or connector.tasks:
            raise BadRequest(_NOT_STOPPED.format(name))
        try:
            return connector, connector_class(connector.config or {})
        except (ConfigError, MissingExtra) as error:
            raise BadRequest(str(error)) from error

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> str:
        """Set offsets of a stopped connector; an offset of None resets a partition. Returns what was done."""
        connector, connector_type = self._stopped(name)
        if not offsets or not all(
            isinstance(offset, Mapping) and isinstance(offset.get("partition"), Mapping) for offset in offsets
        ):
            raise BadRequest('the body must be {"offsets": [{"partition": {...}, "offset": {...}}]}')
        if issubclass(connector_type, SourceConnector):
            self._alter_source(
                name, connector, connector_type, [(offset["partition"], offset.get("offset")) for offset in offsets]
            )
        else:
            assert issubclass(connector_type, SinkConnector)
            self._alter_sink(name, connector, connector_type, _sink_offsets(offsets))
        return "The offsets for this connector have been altered successfully"

    def reset_offsets(self, name: str) -> str:
        """Delete all offsets of a stopped connector. Returns what was done."""
        connector, connector_type = self._stopped(name)
        if issubclass(connector_type, SourceConnector):
            stored = self._offsets.of(name)
            self._alter_source(name, connector, connector_type, [(json.loads(key), None) for key in stored])
        else:
            assert issubclass(connector_type, SinkConnector)
            self._alter_sink(name, connector, connector_type, dict.fromkeys(self._places(name, connector)))
        return "The offsets for this connector have been reset successfully"

    def _places(self, name: str, connector: ConnectorState) -> set[TopicPartition]:
        """Return all partitions of a sink: its target may have an offset of one that its group has not yet."""
        configs = connector.config or {}
        wanted = {topic.strip() for topic in str(configs.get("topics") or "").split(",")}
        pattern = compile_pattern(str(configs["topics.regex"])) if configs.get("topics.regex") else None
        with Admin(**self.settings.client) as admin:
            topics = [topic for topic in admin.list_topics() if topic in wanted or (pattern and pattern.matches(topic))]
            counts = {
                topic: description.partition_count for topic, description in admin.describe_topics(topics).items()
            }
            committed = admin.list_consumer_group_offsets(group_of(name))
        return {TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)} | {
            *committed
        }

    def _alter_source(
        self,
        name: str,
        connector: ConnectorState,
        connector_type: type[SourceConnector],
        offsets: list[tuple[Any, Any]],
    ) -> None:
        connector_type.check_offsets(
            connector.config or {}, {frozen(partition): offset for partition, offset in offsets}
        )
        if self.settings.is_exactly_once:
            fence(self.settings, name, range(connector.fenced_tasks))
        self._offsets.write(name, offsets)

    def _alter_sink(
        self,
        name: str,
        connector: ConnectorState,
        connector_type: type[SinkConnector],
        offsets: dict[TopicPartition, int | None],
    ) -> None:
        try:
            connector_type.alter_offsets(self.settings.providers.resolve(connector.config or {}), offsets)
        except ConfigError as error:
            raise BadRequest(self.settings.providers.as_written(str(error))) from None
        except ConnectError as error:
            raise ConnectError(self.settings.providers.as_written(str(error))) from None
        group = group_of(name)
        with Admin(**self.settings.client) as admin:
            kept = {tp: committed.offset for tp, committed in admin.list_consumer_group_offsets(group).items()}
            kept |= {tp: offset for tp, offset in offsets.items() if offset is not None}
            for tp in [tp for tp, offset in offsets.items() if offset is None]:
                kept.pop(tp, None)
            try:
                if None in offsets.values():  # a single offset cannot be deleted: the group is made anew without it
                    admin.delete_consumer_groups([group])
                if kept:
                    admin.alter_consumer_group_offsets(group, kept)
            except KafkaError as error:
                if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                    return
                if error.code in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_MEMBER_ID):
                    raise Conflict(f"tasks of {name} are still members of the group {group}: try again soon") from error
                raise

    # --- plugins and loggers --------------------------------------------------------------------------------------

    def validate(self, class_name: str, configs: Mapping[str, Any]) -> dict[str, Any]:
        """Return Connect's JSON of a validated configuration."""
        named_class = configs.get("connector.class", class_name)
        try:
            connector_type = plugins.connector(class_name)
            if plugins.find("connectors", str(named_class)) != plugins.find("connectors", class_name):
                raise BadRequest(f"Included connector type {named_class} does not match request type {class_name}")
            given_text = {key: value for key, value in configs.items() if value is not None}
            validated = validate(connector_type, _resolved(given_text, self.settings))
            for key, value in validated.items():  # what a variable stands for is not shown
                names = [name for name in (key, *value.key.also) if has_variable(configs.get(name))]
                if names:
                    value.value = configs[names[0]]
                value.errors = [self.settings.providers.as_written(error) for error in value.errors]
                if key not in definitions(connector_type).keys:  # of a transform, say, whose name may be such a value
                    value.key = replace(value.key, name=self.settings.providers.as_written(key))
            return as_json(class_name, validated)
        except (ConfigError, MissingExtra) as error:
            raise BadRequest(self.settings.providers.as_written(str(error))) from error

    def set_logger(self, name: str, level: str) -> None:
        """Set the level of a logger in all workers (KIP-976)."""
        self._configs.change(lambda _: [pair(Prefix.LOGGER, name, {"level": level})])

    def close(self) -> None:
        """Release the clients. May be called twice."""
        self._configs.close()
        for opened in (self._opened_statuses, self._opened_offsets):
            if opened is not None:
                opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fence(settings: WorkerSettings, name: str, tasks: range) -> None:
    """Fence the producers of source tasks: none of them can commit a transaction any more."""
    for number in tasks:
        own = transactional_id(settings.group_id, Unit(name, number))
        with Producer(**settings.client, transactional_id=own) as producer:
            producer.init_transactions()


def _known(state: ClusterState, name: str) -> ConnectorState:
    connector = state.get(name)
    if not connector.exists:
        raise NotFound(f"Connector {name} not found")
    return connector


def _checked(name: str, configs: Mapping[str, Any], settings: WorkerSettings) -> dict[str, str]:
    """Return the configuration as text. Raises BadRequest."""
    if not _is_name(name):
        raise BadRequest(
            f"invalid connector name {name[:_NAME_CHARACTERS_MAX]!r}: use 1 to {_NAME_CHARACTERS_MAX} characters, "
            "not / nor control characters nor white space at its ends, and neither . nor .."
        )
    if configs.get("name", name) != name:
        raise BadRequest(
            f"Connector name configuration ({configs['name']}) doesn't match connector name in the URL ({name})"
        )
    if not all(value is None or isinstance(value, str | int | float | bool) for value in configs.values()):
        raise BadRequest("the values of a connector's configuration must be text")
    checked = {key: _text(value) for key, value in configs.items() if value is not None}
    checked["name"] = name
    try:
        check(_resolved(checked, settings))
    except BadRequest as error:
        raise BadRequest(settings.providers.as_written(str(error))) from None
    if checked.get("exactly.once.support") == "required" and not settings.is_exactly_once:
        raise BadRequest("exactly.once.support=required needs exactly.once.source.support=enabled of the worker")
    return checked


def _is_name(name: str) -> bool:
    """Return True for a name that a path can have, so that the connector can be asked for and deleted."""
    is_printed = all(character == " " or character.isprintable() for character in name) and "/" not in name
    return 0 < len(name) <= _NAME_CHARACTERS_MAX and is_printed and name == name.strip() and name not in (".", "..")


def _resolved(configs: Mapping[str, Any], settings: WorkerSettings) -> dict[str, Any]:
    """Return a configuration with its values. Raises BadRequest for one that cannot be had."""
    try:
        return settings.providers.resolve(configs)
    except ConfigError as error:
        raise BadRequest(f"Connector configuration is invalid: {error}") from error


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(configs: Mapping[str, str]) -> str:
    try:
        return plugins.connector_type(connector_class(configs))
    except (ConfigError, MissingExtra):
        return "unknown"


def _info(name: str, connector: ConnectorState) -> dict[str, Any]:
    return {
        "name": name,
        "config": dict(connector.config or {}),
        "tasks": [{"connector": name, "task": number} for number in range(len(connector.tasks))],
        "type": _type(connector.config or {}),
    }


def _shown(status: Status | None, generation: int) -> dict[str, Any]:
    """Return the JSON of a state; that of an older generation of tasks is none."""
    current = status or Status(UNASSIGNED)
    if current.generation < generation:
        current = Status(UNASSIGNED)
    shown = {"state": current.state, "worker_id": current.worker_id}
    return shown if current.trace is None else {**shown, "trace": current.trace}


def _sink_offsets(offsets: Sequence[Mapping[str, Any]]) -> dict[TopicPartition, int | None]:
    offset_by_tp: dict[TopicPartition, int | None] = {}
    for document in offsets:
        partition, offset = document["partition"], document.get("offset")
        try:
            tp = TopicPartition(str(partition["kafka_topic"]), int(partition["kafka_partition"]))
            offset_by_tp[tp] = None if offset is None else int(offset["kafka_offset"])
        except (KeyError, TypeError, ValueError):
            raise BadRequest(
                'the offsets of a sink must be {"partition": {"kafka_topic": ..., "kafka_partition": n}, '
                '"offset": {"kafka_offset": n}}'
            ) from None
    return offset_by_tp
