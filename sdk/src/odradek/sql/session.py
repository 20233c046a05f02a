"""Runs scripts: a script is checked completely before any statement runs, then its statements run in order.

With `once` each persistent query processes what exists and ends before the next statement, so that a chain of queries
in one script is complete at its end. After an INSERT, the queries before it process what it wrote, before the next
SELECT and at the end: the statements of a tutorial give its rows in the order in which one types them. Otherwise
queries run side by side until the session is stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.errors import ErrorCode, KafkaError
from odradek.sql.catalog import Source
from odradek.sql.parse import parse
from odradek.sql.plan import (
    Action,
    Asserted,
    Configured,
    Declared,
    Dropped,
    Inserted,
    OfConnectors,
    QueryPlan,
    Resumed,
    Said,
    Selected,
    Shown,
    ShownTopics,
    Started,
    Terminated,
    Topic,
)
from odradek.sql.planning.declare import Schemas
from odradek.sql.planning.served import served_options
from odradek.sql.planning.upgrades import Basis, difference
from odradek.sql.position import Position, SqlError
from odradek.sql.running.printed import Printer
from odradek.sql.script import Planner
from odradek.system import SystemClock

Row = Sequence[Any]


class Tombstone(tuple[Any, ...]):
    """A row of a query over a table, of EMIT CHANGES, whose key the table no longer has."""

    __slots__ = ()


_ASSERT_POLL_S = 0.1
_SERVERS_ONLY = (
    "statements about connectors are for a server: odradek sql --server URL, or use `odradek connect create`"
)
_OF_ANOTHER = (
    "{id} cannot go on from its checkpoint: {broken}. Create it under a new name, or start from the beginning: "
    "remove the folder {id} of the checkpoints, and delete its topic"
)
_CLOCK = SystemClock()


class Runner(Protocol):
    """Runs plans."""

    def rows(self, plan: QueryPlan) -> list[Row]:
        """Return the rows of a batch plan."""
        ...

    def changes(self, plan: QueryPlan, show: Callable[[list[Row]], None], *, once: bool) -> None:
        """Show rows of a stream plan as they arrive: up to its limit, the present end with `once`, or a stop."""
        ...

    def insert(self, plan: QueryPlan) -> None:
        """Write the rows of a batch plan to its sink."""
        ...

    def process(self, plan: QueryPlan) -> Mapping[str, Any]:
        """Run a persistent query until everything that exists is processed; return a summary."""
        ...

    def start(self, plan: QueryPlan) -> None:
        """Start a persistent query."""
        ...

    def stop(self, query_id: str) -> None:
        """Stop a persistent query, if it runs."""
        ...

    def forget(self, query_id: str) -> None:
        """Remove the checkpoint of a stopped query."""
        ...

    def kept_basis(self, query_id: str) -> Basis | None:
        """Return what the checkpoint of a query belongs to; None if there is none, or if it does not say."""
        ...

    def wait(self) -> None:
        """Return when a stop is requested or no query runs. Raises SqlError if one failed."""
        ...

    def configure(self, name: str, value: str | None) -> None:
        """Set a property of Spark."""
        ...

    def has_schema(self, subject: str, schema_id: int | None) -> bool:
        """Return True if the registry has the subject (if any is named), and the id. Raises KafkaError without one."""
        ...


class Topics(Protocol):
    """Topics of the installation."""

    def partitions(self) -> Mapping[str, int]:
        """Return the partition count of each topic."""
        ...

    def consumers(self) -> Mapping[str, Sequence[int]]:
        """Return, by topic, how many members each group of consumers has that reads it now."""
        ...

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic; -1 partitions: the service's default."""
        ...

    def delete(self, name: str) -> None:
        """Delete a topic."""
        ...

    def serve(self, name: str, topic: str, options: Mapping[str, Any]) -> None:
        """Serve a topic as a table, unless it is served so."""
        ...

    def unserve(self, name: str) -> None:
        """Serve a table no more, if it is served."""
        ...


