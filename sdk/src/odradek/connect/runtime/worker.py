"""A worker: it runs its share of the connectors and tasks of a Connect cluster.

Workers share the *slots*, partitions of an empty topic, as members of one consumer group: the group's protocol is the
lease. A connector and each of its tasks have a slot, and run where it is. A worker that dies or is cut off
loses its slots after the group's session time-out; what still runs there is fenced by transactional ids (sources) and
by the sinks' own groups.

    loop    heartbeat and rebalance -> read the topic of configurations -> start, stop, pause what changed

The worker that runs a connector writes the configurations of its tasks, a *generation*. Tasks of a new generation of a
source start only after the producers of the older one are fenced, and that is recorded (docs/decisions/0032).
"""

from __future__ import annotations

import gc
import logging
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from odradek.client.admin.sync import Admin
from odradek.client.consumer.rebalance import RebalanceListener
from odradek.client.consumer.sync import Consumer
from odradek.client.types import NewTopic
from odradek.connect.errors import ConfigError, ConnectError
from odradek.connect.plugin import Configs as PluginConfigs
from odradek.connect.plugin import Connector, SinkTask, SourceConnector, SourceTask
from odradek.connect.runtime.cluster import Configs, fence, pair
from odradek.connect.settings import CONNECTOR, SINK, SOURCE, WorkerSettings
from odradek.connect.state.cluster_state import PAUSED, STARTED, STOPPED, ClusterState, ConnectorState, Prefix, slot_of
from odradek.connect.state.offsets import SourceOffsets
from odradek.connect.state.state_topic import Pair, ensure_topic
from odradek.connect.state.statuses import FAILED, Status, Statuses, Unit
from odradek.connect.tasks.connector import ConnectorRun
from odradek.connect.tasks.run import Environment, Run, Superseded
from odradek.connect.tasks.sink import SinkTaskRun
from odradek.connect.tasks.source import SourceTaskRun
from odradek.connect.validate import connector_class
from odradek.errors import KafkaError
from odradek.extras import MissingExtra
from odradek.model.topic_partition import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.system import SystemClock, SystemRng

_log = logging.getLogger("odradek.connect.worker")
_FOLLOW_MS = 250
_HEARTBEATS_A_SESSION = 3
_COLLECT_AFTER = 50_000  # new objects: two or three batches
_PAUSE_S = 1.0  # after a failed step of the loop
_SUPERSEDED_S = 1.0  # a unit that another worker seemed to have is tried again after this


