"""The statements of requests, one at a time: planned, written to the log, performed.

    planned     on a copy of the definitions: a statement that is refused changes nothing
    written     before it is performed, so that a crash in between is made good by the next start; what then fails is
                erased again
    performed   topics are created, queries start or stop

A statement without which the later ones mean the same is erased from the log: DROP takes CREATE with it where no
statement that remains names the source.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from odradek.errors import KafkaError
from odradek.patterns import Pattern, PatternInvalid
from odradek.sql.plan import (
    Action,
    Asserted,
    Declared,
    Dropped,
    Inserted,
    OfConnectors,
    QueryPlan,
    Said,
    Selected,
    Shown,
    ShownTopics,
    Started,
    Terminated,
)
from odradek.sql.planning.declare import Schemas
from odradek.sql.planning.own_functions import FUNCTIONS_MODULE
from odradek.sql.planning.settings import SETTINGS, SUBSTITUTION, WITHOUT_EFFECT
from odradek.sql.position import START, SqlError
from odradek.sql.script import Planner
from odradek.sql.server.command_log import Command, CommandLog
from odradek.sql.server.connectors import Connectors
from odradek.sql.server.entities import Json, command_status, entity
from odradek.sql.server.errors import (
    ASSERTION_FAILED,
    BAD_REQUEST,
    BAD_STATEMENT,
    QUERY_ENDPOINT,
    SHUTTING_DOWN,
    RestError,
    refused,
)
from odradek.sql.server.outcomes import about, already_so, kind_and_name, outcome
from odradek.sql.server.shown import Shows
from odradek.sql.server.statements import statements_of
from odradek.sql.server.supervisor import Engine, Supervisor
from odradek.sql.session import Row, Session, Topics
from odradek.sql.syntax import Define, Pause, Print, Query, Set, Show, Statement, Terminate

_log = logging.getLogger("odradek.sql.server")
_STATEMENTS_MAX = 1_000  # of one request
_PATTERNS_MAX = 1_000  # of topics to delete
_NO_CONNECT = "this server reaches no Connect cluster: start it with --bootstrap-servers, or use `odradek connect`"
_QUERY_ENDPOINT = "SELECT and PRINT are requests to /query or /query-stream, not to /ksql"


@dataclass(slots=True)
class Defined:
    """What the server has defined: the planner, and the statement of each thing."""

    planner: Planner
    commands: dict[int, Command] = field(default_factory=dict)  # those that count
    statements: dict[str, str] = field(default_factory=dict)  # text, by command.about
    needs: dict[int, tuple[str, ...]] = field(default_factory=dict)  # streams and tables that a statement names
    paused: set[str] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)  # statements of the log that could not be planned again


class Pushes(Protocol):
    """Push queries that run."""

    def pushed(self) -> Mapping[str, str]: ...
    def close_query(self, query_id: str) -> bool: ...


class _Quiet:
    """A screen that keeps messages."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Row]) -> None: ...

    def rows(self, columns: Sequence[str], rows: Sequence[Row]) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


