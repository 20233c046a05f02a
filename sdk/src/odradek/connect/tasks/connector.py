"""A running connector: it starts the plugin, divides the work into tasks, and does so again when the plugin asks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from odradek.connect.errors import ConnectError
from odradek.connect.plugin import Configs, Connector
from odradek.connect.record import Offset, Partition
from odradek.connect.state.statuses import Unit
from odradek.connect.tasks.run import Environment, Run
from odradek.connect.tasks.source import TaskOffsets

_LOOK_S = 0.2


class _Context:
    """plugin.ConnectorContext."""

    def __init__(self, environment: Environment, connector: str) -> None:
        self.clock, self.client = environment.clock, environment.settings.client
        self._environment, self._connector = environment, connector
        self.wants_tasks = threading.Event()

    def request_task_reconfiguration(self) -> None:
        self.wants_tasks.set()

    def offset(self, partition: Partition) -> Offset | None:
        return TaskOffsets(self._environment.offsets, self._connector).offset(partition)


class ConnectorRun(Run):
    """A running connector.

    Args:
        make: returns the plugin.
        configs: the connector's configuration.
        tasks_max: the largest number of tasks.
        publish: takes the configurations of the tasks; called only if they may have changed.
    """

    def __init__(
        self,
        unit: Unit,
        environment: Environment,
        generation: int,
        *,
        paused: bool,
        make: Callable[[], Connector],
        configs: Mapping[str, str],
        tasks_max: int,
        publish: Callable[[Sequence[Configs]], None],
    ) -> None:
        super().__init__(unit, environment, generation, paused=paused)
        self._make, self._configs, self._tasks_max, self._publish = make, configs, tasks_max, publish

    def run(self) -> None:
        connector = self._make()
        context = _Context(self.environment, self.unit.connector)
        connector.initialize(context)
        try:
            self.begin(lambda: connector.start(self._configs))
            context.wants_tasks.set()
            shown: bool | None = None
            while not self.is_stopping:
                if shown != self._paused:
                    shown = self._paused
                    self.put_activity()
                if context.wants_tasks.is_set():
                    context.wants_tasks.clear()
                    self.begin(lambda: self._divide(connector))
                self.note_work(found=False)
                self.wait(_LOOK_S)
        finally:
            connector.stop()

    def _divide(self, connector: Connector) -> None:
        tasks = list(connector.task_configs(self._tasks_max))
        if len(tasks) > self._tasks_max:
            raise ConnectError(
                f"the connector made {len(tasks)} tasks, more than tasks.max={self._tasks_max}: raise tasks.max"
            )
        self._publish(tasks)