class Screen(Protocol):
    """The output of results and messages."""

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Show a complete result."""
        ...

    def rows(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Show rows of a result that may continue."""
        ...

    def say(self, text: str) -> None:
        """Show a message."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """A planned statement."""

    action: Action
    at: Position
    source: str
    name: str  # of the file; empty without


def _schema_name(action: Asserted) -> str:
    number = "" if action.schema_id is None else f" with id {action.schema_id}"
    return f"schema{f' of {action.subject}' if action.subject else ''}{number}"


def check(
    scripts: Sequence[tuple[str, str]], schemas: Schemas | None = None, *, loads_modules: bool = True
) -> list[Step]:
    """Plan scripts in order.

    Args:
        scripts: name and text of each.
        schemas: returns the columns that a schema registry has; None: columns have to be declared.
        loads_modules: whether a script may name a module of functions, which is then run.

    Raises:
        SqlError: the first error, shown in its script.
    """
    planner = Planner(schemas=schemas, loads_modules=loads_modules)
    steps: list[Step] = []
    for name, text in scripts:
        try:
            steps += [Step(planner.plan(each), each.at, text, name) for each in parse(text)]
        except SqlError as error:
            raise error.located(text, name) from None
    return steps


def check_without_server(steps: Sequence[Step]) -> None:
    """Raise SqlError for a statement that only a server can run."""
    for step in steps:
        if isinstance(step.action, OfConnectors):
            raise SqlError(_SERVERS_ONLY, step.at).located(step.source, step.name)


class Session:
    """Runs planned statements."""

    def __init__(self, runner: Runner, topics: Topics, screen: Screen, *, once: bool) -> None:
        self._runner = runner
        self._topics = topics
        self._screen = screen
        self._once = once
        self._started = 0
        self._ended: dict[str, QueryPlan] = {}  # with `once`: the persistent queries so far
        self._has_more = False  # an INSERT came after them

    def run(self, steps: Sequence[Step]) -> None:
        """Run all steps, then wait for the queries that continue.

        Raises:
            SqlError: at the statement that failed. Earlier statements remain in effect; if a query cannot go on from
                its checkpoint, none was run.
        """
        check_without_server(steps)
        self._check_checkpoints(steps)
        for step in steps:
            try:
                self.perform(step.action)
            except SqlError as error:
                error.at = error.at or step.at
                raise error.located(step.source, step.name) from None
            except KafkaError as error:
                failed = SqlError(error.message, step.at, code=error.code)
                raise failed.located(step.source, step.name) from None
        self._catch_up()
        if self._started:
            self._runner.wait()

    def _check_checkpoints(self, steps: Sequence[Step]) -> None:
        """Raise SqlError if a query of the script is not the one, or its successor, that its checkpoint belongs to."""
        forgotten: set[str] = set()
        wanted: dict[str, tuple[Step, QueryPlan]] = {}  # the last of each id: it may replace others
        for step in steps:
            if isinstance(step.action, Dropped) and step.action.delete_topic:
                forgotten |= set(step.action.stop)
            elif isinstance(step.action, Started):
                plans = (*step.action.stages, step.action.plan)
                wanted |= {each.query_id: (step, each) for each in plans if each.query_id not in forgotten}
        for query_id, (step, plan) in wanted.items():
            kept = self._runner.kept_basis(query_id)
            broken = None if kept is None or plan.basis is None else difference(kept, plan.basis)
            if broken is not None:
                raise SqlError(_OF_ANOTHER.format(id=query_id, broken=broken), step.at).located(step.source, step.name)

    def _catch_up(self) -> None:
        """With `once`: process what INSERTs wrote after the queries that may read it."""
        if self._has_more:
            self._has_more = False
            for plan in self._ended.values():
                self._process(plan)

    def _process(self, plan: QueryPlan) -> None:
        summary = self._runner.process(plan)
        told = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in summary.items() if value)
        self._screen.say(f"{plan.query_id}: {told or 'nothing new'}")

    def perform(self, action: Action) -> None:
        """Run one statement. Raises KafkaError."""
        screen = self._screen
        if isinstance(action, Declared):
            self._declare(action)
        elif isinstance(action, Started):
            self._start(action)
        elif isinstance(action, Selected):
            self._select(action)
        elif isinstance(action, Inserted):
            assert action.plan.sink is not None
            self.ensure(action.plan.sink.topic)
            self._runner.insert(action.plan)
            self._has_more = bool(self._ended)
            screen.say(f"inserted {action.rows} into {action.plan.sink.topic.name}")
        elif isinstance(action, Shown):
            screen.table(action.title, action.columns, action.rows)
        elif isinstance(action, ShownTopics):
            found = list(action.of(self._topics.partitions()).items())
            screen.table("Topics", ("topic", "partitions"), found)
        elif isinstance(action, Said):
            screen.say(action.text)
        elif isinstance(action, Terminated):
            for query_id in action.query_ids:
                self._runner.stop(query_id)
                self._ended.pop(query_id, None)
            screen.say(f"terminated {', '.join(action.query_ids) or 'nothing'}")
        elif isinstance(action, Resumed):
            self._resume(action)
        elif isinstance(action, Asserted):
            self._assert(action)
        elif isinstance(action, Dropped):
            self._drop(action)
        elif isinstance(action, OfConnectors):
            raise SqlError(_SERVERS_ONLY)
        else:
            assert isinstance(action, Configured)
            self._runner.configure(action.name, action.value)
            screen.say(f"{action.name} is {action.value if action.value is not None else 'unset'}")

    def _declare(self, action: Declared) -> None:
        topic = action.topic
        if topic.name not in self._topics.partitions():
            if topic.partitions is None:
                raise SqlError(
                    f"topic {topic.name} does not exist: WITH (PARTITIONS = n) creates it",
                    code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            self.ensure(topic)
        self._serve(action.source)
        self._screen.say(f"created {action.source.kind.lower()} {action.source.name}")

    def ensure(self, topic: Topic) -> None:
        """Create a topic if it does not exist."""
        there = self._topics.partitions()
        if topic.name not in there:
            partitions = topic.partitions or there.get(topic.like, -1)
            self._topics.create(topic.name, partitions, dict(topic.configs))

    def _start(self, action: Started) -> None:
        plan = action.plan
        for query_id in action.replaces:
            self._runner.stop(query_id)
        if action.source is not None and action.source.served:
            assert plan.sink is not None
            self.ensure(plan.sink.topic)
            self._serve(action.source)
        for each in (*action.stages, plan):
            self._start_query(each)

    def _serve(self, source: Source) -> None:
        """Serve a table that is WITH (SERVED = ...)."""
        if source.served:
            self._topics.serve(source.served, source.topic, served_options(source))
            self._screen.say(f"{source.name} is served as table {source.served}")

    def _start_query(self, plan: QueryPlan) -> None:
        assert plan.sink is not None
        self.ensure(plan.sink.topic)
        for note in plan.notes:
            self._screen.say(f"{plan.query_id}: note: {note}")
        if self._once:
            self._catch_up()  # what it reads may be written by a query before
            self._process(plan)
            self._ended[plan.query_id] = plan
        else:
            self._runner.start(plan)
            self._started += 1
            self._screen.say(f"started {plan.query_id}, writing to topic {plan.sink.topic.name}")

    def _resume(self, action: Resumed) -> None:
        for plan in action.plans:
            if not self._once:
                self._runner.start(plan)
                self._started += 1
        self._screen.say(f"resumed {', '.join(each.query_id for each in action.plans) or 'nothing'}")

    def _assert(self, action: Asserted) -> None:
        """Return when it is so. Raises SqlError if it is not within the timeout."""
        what = f"topic {action.topic}" if action.topic else _schema_name(action)
        deadline = _CLOCK.monotonic() + action.timeout_ms / 1000
        while True:
            if action.topic:
                count = self._topics.partitions().get(action.topic)
                found = count is not None and action.partitions in (None, count)
            else:
                found = self._runner.has_schema(action.subject, action.schema_id)
            if found == action.exists:
                self._screen.say(f"{what} {'exists' if found else 'does not exist'}")
                return
            if _CLOCK.monotonic() >= deadline:
                raise SqlError(f"the assertion failed: {what} {'exists' if found else 'does not exist, or not so'}")
            threading.Event().wait(_ASSERT_POLL_S)

    def _select(self, action: Selected) -> None:
        self._catch_up()
        plan = action.plan
        names = [name for name, _ in plan.columns]
        for note in plan.notes:
            self._screen.say(f"note: {note}")
        if plan.mode == "batch":
            self._screen.table("", names, self._runner.rows(plan))
            return
        printer = Printer() if action.prints else None

        def show(rows: list[Row]) -> None:
            for line in printer.formats(rows) if printer is not None else ():
                self._screen.say(line)
            self._screen.rows(names, rows if printer is None else printer.rows(rows))

        self._runner.changes(plan, show, once=self._once)

    def _drop(self, action: Dropped) -> None:
        for query_id in action.stop:
            self._runner.stop(query_id)
            self._ended.pop(query_id, None)
        if action.delete_topic:
            self._topics.delete(action.delete_topic)
            there = self._topics.partitions() if action.between else {}
            for topic in action.between:
                if topic in there:
                    self._topics.delete(topic)
            for query_id in action.stop:
                self._runner.forget(query_id)
        if action.served:
            self._topics.unserve(action.served)
        self._screen.say(f"dropped {action.name}{' and its topic' if action.delete_topic else ''}")
