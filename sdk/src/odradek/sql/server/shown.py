"""Answers to statements that only look: SHOW, DESCRIBE, EXPLAIN."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from odradek.sql.functions import FUNCTIONS
from odradek.sql.functions.signature import ANY
from odradek.sql.plan import Action, Said, Selected, Started
from odradek.sql.position import SqlError
from odradek.sql.script import RunningQuery, explain
from odradek.sql.server.entities import Json, entity, query_row, schema, source_description, source_row
from odradek.sql.syntax import Describe, Explain, Show, Statement

if TYPE_CHECKING:
    from odradek.sql.server.service import SqlService

INTERNAL = "_odradek_"  # topics of the service itself, and those between the steps of queries


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
            topics = [
                {"name": name, "replicaInfo": [1] * count}
                for name, count in sorted(self._service.topics.partitions().items())
                if not name.startswith(INTERNAL)
            ]
            return entity("kafka_topics", text, topics=topics)
        if what == "QUERIES":
            return entity("queries", text, queries=[self.query(each) for each in sorted(planner.queries)])
        if what == "PROPERTIES":
            properties = [
                {"name": f"ksql.streams.{name}", "scope": "KSQL", "value": value, "editable": True, "level": "SERVER"}
                for name, value in sorted(planner.settings.items())
            ]
            return entity("properties", text, properties=properties, overwrittenProperties=[], defaultProperties=[])
        if what == "TYPES":
            types = {name: schema(kind) for name, kind in sorted(planner.catalog.types.items())}
            return entity("type_list", text, types=types)
        if what == "VARIABLES":
            return entity("variables", text, variables=[])
        functions = [
            {"name": name, "type": each.kind.upper(), "category": ""} for name, each in sorted(FUNCTIONS.items())
        ]
        return entity("function_names", text, functions=functions)

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
        most = "any number" if known.most >= ANY else str(known.most)
        arguments = [
            {"name": f"arg{number}", "type": known.takes[min(number, len(known.takes) - 1)] if known.takes else "any",
             "description": "", "isVariadic": known.most >= ANY}
            for number in range(known.least)
        ]  # fmt: skip
        one = {"arguments": arguments, "returnType": "", "description": f"{known.least} to {most} arguments"}
        return entity(
            "describe_function", text, name=known.name, description="", author="", version="", path="internal",
            functions=[one], type=known.kind.upper(),
        )  # fmt: skip

    def _explain(self, statement: Explain, text: str) -> Json:
        planner = self._service.defined.planner
        if statement.query_id is not None:
            query_id = planner.query(statement.query_id)
            query = planner.queries[query_id]
            return self._described(text, query_id, query)
        trial = planner.copy()
        assert statement.statement is not None
        action = trial.plan(statement.statement)
        if isinstance(action, Started):
            return self._described(text, "", trial.queries[action.plan.query_id])
        if isinstance(action, Selected):
            reads = tuple(dict.fromkeys(each.topic for each in action.plan.inputs))
            return self._described(text, "", RunningQuery(action.plan, reads, ""))
        raise SqlError("EXPLAIN applies only to queries", statement.at)

    def _described(self, text: str, query_id: str, query: RunningQuery) -> Json:
        fields = [
            {"name": name, "schema": {"type": kind or "STRING", "fields": None, "memberSchema": None}}
            for name, kind in query.plan.columns
        ]
        described: Json = {
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
        return entity("queryDescription", text, queryDescription=described)