class SqlService:
    """The definitions of one server, and its persistent queries.

    Args:
        engine: runs queries.
        topics: of the installation.
        log: of the statements.
        schemas: returns the columns that a schema registry has.
        connectors: of the Connect cluster that statements are about; None: there is none.
    """

    def __init__(
        self,
        engine: Engine,
        topics: Topics,
        log: CommandLog,
        *,
        schemas: Schemas | None = None,
        connectors: Connectors | None = None,
    ) -> None:
        self.engine = engine
        self.topics = topics
        self._command_log = log
        self._connectors = connectors
        self._settings = {"auto.offset.reset": "latest"}
        self.defined = Defined(Planner(settings=dict(self._settings), schemas=schemas))
        self.supervisor = Supervisor(engine)
        self.pushes: Pushes | None = None  # the push queries of requests, where there are requests
        self._shows = Shows(self)
        self._statuses: dict[str, Json] = {}
        self._lock = threading.RLock()
        self._is_terminated = False

    # --- start and end

    def set_defaults(self, properties: Mapping[str, str]) -> None:
        """Set properties of all requests that set no other. Raises RestError."""
        self._settings = self.settings(properties)
        self.defined.planner.settings = dict(self._settings)

    def open(self) -> None:
        """Plan the statements of the log again, and start the queries that ran. Raises KafkaError."""
        with self._lock:
            for command in self._command_log.load():
                try:
                    self._replay(command)
                except SqlError as error:
                    self.defined.failed[command.number] = error.problem
                    _log.error("statement %d of the log: %s", command.number, error.problem)
            for query_id, query in self.defined.planner.queries.items():
                if query_id not in self.defined.paused:
                    self._start_again((*query.stages, query.plan))
            self.supervisor.begin()

    def _replay(self, command: Command) -> None:
        [(statement, _)] = statements_of(command.statement, {}, substitutes=False)
        trial, action = self._planned(statement, command.number, command.properties)
        if isinstance(statement, Pause):
            assert statement.query_id is not None
            self.defined.paused.add(statement.query_id.text)
            self.defined.commands[command.number] = command
        else:
            self._keep(command, trial, action)

    def _start_again(self, plans: Iterable[QueryPlan]) -> None:
        for plan in plans:
            try:
                assert plan.sink is not None
                Session(self.supervisor, self.topics, _Quiet(), once=False).ensure(plan.sink.topic)
                self.supervisor.start(plan)
            except KafkaError as error:
                self.supervisor.failed(plan, error.message)

    def close(self) -> None:
        """Stop the queries; they go on at the next start."""
        self.supervisor.close()
        self._command_log.close()
        if self._connectors is not None:
            self._connectors.close()

    @property
    def is_degraded(self) -> bool:
        """True if a statement of the log does not run."""
        return bool(self.defined.failed)

    # --- requests

    def execute(self, text: str, properties: Mapping[str, Any], variables: Mapping[str, Any]) -> list[Json]:
        """Run the statements of a request to /ksql, in order.

        Args:
            properties: of this request, as of SET.

        Raises:
            RestError: at the first statement that fails; those before it stay in effect.
        """
        with self._lock:
            entities: list[Json] = []
            settings = self.settings(properties)
            found = self.statements(text, variables, settings)
            defined = {name.upper(): str(value) for name, value in variables.items()}
            for statement, shown in found:
                if isinstance(statement, Query | Print):
                    raise RestError(QUERY_ENDPOINT, _QUERY_ENDPOINT, statement=shown, entities=entities)
                try:
                    entities += self._one(statement, shown, settings, defined)
                except KafkaError as error:
                    raise refused(error, shown, entities) from None
                except RestError as error:
                    error.statement, error.entities = shown, entities
                    raise
            return entities

    def statements(
        self, text: str, variables: Mapping[str, Any], settings: Mapping[str, str]
    ) -> list[tuple[Statement, str]]:
        """Return the statements of a request, with variables replaced if settings allow that. Raises RestError."""
        if self._is_terminated:
            raise RestError(SHUTTING_DOWN, "the cluster has been terminated: restart the server to begin anew")
        try:
            found = statements_of(text, variables, substitutes=settings.get(SUBSTITUTION) != "false")
        except SqlError as error:
            raise refused(error, text) from None
        if not found:
            raise RestError(BAD_STATEMENT, "the request has no statement", statement=text)
        if len(found) > _STATEMENTS_MAX:
            raise RestError(BAD_STATEMENT, f"a request has at most {_STATEMENTS_MAX:,} statements", statement="")
        return found

    def settings(self, properties: Mapping[str, Any]) -> dict[str, str]:
        """Return the settings of a request. Raises RestError for a property that is unknown or has a wrong value."""
        trial = Planner(settings=dict(self._settings))
        for name, value in properties.items():
            _check_setting(name)
            try:
                trial.plan(Set(name, str(value), START))
            except SqlError as error:
                raise refused(error, f"SET '{name}' = '{value}';") from None
        return trial.settings

    def check_property(self, name: str) -> None:
        """Raise RestError for a property that SET does not take."""
        known = name.removeprefix("ksql.streams.")
        if known not in SETTINGS and known not in WITHOUT_EFFECT:
            raise RestError(BAD_STATEMENT, f"unknown property {name}", statement=name)

    def selected(
        self, text: str, properties: Mapping[str, Any], variables: Mapping[str, Any]
    ) -> tuple[Selected, str, tuple[str, ...]]:
        """Plan the one query of a request to /query; return it, its text, and the key columns of a table. Raises
        RestError."""
        settings = self.settings(properties)
        found = self.statements(text, variables, settings)
        if len(found) != 1:
            raise RestError(BAD_STATEMENT, f"expected one statement, not {len(found)}", statement=text)
        [(statement, shown)] = found
        if not isinstance(statement, Query | Print):
            raise RestError(BAD_STATEMENT, "/query takes SELECT and PRINT; other statements are requests to /ksql",
                            statement=shown)  # fmt: skip
        with self._lock:
            trial = self.defined.planner.copy()
        trial.settings = settings
        try:
            action = trial.plan(statement)
        except KafkaError as error:
            raise refused(error, shown) from None
        assert isinstance(action, Selected)
        if isinstance(statement, Print):
            if statement.topic not in self.topics.partitions():
                raise RestError(BAD_STATEMENT, f"topic {statement.topic} does not exist", statement=shown)
            return action, shown, ()
        keys: tuple[str, ...] = ()
        source = trial.catalog.find(statement.source.name)
        if action.plan.mode == "batch" and source.kind == "TABLE" and not statement.joins:
            keys = tuple(each.name for each in source.keys)
        return action, shown, keys

    def terminate(self, topics: Sequence[str]) -> list[Json]:
        """End all queries, forget all statements, and take no more of them until a restart.

        Args:
            topics: names, or regular expressions for whole names: of the topics that queries wrote, these are deleted.

        Raises:
            RestError: for an expression that is none.
        """
        if len(topics) > _PATTERNS_MAX:
            raise RestError(BAD_REQUEST, f"deleteTopicList has at most {_PATTERNS_MAX:,} names and expressions")
        patterns = []
        for each in topics:
            try:
                patterns.append(Pattern(each))
            except PatternInvalid as error:
                message = f"deleteTopicList: {each[:100]!r} is no regular expression (RE2): {error}"
                raise RestError(BAD_REQUEST, message) from None
        with self._lock:
            queries = self.defined.planner.queries.values()
            plans = [plan for each in queries for plan in (*each.stages, each.plan)]
            for plan in plans:
                self.supervisor.stop(plan.query_id)
            written = {plan.sink.topic.name for plan in plans if plan.sink is not None}
            there = self.topics.partitions()
            for topic in sorted(written & set(there)):
                if any(each.matches(topic) for each in patterns):
                    self.topics.delete(topic)
            self._command_log.erase([*self.defined.commands, *self.defined.failed])
            for plan in plans:
                self.supervisor.forget(plan.query_id)
            planner = Planner(settings=dict(self._settings), schemas=self.defined.planner.schemas)
            self.defined = Defined(planner)
            self._is_terminated = True
        command_id = "cluster/TerminateCluster/terminate"
        return [command_status("TERMINATE CLUSTER;", command_id, "Cluster terminated.", self._last_number, None)]

    def status(self, command_id: str) -> Json | None:
        """Return the status of a command, None for an unknown one."""
        return self._statuses.get(command_id)

    def statuses(self) -> dict[str, str]:
        """Return the status of each command."""
        return {name: each["status"] for name, each in self._statuses.items()}

    @property
    def _last_number(self) -> int:
        """The number of the last statement that is in the log or was: a client waits for no later one."""
        return self.next_number - 1

    @property
    def next_number(self) -> int:
        """The number of the next statement."""
        return self._command_log.next_number

    # --- one statement

    def _one(self, statement: Statement, text: str, settings: dict[str, str], variables: dict[str, str]) -> list[Json]:
        if isinstance(statement, Set):
            return self._set(statement, settings)
        if isinstance(statement, Define):
            variables.pop(statement.name.text, None)
            variables |= {} if statement.value is None else {statement.name.text: statement.value}
            return []
        if isinstance(statement, Show) and statement.what == "VARIABLES":
            shown = [{"name": name, "value": value} for name, value in sorted(variables.items())]
            return [entity("variables", text, variables=shown)]
        if isinstance(statement, Pause):
            return [self._pause(statement, text)]
        if isinstance(statement, Terminate) and (ended := self._end_push(statement, text)) is not None:
            return [ended]
        trial, action = self._planned(statement, self._command_log.next_number, settings)
        if isinstance(action, OfConnectors):
            if self._connectors is None:
                raise RestError(BAD_STATEMENT, _NO_CONNECT)
            return [self._connectors.answer(action, text, self._shows.over)]
        if isinstance(action, Inserted):
            self._perform(action)
            return []
        if isinstance(action, Asserted):
            return [self._assert(action, text)]
        if isinstance(action, Shown | ShownTopics) or (isinstance(action, Said) and not self._changes(trial)):
            found = already_so(statement, text, self._last_number)
            return [self._shows.show(statement, action, text) if found is None else found]
        return [self._change(statement, trial, action, text, settings)]

    def _end_push(self, statement: Terminate, text: str) -> Json | None:
        """End a push query that a statement names; return None if it names none."""
        wanted = "" if statement.query_id is None else statement.query_id.folded
        running = {} if self.pushes is None else {each.upper(): each for each in self.pushes.pushed()}
        if self.pushes is None or wanted not in running:
            return None
        query_id = running[wanted]
        return entity("terminate_query", text, queryId=query_id, wasTerminated=self.pushes.close_query(query_id))

    def _set(self, statement: Set, settings: dict[str, str]) -> list[Json]:
        _check_setting(statement.name)
        Planner(settings=settings).plan(statement)
        return []

    def _planned(self, statement: Statement, number: int, settings: Mapping[str, str]) -> tuple[Planner, Action]:
        trial = self.defined.planner.copy()
        trial.settings = dict(settings)
        trial.number = number
        return trial, trial.plan(statement)

    def _changes(self, trial: Planner) -> bool:
        now = self.defined.planner
        return trial.catalog != now.catalog or trial.queries != now.queries

    def _perform(self, action: Action) -> list[str]:
        screen = _Quiet()
        Session(self.supervisor, self.topics, screen, once=False).perform(action)
        return screen.said

    def _assert(self, action: Asserted, text: str) -> Json:
        try:
            self._perform(action)
        except SqlError as error:
            raise RestError(ASSERTION_FAILED, error.problem) from None
        if action.topic:
            return entity("assert_topic", text, topicName=action.topic, exists=action.exists)
        return entity("assert_schema", text, subject=action.subject or None, id=action.schema_id, exists=action.exists)

    def _change(
        self, statement: Statement, trial: Planner, action: Action, text: str, settings: Mapping[str, str]
    ) -> Json:
        """Write, perform and keep a statement that changes the definitions; undo it if it fails."""
        number = self._command_log.next_number
        if isinstance(action, Declared):
            self._check_topic(action)
        command = Command(number, text, about(statement, action), dict(settings))
        gone = self._needless(action)
        if gone is None:
            self._command_log.write(command)
        try:
            self._perform(action)
        except KafkaError:
            if gone is None:
                self._undo(action)
                self._command_log.erase([number])
            raise
        if gone is not None:
            self._command_log.erase(gone)
            for each in gone:
                self.defined.commands.pop(each, None)
                self.defined.needs.pop(each, None)
        self._keep(command if gone is None else None, trial, action)
        kind, message, query_id = outcome(statement, action)
        command_id = f"{kind_and_name(statement, command)}/{kind}"
        notes = action.plan.notes if isinstance(action, Started) else ()
        found = command_status(text, command_id, message, min(number, self._last_number), query_id, notes)
        self._statuses[command_id] = found["commandStatus"]
        return found

    def _undo(self, action: Action) -> None:
        if isinstance(action, Started):
            for plan in (*action.stages, action.plan):
                self.supervisor.stop(plan.query_id)
            for query in self.defined.planner.queries.values():
                if set(query.ids) & set(action.replaces):
                    self._start_again((*query.stages, query.plan))
            if action.source is not None and action.source.served and not action.replaces:
                self.topics.unserve(action.source.served)

    def _check_topic(self, action: Declared) -> None:
        if action.topic.partitions is None and action.topic.name not in self.topics.partitions():
            raise SqlError(f"topic {action.topic.name} does not exist: WITH (PARTITIONS = n) creates it")

    def _needless(self, action: Action) -> list[int] | None:
        """Return the statements that can be erased instead of writing this one; None: it has to be written."""
        commands = self.defined.commands.values()
        if isinstance(action, Dropped):
            source = self.defined.planner.catalog.sources[action.name]
            about = {f"{source.kind.lower()}/{action.name}", f"query/{source.query_id}"}
            gone = [each.number for each in commands if each.about in about]
            is_needed = any(action.name in names for number, names in self.defined.needs.items() if number not in gone)
            return None if is_needed else gone
        if isinstance(action, Terminated):
            made = {each.query_id for each in self.defined.planner.catalog.sources.values()}
            if not made & set(action.query_ids):
                about = {f"query/{each}" for each in action.query_ids}
                return [each.number for each in commands if each.about in about]
        return None

    def _keep(self, command: Command | None, trial: Planner, action: Action) -> None:
        """Take over a planner; what a dropped or ended query left is forgotten."""
        trial.settings, trial.number = dict(self._settings), None
        self.defined.planner = trial
        if command is not None:
            self.defined.commands[command.number] = command
        if isinstance(action, Started):
            query = trial.queries[action.plan.query_id]
            self.defined.statements[f"query/{action.plan.query_id}"] = "" if command is None else command.statement
            if command is not None:
                target = (query.writes,) if action.source is None else ()
                self.defined.needs[command.number] = (*query.reads, *target)
        if isinstance(action, Started | Declared) and action.source is not None and command is not None:
            self.defined.statements[command.about] = command.statement
        if isinstance(action, Dropped) and command is not None:
            self.defined.needs[command.number] = (action.name,)
        ended = action.stop if isinstance(action, Dropped) else ()
        ended = action.query_ids if isinstance(action, Terminated) else ended
        for query_id in ended:
            self.defined.paused.discard(query_id)
            self.defined.statements.pop(f"query/{query_id}", None)
            self.supervisor.forget(query_id)

    def _pause(self, statement: Pause, text: str) -> Json:
        planner = self.defined.planner
        planner.copy().plan(statement)  # refuses a query that there is not
        wanted = list(planner.queries) if statement.query_id is None else [statement.query_id.text]
        about = {f"query/{each}" for each in wanted}
        before = [each for each in self.defined.commands.values()
                  if each.about in about and each.statement.startswith("PAUSE ")]  # fmt: skip
        if statement.resume:
            self._command_log.erase(each.number for each in before)
            for each in before:
                del self.defined.commands[each.number]
            resumed = [planner.queries[each] for each in wanted if each in self.defined.paused]
            self.defined.paused -= set(wanted)
            self._start_again(plan for each in resumed for plan in (*each.stages, each.plan))
        else:
            for query_id in wanted:
                if query_id not in self.defined.paused:
                    quoted = f"PAUSE `{query_id}`;"
                    command = Command(self._command_log.next_number, quoted, f"query/{query_id}")
                    self._command_log.write(command)
                    self.defined.commands[command.number] = command
                    self.defined.paused.add(query_id)
                query = planner.queries[query_id]
                for each_id in query.ids:
                    self.supervisor.stop(each_id)
        verb = "resume" if statement.resume else "pause"
        shown = wanted[0] if statement.query_id is not None else "ALL"
        return command_status(text, f"{verb}/{shown}/execute", f"Query {verb}d.", self._last_number, None)


def _check_setting(name: str) -> None:
    """Raise RestError for a property of the server: Spark's, and code that it would run."""
    if name == FUNCTIONS_MODULE:
        raise RestError(BAD_STATEMENT, "a server runs the functions that it was started with: --functions MODULE")
    if name.startswith("spark."):
        raise RestError(BAD_STATEMENT, f"{name} belongs to the server: start it with Spark's configuration")
