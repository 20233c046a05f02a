"""Answers to statements that only look: SHOW, DESCRIBE, EXPLAIN."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from odradek.sql.catalog import Catalog
from odradek.sql.functions import FUNCTIONS
from odradek.sql.functions.signature import ANY, Function
from odradek.sql.plan import Action, Said, Selected, ShownTopics, Started
from odradek.sql.position import SqlError
from odradek.sql.script import RunningQuery, explain
from odradek.sql.server.entities import (
    Json,
    entity,
    fields_of,
    push_row,
    query_row,
    schema,
    source_description,
    source_row,
    topic_row,
)
from odradek.sql.syntax import Describe, Explain, Query, Show, Statement
from odradek.sql.types import VARCHAR

if TYPE_CHECKING:
    from odradek.sql.server.service import SqlService


class Shows:
    """Answers from what a service has defined."""

    def __init__(self, service: SqlService) -> None:
        self._service = service

    def show(self, statement: Statement, action: Action, text: str) -> Json:
        """Return the result of a statement that changed nothing."""
        if isinstance(statement, Show):
            return self._show(statement, text)
        if isinstance(statement, Describe):
            return self._function(statement, text) if statement.is_function else self._source(statement, text)
        if isinstance(statement, Explain):
            return self._explain(statement, text)
        return entity("warning_entity", text, message=action.text if isinstance(action, Said) else "")

    def _show(self, statement: Show, text: str) -> Json:
        defined, what = self._service.defined, statement.what
        planner = defined.planner
        if what in ("STREAMS", "TABLES"):
            found = [each for _, each in sorted(planner.catalog.sources.items()) if f"{each.kind}S" == what]
            if statement.extended:
                return entity(
                    "source_descriptions", text,
                    sourceDescriptions=[self._description(each.name, extended=True) for each in found],
                )  # fmt: skip
            return entity(what.lower(), text, **{what.lower(): [source_row(each) for each in found]})
        if what == "TOPICS":
            return self._topics(text, statement)
        if what == "QUERIES" and statement.extended:
            described = [self._persistent(text, each, planner.queries[each]) for each in sorted(planner.queries)]
            return entity("query_descriptions", text, queryDescriptions=described)
        if what == "QUERIES":
            pushed = self._service.pushes.pushed() if self._service.pushes is not None else {}
            queries = [self.query(each) for each in sorted(planner.queries)]
            return entity("queries", text, queries=[*queries, *(push_row(*each) for each in sorted(pushed.items()))])
        if what == "PROPERTIES":
            properties = [
                {"name": f"ksql.streams.{name}", "scope": "KSQL", "value": value, "editable": True, "level": "SERVER"}
                for name, value in sorted(planner.settings.items())
            ]
            return entity("properties", text, properties=properties, overwrittenProperties=[], defaultProperties=[])
        if what == "TYPES":
            types = {name: schema(kind) for name, kind in sorted(planner.catalog.types.items())}
            return entity("type_list", text, types=types)
        functions = [
            {"name": name, "type": each.kind.upper(), "category": ""} for name, each in sorted(FUNCTIONS.items())
        ]
        return entity("function_names", text, functions=functions)

    def _topics(self, text: str, statement: Show) -> Json:
        extended = statement.extended
        counts = ShownTopics(statement.all).of(self._service.topics.partitions())
        consumers = self._service.topics.consumers() if extended else {}
        topics = [
            topic_row(name, count, consumers.get(name, ()) if extended else None) for name, count in counts.items()
        ]
        return entity("kafka_topics_extended" if extended else "kafka_topics", text, topics=topics)

    def query(self, query_id: str) -> Json:
        """Return a query as SHOW QUERIES shows it."""
        defined = self._service.defined
        query = defined.planner.queries[query_id]
        text = defined.statements.get(f"query/{query_id}", "")
        topic = query.plan.sink.topic.name if query.plan.sink is not None else ""
        return query_row(query_id, text, query.writes, topic, self._state(query))

    def _state(self, query: RunningQuery) -> str:
        if query.plan.query_id in self._service.defined.paused:
            return "PAUSED"
        return self._service.supervisor.state(query.ids)

    def _description(self, name: str, *, extended: bool) -> Json:
        defined = self._service.defined
        source = defined.planner.catalog.sources[name]
        queries = defined.planner.queries.items()
        partitions = self._service.topics.partitions().get(source.topic, 0) if extended else 0
        return source_description(
            source, defined.statements.get(f"{source.kind.lower()}/{name}", ""), partitions,
            [self.query(query_id) for query_id, each in queries if name in each.reads],
            [self.query(query_id) for query_id, each in queries if name == each.writes], extended=extended,
        )  # fmt: skip

    def over(self, topics: Collection[str]) -> list[Json]:
        """Return descriptions of the streams and tables over some topics."""
        sources = sorted(self._service.defined.planner.catalog.sources.items())
        return [self._description(name, extended=False) for name, each in sources if each.topic in topics]

    def _source(self, statement: Describe, text: str) -> Json:
        found = self._service.defined.planner.catalog.find(statement.name)
        described = self._description(found.name, extended=statement.extended)
        return entity("sourceDescription", text, sourceDescription=described)

    def _function(self, statement: Describe, text: str) -> Json:
        known = FUNCTIONS[statement.name.folded]
        most = known.least if known.most >= ANY else known.most
        forms = [self._form(known, count) for count in range(known.least, most + 1)]
        return entity(
            "describe_function", text, name=known.name, description="", author="", version="", path="internal",
            functions=forms, type=known.kind.upper(),
        )  # fmt: skip

    @staticmethod
    def _form(known: Function, count: int) -> Json:
        """Return a function with a number of arguments; the last may be repeated where any number is allowed."""
        arguments = [
            {"name": f"arg{number}", "type": known.takes[min(number, len(known.takes) - 1)] if known.takes else "any",
             "description": "", "isVariadic": known.most >= ANY and number == count - 1}
            for number in range(count)
        ]  # fmt: skip
        return {"arguments": arguments, "returnType": "", "description": ""}

    def _explain(self, statement: Explain, text: str) -> Json:
        planner = self._service.defined.planner
        if statement.query_id is not None:
            query_id = planner.query(statement.query_id)
            query = planner.queries[query_id]
            return entity("queryDescription", text, queryDescription=self._persistent(text, query_id, query))
        trial = planner.copy()
        assert statement.statement is not None
        action = trial.plan(statement.statement)
        if isinstance(action, Started):
            query = trial.queries[action.plan.query_id]
            described = self._described(text, "", query, fields_of(trial.catalog.sources[query.writes]))
            return entity("queryDescription", text, queryDescription=described)
        if isinstance(action, Selected):
            reads = _sources(statement.statement, trial.catalog)
            types = [each or VARCHAR for each in action.types or (None,) * len(action.plan.columns)]
            fields = [{"name": name, "schema": schema(kind)}
                      for (name, _), kind in zip(action.plan.columns, types, strict=True)]  # fmt: skip
            described = self._described(text, "", RunningQuery(action.plan, reads, ""), fields)
            return entity("queryDescription", text, queryDescription=described)
        raise SqlError("EXPLAIN applies only to queries", statement.at)

    def _persistent(self, text: str, query_id: str, query: RunningQuery) -> Json:
        target = self._service.defined.planner.catalog.sources[query.writes]
        return self._described(text, query_id, query, fields_of(target))

    def _described(self, text: str, query_id: str, query: RunningQuery, fields: list[Json]) -> Json:
        return {
            "id": query_id,
            "statementText": self._service.defined.statements.get(f"query/{query_id}", text),
            "windowType": None,
            "fields": fields,
            "sources": list(query.reads),
            "sinks": [query.writes] if query.writes else [],
            "topology": "\n\n".join(explain(each) for each in (*query.stages, query.plan)),
            "executionPlan": query.plan.sql,
            "overriddenProperties": {},
            "ksqlHostQueryStatus": {},
            "queryType": "PERSISTENT" if query.writes else "PUSH" if query.plan.mode == "stream" else "PULL",
            "queryErrors": self._service.supervisor.errors(query.ids),
            "tasksMetadata": [],
            "state": self._state(query) if query_id else None,
            "consumerGroupId": "",
        }


def _sources(query: Statement, catalog: Catalog) -> tuple[str, ...]:
    """Return the streams and tables that a query for the screen reads."""
    if not isinstance(query, Query):
        return ()
    asked = (query.source.name, *(each.source.name for each in query.joins))
    return tuple(dict.fromkeys(catalog.find(each).name for each in asked))
