"""Fill the table of extras in docs/CLIENTS.md and in the wheel's README. `make reference`.

sdk/pyproject.toml says which extras exist and in which order; their effects are here. tests/unit/test_extras.py
compares both pages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.reference import table

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "docs" / "CLIENTS.md", ROOT / "sdk" / "README.md")
MARK = re.compile(r"(<!-- extras -->\n).*?(<!-- end -->)", re.DOTALL)

EFFECTS = {
    "cli": "the command line",
    "aws": "the command line with `odradek configure`, and checks of a deployment by `odradek doctor`",
    "local": "the embedded service on one machine",
    "table": "`send_table` and `poll_table`: Arrow, pandas, Polars, DuckDB",
    "fast": "`table`, compiled with numba",
    "iceberg": "Iceberg tables of topics, where maintenance runs",
    "query": "`odradek query`: SQL over topics with DuckDB",
    "sql": "the parser of stream SQL, for `odradek sql --check`",
    "avro": "serializers of Avro with the schema registry (JSON needs no extra)",
    "protobuf": "serializers of Protobuf with the schema registry",
    "otel": "OpenTelemetry traces",
    "spark": "the Spark source and sink, the jobs, stream SQL; needs Java 17",
    "charts": "`odradek cost estimate --chart`",
    "connect": "`odradek connect`: all connectors that come with Odradek",
    "connect-jdbc": "the JDBC source and sink; a database's driver comes with its own extra",
    "connect-http": "the HTTP sink",
    "connect-postgres": "change capture from PostgreSQL",
    "connect-mysql": "change capture from MySQL and MariaDB",
    "connect-iceberg": "the Iceberg sink",
    "connect-kafka": "mirrors of Kafka clusters",
    "connect-mqtt": "the MQTT source and sink",
    "connect-opensearch": "the OpenSearch and Elasticsearch sink",
    "connect-redis": "the Redis sink",
    "console": "`odradek console`: the console in a browser",
    "console-oidc": "a console for many, with sign-in by OpenID Connect",
    "sql-server": "`odradek sql-server`: ksqlDB's REST API over stream SQL",
    "mcp": "`odradek mcp`: the log for agents (Model Context Protocol)",
    "tables": "`spark`, with export to Iceberg",
}
"""Effect of each extra."""


def extras() -> tuple[str, ...]:
    """Return the extras of the wheel, in the order of sdk/pyproject.toml."""
    project = tomllib.loads((ROOT / "sdk" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return tuple(project["optional-dependencies"])


def filled(text: str) -> str:
    """Return a page with its table of extras written from the code. Raises KeyError for an extra without an effect."""
    return MARK.sub(lambda match: f"{match[1]}\n{table(_rows())}\n{match[2]}", text)


def _rows() -> Iterator[tuple[str, str]]:
    yield "extra", "what it adds"
    for name in extras():
        yield f"`{name}`", EFFECTS[name]


def main() -> None:
    """Write both pages."""
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
