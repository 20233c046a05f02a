"""Stream SQL: what ksqlDB users write, on Spark Structured Streaming. docs/SQL.md is its reference.

    text ──parse──> statements ──Planner──> actions (plans as data) ──Session──> Spark, topics, screen

    position.py      places in a script, and the one error, which shows them
    grammar.lark     the language;  parse.py, build.py: text -> syntax.py
    types.py, functions.py, catalog.py, scope.py      what names mean
    expressions.py, joins.py, query.py, inputs.py, formats.py      -> Spark SQL
    script.py        statements -> plan.py's actions, one after the other
    session.py       actions -> what happens, through three small ports
    on_spark.py      those plans on Spark: the only module that imports pyspark

All but session.py and on_spark.py is pure. Nothing here is imported by a function.
"""

from odradek.extras import extra

with extra("sql"):
    from odradek.sql.parse import parse
from odradek.sql.position import Position, SqlError
from odradek.sql.script import Planner

__all__ = ["Planner", "Position", "SqlError", "parse"]
