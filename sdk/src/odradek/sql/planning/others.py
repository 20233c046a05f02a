"""The statements that make no query: types, variables, columns added, PAUSE, ASSERT, PRINT."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.sql.catalog import Column, did_you_mean, read_properties
from odradek.sql.formats import check_columns
from odradek.sql.plan import Action, Asserted, Input, QueryPlan, Resumed, Said, Selected, Terminated
from odradek.sql.position import SqlError
from odradek.sql.syntax import Alter, AssertSchema, AssertTopic, CreateType, Define, Pause, Print
from odradek.sql.types import resolve_type

if TYPE_CHECKING:
    from odradek.sql.script import Planner

Other = CreateType | Define | Alter | Pause | AssertTopic | AssertSchema | Print
_PRINTED = """SELECT date_format(timestamp, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'") AS `ROWTIME`, key AS `KEY`,
value AS `VALUE`, partition AS `PARTITION` FROM input_1"""


def plan_other(planner: Planner, statement: Other) -> Action:
    """Return the action of a statement. Raises SqlError."""
    if isinstance(statement, CreateType):
        return _type(planner, statement)
    if isinstance(statement, Define):
        return _define(planner, statement)
    if isinstance(statement, Alter):
        return _alter(planner, statement)
    if isinstance(statement, Pause):
        return _pause(planner, statement)
    if isinstance(statement, Print):
        return _print(planner, statement)
    timeout_ms = 1000 if statement.timeout is None else statement.timeout.ms
    if isinstance(statement, AssertTopic):
        given = {each.name.folded: each for each in statement.properties}
        partitions = given.get("PARTITIONS")
        if partitions is not None:
            read_properties([partitions])
        count = None if partitions is None else int(partitions.value)
        return Asserted(statement.topic, count, exists=statement.exists, timeout_ms=timeout_ms)
    if not statement.subject and statement.schema_id is None:
        raise SqlError("ASSERT SCHEMA needs SUBJECT name, ID number or both", statement.at)
    return Asserted(
        subject=statement.subject, schema_id=statement.schema_id, exists=statement.exists, timeout_ms=timeout_ms
    )


def _type(planner: Planner, statement: CreateType) -> Said:
    name, types = statement.name, planner.catalog.types
    if statement.type is None:
        if name.text not in types:
            if statement.is_lenient:
                return Said(f"unknown type {name.text}")
            raise SqlError(f"unknown type {name.text}{did_you_mean(name.text, list(types))}", name.at)
        del types[name.text]
        return Said(f"dropped type {name.text}")
    if name.text in types:
        if statement.is_lenient:
            return Said(f"type {name.text} exists already")
        raise SqlError(f"type {name.text} already exists: DROP TYPE, or IF NOT EXISTS", name.at)
    types[name.text] = resolve_type(statement.type, types)
    return Said(f"created type {name.text}: {types[name.text]}")


def _define(planner: Planner, statement: Define) -> Said:
    name = statement.name.text
    if statement.value is None:
        planner.variables.pop(name, None)
        return Said(f"{name} is undefined")
    planner.variables[name] = statement.value
    return Said(f"{name} is {statement.value}")


def _alter(planner: Planner, statement: Alter) -> Said:
    source = planner.catalog.find(statement.name)
    if source.kind != statement.kind:
        raise SqlError(f"{source.name} is a {source.kind.lower()}: ALTER {source.kind}", statement.name.at)
    if source.is_readonly:
        raise SqlError(f"{source.name} is read only: DROP it, then CREATE SOURCE with the columns", statement.name.at)
    if source.query_id:
        raise SqlError(f"{source.name} is made by a query: CREATE OR REPLACE with the columns", statement.name.at)
    columns = list(source.columns)
    for each in statement.columns:
        if any(column.name == each.name.text for column in columns):
            raise SqlError(f"{source.name} has a column {each.name.text} already", each.name.at)
        columns.append(Column(each.name.text, resolve_type(each.type, planner.catalog.types)))
    changed = replace(source, columns=tuple(columns))
    check_columns(changed, statement.name.at)
    planner.catalog.add(changed)
    return Said(f"altered {source.name}")


def _pause(planner: Planner, statement: Pause) -> Terminated | Resumed:
    wanted = list(planner.queries)
    if statement.query_id is not None:
        wanted = [planner.query(statement.query_id)]
    queries = [planner.queries[each] for each in wanted]
    if statement.resume:
        return Resumed(tuple(plan for each in queries for plan in (*each.stages, each.plan)))
    return Terminated(tuple(query_id for each in queries for query_id in each.ids))


def _print(planner: Planner, statement: Print) -> Selected:
    read = Input(statement.topic, "stream", "records_1", "input_1", "SELECT * FROM records_1")
    columns = (("ROWTIME", "VARCHAR"), ("KEY", "BYTES"), ("VALUE", "BYTES"), ("PARTITION", "INT"))
    return Selected(
        QueryPlan(
            query_id=f"PRINT_{statement.topic}",
            mode="stream",
            inputs=(read,),
            sql=_PRINTED + (f" WHERE offset % {statement.every} = 0" if statement.every > 1 else ""),
            columns=columns,
            starting_offsets="earliest" if statement.from_beginning else "latest",
            corrupt_batches=planner.settings.get("corrupt.batches", ""),
            limit=statement.limit,
        ),
        prints=True,
    )
