"""Triggers and served tables of the embedded service: the same dispatcher as on AWS, in this process.

It calls functions of this process (`module:handler` of the allowed modules, or handlers by name), URLs, and Lambda
functions where AWS credentials are found.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.engine.engine import Engine
from odradek.engine.marks import decode_wake
from odradek.extras import extra
from odradek.functions.maintenance import Sweeping
from odradek.functions.telemetry import WriteLine
from odradek.limits import FUNCTION_TIMEOUT_S_MAX
from odradek.local.wake_queue import WakeQueue
from odradek.model.trigger import FunctionKind
from odradek.ports.clock import Clock
from odradek.ports.outside import Outside
from odradek.ports.table import Table
from odradek.served.wiring import TableParts, wire_tables
from odradek.triggers.event import EventSource
from odradek.triggers.sweep import TriggerSweep
from odradek.triggers.targets import Handler, HandlerTarget
from odradek.triggers.triggers import Triggers
from odradek.triggers.wiring import call_threads, wire_triggers


def local_arn(cluster_id: str) -> str:
    """The event source's ARN, in the form of an MSK cluster's."""
    return f"arn:aws:kafka:local:000000000000:cluster/{cluster_id}/embedded"


class LocalTriggers:
    """Queue, dispatcher and sweep of one service; the queue is there before the engine, which it wakes for.

    Args:
        handlers: that triggers may call, by name.
        modules: of which they may call `module:handler`.
    """

    def __init__(
        self, clock: Clock, write_line: WriteLine, handlers: Mapping[str, Handler] | None, modules: tuple[str, ...]
    ) -> None:
        self.queue = WakeQueue(clock, write_line)
        self._clock = clock
        self._handlers = HandlerTarget(handlers, modules, call_threads())
        self.triggers: Triggers
        self.sweep: TriggerSweep
        self.tables: TableParts

    async def start(self, engine: Engine, source: EventSource, rows: Table) -> None:
        """Begin to call; first what an earlier process left.

        Args:
            rows: of served tables, which the same messages wake.
        """
        self.tables = tables = wire_tables(engine, rows, self.queue, expires=True)
        parts = wire_triggers(
            engine,
            self.queue,
            source,
            _aws,
            more={FunctionKind.HANDLER: self._handlers},
            is_embedded=True,
            followers=(tables.maintainer,),
        )
        self.triggers, self.sweep = parts.triggers, parts.sweep

        async def handle(message: str) -> None:
            deadline_s = self._clock.monotonic() + FUNCTION_TIMEOUT_S_MAX
            await parts.dispatcher.handle(decode_wake(message), deadline_s)

        self.queue.start(handle)
        await parts.sweep.run(queue_is_empty=True)
        await tables.sweep.run()

    @property
    def sweeps(self) -> dict[str, Sweeping]:
        """Return the sweeps that maintenance runs."""
        return {"triggers": self.sweep, "tables": self.tables.sweep}

    async def stop(self) -> None:
        """Stop; calls that are under way are given up. May be called twice."""
        await self.queue.stop()


def _aws() -> Outside:
    with extra("aws"):
        from odradek.adapters.aws.outside import AwsServices
    return AwsServices(region=None)
