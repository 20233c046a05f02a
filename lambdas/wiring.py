"""The parts of every function: environment -> settings, store, engine, dispatcher, handler.

Only this module reads the environment of a function. It runs once per process, while Lambda initializes it: a function
that lacks variables fails there, with a message that names all of them, and never serves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from odradek.adapters.aws import open_queue
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, KafkaError
from odradek.functions.environment import WAKE_QUEUE_URL, Environment
from odradek.functions.invoked import Instruments
from odradek.functions.logs import log_as_json
from odradek.functions.metering import InvocationMeter
from odradek.functions.telemetry import write_stdout
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.ports.task_queue import TaskQueue
from odradek.protocol.api import FunctionName
from odradek.settings import Settings
from odradek.system import SystemRng
from odradek.tracing import TracedTables, Tracing, traced_objects

if TYPE_CHECKING:
    from odradek.functions.maintenance import Sweeping
    from odradek.served.wiring import TableParts
    from odradek.triggers.wiring import TriggerParts

HTTPS_PORT = 443


class LazyQueue:
    """A queue whose client is created at its first use: few functions of a deployment ever wake a trigger."""

    def __init__(self, create: Callable[[], TaskQueue]) -> None:
        self._create = create
        self._queue: TaskQueue | None = None

    def _opened(self) -> TaskQueue:
        if self._queue is None:
            self._queue = self._create()
        return self._queue

    async def send(self, messages: Sequence[str], *, delay_s: int = 0) -> list[str]:
        return await self._opened().send(messages, delay_s=delay_s)

    async def waiting(self) -> int:
        return await self._opened().waiting()


class Wiring:
    """The parts of one function.

    Args:
        environ: the variables of functions.environment and of settings.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environment = Environment.from_env(environ)
        self.settings = Settings.from_env(environ)
        self.meter = InvocationMeter()
        self._store = store = self.environment.open_store(self.meter)
        clock = store.clock
        self.instruments = Instruments(
            clock=clock,
            meter=self.meter,
            cluster_id=self.settings.cluster_id,
            log_interval_ms=self.settings.log_interval_ms,
            detailed_metrics=self.settings.detailed_metrics,
        )
        log_as_json(write_stdout)
        self.tracing = Tracing() if self.settings.tracing else None
        self.engine = Engine(
            tables=store if self.tracing is None else TracedTables(store, self.tracing),
            objects=store.objects if self.tracing is None else traced_objects(store.objects, self.tracing),
            clock=clock,
            rng=SystemRng(),
            settings=self.settings,
            wakes=self._wakes(),
        ).count_damage(self.meter)
        if self.settings.table_catalog:
            from odradek.adapters.iceberg import open_catalog  # most functions have none

            bucket = self.environment.bucket.partition(",")[0]
            self.engine.keep_tables(open_catalog(self.settings.table_catalog, f"s3://{bucket}"))

    def _wakes(self) -> TaskQueue | None:
        url = self.environment.wake_queue_url
        return None if url is None else LazyQueue(lambda: self._open(url))

    def tables(self) -> TableParts:
        """Return the parts of served tables. Raises KafkaError(INVALID_CONFIG) without their table or the queue."""
        from odradek.served.wiring import wire_tables

        queue = self._wakes()
        if queue is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"the function lacks {WAKE_QUEUE_URL}: set it as `cdk deploy` does"
            )
        return wire_tables(self.engine, self._store.rows, queue)

    def sweeps(self) -> dict[str, Sweeping]:
        """Return what maintenance looks at beside the log."""
        if self.environment.wake_queue_url is None:
            return {}
        sweeps: dict[str, Sweeping] = {"triggers": self.triggers().sweep}
        if self.environment.rows_table is not None:
            sweeps["tables"] = self.tables().sweep
        return sweeps

    def triggers(self) -> TriggerParts:
        """Return the parts of triggers. Raises KafkaError(INVALID_CONFIG) without their queue."""
        from odradek.adapters.aws.outside import AwsServices
        from odradek.triggers.event import EventSource
        from odradek.triggers.wiring import wire_triggers

        environment = self.environment
        if environment.wake_queue_url is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"the function lacks {WAKE_QUEUE_URL}: set it as `cdk deploy` does"
            )
        account = urlsplit(environment.wake_queue_url).path.strip("/").partition("/")[0]
        arn = f"arn:aws:kafka:{environment.region}:{account}:cluster/{self.settings.cluster_id}/functions"
        queue = self._wakes()
        assert queue is not None
        return wire_triggers(
            self.engine,
            queue,
            EventSource(arn, environment.bootstrap_url or f"{self.settings.cluster_id}:{HTTPS_PORT}"),
            lambda: AwsServices(region=environment.region, endpoint_url=environment.endpoint_url, meter=self.meter),
            followers=() if environment.rows_table is None else (self.tables().maintainer,),
        )

    def _open(self, url: str) -> TaskQueue:
        return open_queue(
            url, region=self.environment.region, endpoint_url=self.environment.endpoint_url, meter=self.meter
        )

    def open_queue(self) -> TaskQueue | None:
        """Return the queue of maintenance tasks; None if the environment names none."""
        url = self.environment.queue_url
        return None if url is None else self._open(url)

    @property
    def cluster(self) -> Cluster:
        """Return the fleet as one broker. Over HTTPS no client connects to its address, but Metadata must name one."""
        url = self.environment.function_urls.get(FunctionName.PRODUCE, "")
        return Cluster(self.settings.cluster_id, Broker(FLEET_BROKER_ID, urlsplit(url).hostname or "fleet", HTTPS_PORT))


def wire() -> Wiring:
    """Return the parts of this process's function.

    Raises KafkaError(INVALID_CONFIG) for an incomplete environment: Lambda reports its message as the reason why the
    function does not initialize.
    """
    return Wiring(os.environ)
