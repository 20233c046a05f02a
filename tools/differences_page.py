"""Write docs/differences.md and a table of docs/SQL.md from the accepted differences of tests/peers. `make reference`.

tests/unit/test_peers.py compares both, so that a machine without Java notices drift.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tests.peers.accepted import Difference, load
from tools.reference import table

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "differences.md"
SQL_PAGE = ROOT / "docs" / "SQL.md"
OF_STREAMS = ROOT / "tests" / "peers" / "streams" / "differences.toml"
_SQL_MARK = re.compile(r"(<!-- differences from Kafka Streams -->\n).*?(<!-- end -->)", re.DOTALL)
_ROWS_MAX = 5  # of one difference
_CHARACTERS_MAX = 60
_HEAD = """\
# Differences from Apache Kafka

The same questions are put to the newest Apache Kafka and to the Kafka port, in every API and many odd ways (`make
peers`). This page lists where the answers differ and why that is wanted. It is generated: what is not listed here
answers as Apache Kafka does, or is a defect.
"""


def page() -> str:
    """The whole page, a line break at its end."""
    return "\n".join((_HEAD, *(_section(difference) for difference in load())))


def sql_page(text: str) -> str:
    """Return the page of stream SQL with its table of differences from Kafka Streams renewed."""
    rows = [("here", "Kafka Streams"), *((each.subject, each.reason) for each in load(OF_STREAMS))]
    return _SQL_MARK.sub(lambda match: f"{match[1]}\n{table(rows)}\n{match[2]}", text)


def _section(difference: Difference) -> str:
    more = f" [More]({difference.page})." if difference.page else ""
    reason = textwrap.fill(difference.reason + more, 120, break_long_words=False, break_on_hyphens=False)
    rows = [
        (probe, f"`{question}`", _shown(one), _shown(other))
        for probe, questions in difference.probes.items()
        for question, (one, other) in questions.items()
    ]
    left = len(rows) - _ROWS_MAX
    more_line = f"\nAnd {left} more of the kind.\n" if left > 0 else ""
    return f"## {difference.subject}\n\n{reason}\n\n{table([_COLUMNS, *rows[:_ROWS_MAX]])}{more_line}"


_COLUMNS = "question", "where", "Apache Kafka", "Odradek"


def _shown(value: str) -> str:
    text = value if len(value) <= _CHARACTERS_MAX else value[: _CHARACTERS_MAX - 3] + "..."
    return f"`{text.replace('`', '')}`" if text else "empty"


def main() -> int:
    """Write the page and the table."""
    PAGE.write_text(page(), encoding="utf-8")
    SQL_PAGE.write_text(sql_page(SQL_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
