"""SQL over topics: `odradek query` and `odradek.query`, by DuckDB in this process, without a JVM.

    statement.py   the text: topics by name, AS OF, and the column `offset`, which SQL reserves: pure
    bounds.py      the part of a topic that a pushed filter can keep: pure
    values.py      the columns that a sample has beside those of the topic's schema
    topic.py       a topic as an Arrow dataset: history and unmerged tail, only the columns and offsets that are needed
    run.py         the sandbox, and the query

A query sees every record that was acknowledged when it began: the heads are read consistently before anything else.
"""

from __future__ import annotations

from odradek.operations.query.run import Answer, query, run_query

__all__ = ["Answer", "query", "run_query"]
