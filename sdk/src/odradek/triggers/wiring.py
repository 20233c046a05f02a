"""The parts of triggers in one process, put together: by the embedded service and by the dispatcher's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

from odradek.engine.engine import Engine
from odradek.limits import CALLS_AT_ONCE
from odradek.model.trigger import FunctionKind
from odradek.ports.outside import Outside
from odradek.ports.task_queue import TaskQueue
from odradek.triggers.calls import Target
from odradek.triggers.dispatcher import Follower, TriggerDispatcher
from odradek.triggers.drain import DrainTools
from odradek.triggers.event import EventSource
from odradek.triggers.failures import AwsDestination, Failures, TopicDestination
from odradek.triggers.leases import Leases
from odradek.triggers.reach import Reach
from odradek.triggers.slots import Slots
from odradek.triggers.sweep import TriggerSweep
from odradek.triggers.targets import LambdaTarget, Targets
from odradek.triggers.triggers import Definitions, Triggers
from odradek.triggers.webhooks import WebhookTarget

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0


@cache
def call_threads() -> ThreadPoolExecutor:
    """Return the threads in which this process calls URLs and functions of its own."""
    return ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="odradek-calls")


@dataclass(frozen=True, slots=True)
class TriggerParts:
    """The triggers' parts of one process."""

    triggers: Triggers
    dispatcher: TriggerDispatcher
    sweep: TriggerSweep


def wire_triggers(
    engine: Engine,
    queue: TaskQueue,
    source: EventSource,
    outside: Callable[[], Outside],
    *,
    more: Mapping[FunctionKind, Target] | None = None,
    is_embedded: bool = False,
    followers: Sequence[Follower] = (),
) -> TriggerParts:
    """Put the parts together.

    Args:
        queue: takes wake messages.
        source: what events say of the cluster.
        outside: creates the calls to AWS, at the first use.
        more: targets beside Lambda functions and URLs.
        followers: woken by the same messages: served tables.
        is_embedded: the only process of its store: it waits for pauses itself, and may call URLs without TLS.
    """
    leases = Leases(engine, engine.rng.random_bytes(8).hex(), is_sole=is_embedded)
    definitions = Definitions(engine)
    settings = engine.settings
    reach = Reach(settings.trigger_targets, settings.trigger_networks, is_embedded=is_embedded)
    targets: dict[FunctionKind, Target] = {
        FunctionKind.LAMBDA: LambdaTarget(outside),
        FunctionKind.WEBHOOK: WebhookTarget(engine.clock, reach, call_threads()),
        **(more or {}),
    }
    aws = {service: AwsDestination(service, outside) for service in ("sqs", "sns", "s3")}
    tools = DrainTools(
        engine,
        leases,
        Targets(targets, reach),
        Failures({"topic": TopicDestination(engine), **aws}, reach),
        source,
        engine.tools.backoff(first_s=_FIRST_PAUSE_S, max_s=_LONGEST_PAUSE_S),
        wait_ms_max=5_000 if is_embedded else 1_000,
        slots=Slots(CALLS_AT_ONCE),
    )
    return TriggerParts(
        Triggers(engine, definitions, leases, queue, reach),
        TriggerDispatcher(tools, definitions, queue, followers),
        TriggerSweep(engine, definitions, leases, queue),
    )