class Worker(RebalanceListener):
    """One worker. `start` joins the cluster and returns; `stop` gives everything up. Or use it as a context manager."""

    def __init__(
        self, settings: WorkerSettings, *, clock: Clock | None = None, rng: Rng | None = None, address: str = ""
    ) -> None:
        self.settings = settings
        worker_id = settings["worker.id"] or address or socket.gethostname()
        self._configs = Configs(settings, clock or SystemClock())
        self._environment = Environment(
            settings,
            Statuses(settings.client, settings["status.storage.topic"]),
            SourceOffsets(settings.client, settings["offset.storage.topic"], settings["offset.storage.partitions"]),
            clock or SystemClock(),
            rng or SystemRng(),
            worker_id,
        )
        self._clock = self._environment.clock
        slots_topic = settings["slots.topic"]
        self._slot_count = ensure_topic(settings.client, NewTopic(slots_topic, num_partitions=settings["slots"]))
        _set_session_timeout(settings)
        # Ranges of slots: the tasks' slots are chosen for them (ClusterState.slots_for).
        self._group = Consumer(
            **settings.client, group_id=settings.group_id, enable_auto_commit=False, group_remote_assignor="range"
        )
        self._group.subscribe([slots_topic], listener=self)
        self._slots: set[int] = set()
        self._runs: dict[Unit, Run] = {}
        self._marks: dict[Unit, int] = {}  # the last request to restart that was looked at
        self._superseded_s: dict[Unit, float] = {}
        self._levels: dict[str, str] = {}
        self._failure: Exception | None = None
        self._changed_s = self._clock.monotonic()  # the last start or end of a unit
        self._idle_since_s: float | None = None
        self._resting = False
        self._within_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="connect-worker", daemon=True)

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Join the cluster. Raises KafkaError."""
        self._configs.read()
        handlers = [*logging.root.handlers, *([logging.lastResort] if logging.lastResort else [])]
        self.settings.providers.hide_in_log(*handlers)
        self._thread.start()
        return self

    def stop(self, *, resting: bool = False, within_s: float = 0.0) -> None:
        """Stop all units, leave the group, release the clients. May be called twice.

        Args:
            resting: nobody takes the units over now (SinkTask.rest).
            within_s: how long units may take; at least `task.shutdown.graceful.timeout.ms`.
        """
        self._resting, self._within_s = resting, within_s
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raise the error that has ended the worker, if there was one."""
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def idle_s(self) -> float:
        """Return for how many seconds no unit of this worker has found anything to do; 0 while one has work."""
        since_s = self._idle_since_s
        return 0.0 if since_s is None else self._clock.monotonic() - since_s

    @property
    def running(self) -> set[Unit]:
        """Return the units that run here now."""
        return {unit for unit, run in list(self._runs.items()) if run.is_alive}

    def _main(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._group.poll(0)
                    self._configs.log.follow(_FOLLOW_MS)
                    self._reconcile(self._configs.state)
                    self._idle_since_s = self._quiet_since_s(self._configs.state)
                except (KafkaError, ConnectError) as error:
                    _log.warning("the worker tries again: %s", error)
                    self._stopping.wait(_PAUSE_S)
        except Exception as error:  # a bug: `check` tells whoever runs the worker
            self._failure = error
        finally:
            self._end(list(self._runs), abandoned=False)
            for part in (self._group, self._configs, self._environment.statuses, self._environment.offsets):
                try:
                    part.close()
                except KafkaError as error:
                    _log.warning("a client could not be closed: %s", error)

    # --- slots: called inside poll --------------------------------------------------------------------------------

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Take slots over; they are paused, because their partitions are empty for ever."""
        self._group.pause(partitions)
        self._slots |= {partition.partition for partition in partitions}

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Stop what runs in these slots before another worker gets them."""
        self._release(partitions, abandoned=False)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Stop what runs in these slots; another worker may run it already."""
        self._release(partitions, abandoned=True)

    def _release(self, partitions: Iterable[TopicPartition], *, abandoned: bool) -> None:
        released = {partition.partition for partition in partitions}
        self._slots -= released
        self._end([unit for unit in self._runs if self._slot(unit) in released], abandoned=abandoned)

    def _slot(self, unit: Unit) -> int:
        """Return the slot of a unit, -1 for a task that is no more."""
        if unit.task is None:
            return slot_of(unit.connector, self._slot_count)
        slots = self._configs.state.get(unit.connector).slots
        return slots[unit.task] if unit.task < len(slots) else -1

    def _end(self, units: list[Unit], *, abandoned: bool) -> None:
        """Stop units together, and wait for them as long as the settings say."""
        if units:
            self._changed_s = self._clock.monotonic()
        for unit in units:
            self._runs[unit].abandoned |= abandoned
            self._runs[unit].is_resting = self._resting
            self._runs[unit].stop()
        graceful_s = self.settings["task.shutdown.graceful.timeout.ms"] / 1000
        deadline_s = self._clock.monotonic() + max(graceful_s, self._within_s)
        for unit in units:
            run = self._runs.pop(unit)
            if not run.join(deadline_s - self._clock.monotonic()):
                _log.warning("%s does not stop: it goes on alone, and is fenced", unit)
                run.abandoned = True

    # --- what is to run -------------------------------------------------------------------------------------------

    def _reconcile(self, state: ClusterState) -> None:
        """Start, stop, restart, pause and resume units, as the state says."""
        wanted = {unit: generation for unit, generation in self._wanted(state) if self._slot(unit) in self._slots}
        ended = []
        for unit, run in self._runs.items():
            connector = state.get(unit.connector)
            run.forgotten = not connector.exists
            if wanted.get(unit) != run.generation or self._is_to_restart(unit, run, connector):
                ended.append(unit)
        self._end(ended, abandoned=False)
        self._settle_stopped(state)
        for unit, generation in wanted.items():
            connector = state.get(unit.connector)
            if (unit, generation) not in self._units(unit.connector, connector):
                continue  # the state went on meanwhile: another thread has read it, or this one while it settled
            if unit in self._runs:
                self._runs[unit].pause(connector.target == PAUSED)
            else:
                self._begin(unit, generation, connector)
        if state.loggers != self._levels:
            self._levels = dict(state.loggers)
            for name, level in self._levels.items():
                set_level(name, level)

    def _quiet_since_s(self, state: ClusterState) -> float | None:
        """Return since when there is nothing to do here; None while there is."""
        for name in state.names():
            connector = state.get(name)
            run = self._runs.get(Unit(name))
            is_divided = connector.has_current_tasks and (
                not self._is_fenced_source(connector) or connector.fenced == connector.generation
            )
            if run is not None and not (is_divided or run.failed or run.is_paused):
                return None  # its tasks are on their way
        quiet = [run.quiet_since_s() for run in self._runs.values()]
        known_times = [quiet_s for quiet_s in quiet if quiet_s is not None]
        return max([self._changed_s, *known_times]) if len(known_times) == len(quiet) else None

    def _wanted(self, state: ClusterState) -> Iterable[tuple[Unit, int]]:
        """Yield what is to run in the cluster, with its generation."""
        for name in state.names():
            yield from self._units(name, state.get(name))

    def _units(self, name: str, connector: ConnectorState) -> Iterable[tuple[Unit, int]]:
        """Yield what is to run of a connector."""
        if connector.exists and connector.target != STOPPED:
            yield Unit(name), connector.config_offset
            if connector.has_current_tasks and (
                not self._is_fenced_source(connector) or connector.fenced == connector.generation
            ):
                yield from ((Unit(name, number), connector.generation) for number in range(len(connector.tasks)))

    def _is_fenced_source(self, connector: ConnectorState) -> bool:
        return self.settings.is_exactly_once and _is_source(connector)

    def _is_to_restart(self, unit: Unit, run: Run, connector: ConnectorState) -> bool:
        if run.superseded and not run.is_alive:
            since_s = self._superseded_s.setdefault(unit, self._clock.monotonic())
            return self._clock.monotonic() - since_s > _SUPERSEDED_S
        mark, restart_mark = self._marks.get(unit, -1), _restart_mark(unit, connector)
        if restart_mark <= mark:
            return False
        self._marks[unit] = restart_mark
        request = connector.restart
        is_for_all = request is not None and request.offset == restart_mark
        return run.failed or not (is_for_all and request is not None and request.only_failed)

    def _settle_stopped(self, state: ClusterState) -> None:
        """Delete the tasks of stopped connectors, so that their offsets may be changed (KIP-875)."""
        for name in state.names():
            connector = state.get(name)
            if connector.target != STOPPED or self._slot(Unit(name)) not in self._slots:
                continue
            if connector.tasks or not connector.has_current_tasks:
                self._configs.change(lambda now, name=name: _emptied(now, name))  # type: ignore[misc]
                status = Status(STOPPED, self._environment.worker_id, None, connector.config_offset)
                self._environment.statuses.put(Unit(name), status)

    def _begin(self, unit: Unit, generation: int, connector: ConnectorState) -> None:
        """Start a unit; a configuration that cannot be used is a failed one."""
        self._marks[unit] = _restart_mark(unit, connector)
        self._superseded_s.pop(unit, None)
        paused = connector.target == PAUSED
        try:
            run = self._made(unit, generation, connector, paused=paused)
        except (ConfigError, MissingExtra) as error:
            message = self.settings.providers.as_written(f"{type(error).__name__}: {error}")
            self._environment.statuses.put(unit, Status(FAILED, self._environment.worker_id, message, generation))
            run = _Unusable(unit, self._environment, generation, paused=paused)
        self._runs[unit] = run
        self._changed_s = self._clock.monotonic()
        run.start()

    def _made(self, unit: Unit, generation: int, connector: ConnectorState, *, paused: bool) -> Run:
        configs_resolved = self.settings.providers.resolve(connector.config or {})
        connector_type = connector_class(configs_resolved)
        is_source = issubclass(connector_type, SourceConnector)
        configs = (CONNECTOR + (SOURCE if is_source else SINK)).parse(configs_resolved)
        environment = self._environment
        if unit.task is None:
            return ConnectorRun(
                unit, environment, generation, paused=paused, make=connector_type, configs=configs_resolved,
                tasks_max=configs["tasks.max"], publish=lambda tasks: self._publish(unit.connector, generation, tasks),
            )  # fmt: skip
        task, task_class = self.settings.providers.resolve(connector.tasks[unit.task]), connector_type.task_class
        parsed: tuple[Mapping[str, Any], Mapping[str, Any]] = configs, configs_resolved
        if issubclass(task_class, SourceTask):
            return SourceTaskRun(
                unit, environment, generation, paused=paused, make=task_class, connector=parsed, task_configs=task,
                is_current=lambda: self._is_current(unit.connector, generation),
            )  # fmt: skip
        assert issubclass(task_class, SinkTask)
        return SinkTaskRun(
            unit, environment, generation, paused=paused, make=task_class, connector=parsed, task_configs=task
        )

    # --- generations of tasks: called by threads of units ---------------------------------------------------------

    def _is_current(self, name: str, generation: int) -> bool:
        return self._configs.read().get(name).generation == generation

    def _publish(self, name: str, config_offset: int, tasks: Sequence[PluginConfigs]) -> None:
        """Write the configurations of a connector's tasks, if they are new, and fence the older generation.

        Raises:
            Superseded: the connector was changed, stopped or deleted meanwhile.
        """
        raw = self._configs.state.get(name).config or {}
        task_configs = [
            self.settings.providers.hidden({key: str(value) for key, value in task.items()}, raw) for task in tasks
        ]

        def decide(state: ClusterState) -> list[Pair]:
            connector = state.get(name)
            if connector.config_offset != config_offset or connector.target == STOPPED:
                raise Superseded("its configuration was changed")
            if connector.has_current_tasks and list(connector.tasks) == task_configs:
                return []
            return [
                *(pair(Prefix.TASK, name, {"properties": task}, number) for number, task in enumerate(task_configs)),
                pair(
                    Prefix.COMMIT,
                    name,
                    {
                        "tasks": len(task_configs),
                        "config": config_offset,
                        "slots": state.slots_for(name, len(task_configs), self._slot_count),
                    },
                ),
            ]

        self._configs.change(decide)
        connector = self._configs.state.get(name)
        if self._is_fenced_source(connector) and connector.fenced != connector.generation:
            fence(self.settings, name, range(connector.fenced_tasks))
            self._configs.change(lambda state: _fenced(state, name, connector.generation))


def _set_session_timeout(settings: WorkerSettings) -> None:
    """Configure the group of the workers; without the right to, the service's default counts."""
    session_ms = settings["session.timeout.ms"]
    wanted = {
        "consumer.session.timeout.ms": str(session_ms),
        "consumer.heartbeat.interval.ms": str(max(session_ms // _HEARTBEATS_A_SESSION, 1)),
    }
    with Admin(**settings.client) as admin:
        group_configs = admin.describe_group_configs(settings.group_id)
        changed = {name: value for name, value in wanted.items() if group_configs[name].value != value}
        if changed:
            try:
                admin.alter_group_configs(settings.group_id, changed)
            except KafkaError as error:
                _log.warning("the group keeps its session time-out: %s", error)


class _Unusable(Run):
    """A unit whose configuration cannot be used, until it is changed or restarted."""

    def __init__(self, unit: Unit, environment: Environment, generation: int, *, paused: bool) -> None:
        super().__init__(unit, environment, generation, paused=paused)
        self.failed = self.abandoned = True  # its state is written already

    def run(self) -> None:
        return


def _is_source(connector: ConnectorState) -> bool:
    try:
        return issubclass(connector_class(connector.config or {}), SourceConnector)
    except (ConfigError, MissingExtra):
        return False


def _restart_mark(unit: Unit, connector: ConnectorState) -> int:
    """Return the offset of the last request that is about the unit, -1 if there was none."""
    marks = [-1]
    if connector.restart is not None and (unit.task is None or connector.restart.include_tasks):
        marks.append(connector.restart.offset)
    if unit.task is not None:
        marks.append(connector.task_restarts.get(unit.task, -1))
    return max(marks)


def _emptied(state: ClusterState, name: str) -> list[Pair]:
    connector = state.get(name)
    if not connector.exists or connector.target != STOPPED or not (connector.tasks or not connector.has_current_tasks):
        return []
    return [pair(Prefix.COMMIT, name, {"tasks": 0, "config": connector.config_offset})]


def _fenced(state: ClusterState, name: str, generation: int) -> list[Pair]:
    connector = state.get(name)
    if connector.generation != generation:
        return []
    # An older generation may have had more tasks: those were fenced before, by whoever wrote `fenced`.
    return [pair(Prefix.FENCING, name, {"tasks": len(connector.tasks), "generation": generation})]


def collect_rarely() -> None:
    """Have Python's collector look less often, in a process that does nothing but run connectors.

    The records of a batch are some ten objects each, which are all in use until the batch is written, and then are
    freed without the collector. Looking for garbage among them took a fifth of a task's time.
    """
    gc.freeze()  # modules and plugins stay
    gc.enable()  # a function's rests until it is ready (functions/collector.py)
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


def set_level(name: str, level: str) -> None:
    """Set the level of a logger; `root` is all of Odradek's. Raises ConnectError for an unknown level."""
    level = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL", "OFF": "CRITICAL"}.get(level.upper(), level)
    try:
        logging.getLogger("odradek" if name == "root" else name).setLevel(level.upper())
    except ValueError:
        raise ConnectError(f"unknown level {level!r}: use ERROR, WARN, INFO or DEBUG") from None


__all__ = ["STARTED", "Connector", "Worker", "collect_rarely", "set_level"]
