"""ksqlDB's functions as Spark SQL, by family. Functions that are not listed are passed to Spark by name.

    signature.py     a function: how many arguments, of which types, and what it becomes
    numbers.py  text.py  urls.py  json_text.py  times.py  collections.py      scalar functions
    lambdas.py       those that take lambdas
    failures.py      errors in expressions; raising.py: of which calls; patterns.py: of regular expressions
    aggregates.py    aggregate functions
    in_python.py     the few that Spark SQL cannot say: registered with Spark by name, run on Arrow batches

The package imports only types, positions and syntax.
"""

from odradek.sql.functions.aggregates import AGGREGATES, SPARK_AGGREGATES, SPARK_TYPES
from odradek.sql.functions.collections import COLLECTIONS, TABLE_FUNCTIONS
from odradek.sql.functions.json_text import JSON_TEXT
from odradek.sql.functions.lambdas import WITH_LAMBDAS
from odradek.sql.functions.numbers import NUMBERS
from odradek.sql.functions.signature import Function
from odradek.sql.functions.text import TEXT
from odradek.sql.functions.times import TIMES
from odradek.sql.functions.urls import URLS

FUNCTIONS: dict[str, Function] = {
    each.name: each
    for each in (
        *AGGREGATES,
        *NUMBERS,
        *TEXT,
        *URLS,
        *JSON_TEXT,
        *TIMES,
        *COLLECTIONS,
        *WITH_LAMBDAS,
        *TABLE_FUNCTIONS,
    )
}

__all__ = ["FUNCTIONS", "SPARK_AGGREGATES", "SPARK_TYPES", "Function"]
