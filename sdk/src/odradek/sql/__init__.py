"""Stream SQL: ksqlDB's language on Spark Structured Streaming. docs/SQL.md is its reference.

    text ──parse──> statements ──Planner──> actions (plans as data) ──Session──> Spark, topics, screen

    position.py      positions in a script, and the package's error, which shows them
    grammar.lark     the language;  parse.py, build.py: text -> syntax.py
    types.py, functions/, catalog.py, scope.py      the meaning of names
    conversions.py, expressions.py, joins.py, query.py, inputs.py, formats.py      -> Spark SQL
    script.py        statements -> plan.py's actions, one after the other
    session.py       runs actions, through three small ports
    on_spark.py      runs plans on Spark, with running/: the only modules that import pyspark

All modules except those of the last two lines are pure. Functions import nothing of this package.
"""

from odradek.extras import extra

with extra("sql"):
    from odradek.sql.parse import parse
from odradek.sql.functions.own import aggregate, scalar, table
from odradek.sql.position import Position, SqlError
from odradek.sql.script import Planner

__all__ = ["Planner", "Position", "SqlError", "aggregate", "parse", "scalar", "table"]
