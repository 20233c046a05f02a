"""Extras: the libraries and distributions of a feature beyond the client, and the error that names the missing extra.

    with extra("table"):
        import pyarrow

A module that is missing for another reason raises the usual ModuleNotFoundError: that is a bug, which naming an extra
would hide.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odradek.errors import ErrorCode, KafkaError

_EXTRA_OF = {
    "boto3": "aws",
    "confluent_kafka": "connect-kafka",
    "duckdb": "query",
    "fastavro": "avro",
    "google": "protobuf",
    "re2": "local",
    "rich": "cli",
    "typer": "cli",
    "hypercorn": "console",
    "jinja2": "console",
    "joserfc": "console-oidc",
    "lark": "sql",
    "matplotlib": "charts",
    "mcp": "mcp",
    "msgpack": "local",
    "numba": "fast",
    "numpy": "table",
    "opensearchpy": "connect-opensearch",
    "opentelemetry": "otel",
    "paho": "connect-mqtt",
    "pandas": "spark",
    "pyarrow": "table",
    "pyiceberg": "iceberg",
    "pymysql": "connect-mysql",
    "pymysqlreplication": "connect-mysql",
    "psycopg": "connect-postgres",
    "pyspark": "spark",
    "redis": "connect-redis",
    "sqlalchemy": "connect-jdbc",
    "starlette": "console",
    "urllib3": "connect-http",
    "yaml": "cli",
}
"""Import name of a library: the smallest extra that brings it (sdk/pyproject.toml)."""

_EXTRA_OF_PART = {
    "odradek.cli": "cli",
    "odradek.cli.connect": "connect",
    "odradek.cli.demo": "spark",
    "odradek.cli.pipeline.demo": "spark",
    "odradek.cli.pipeline.sql": "sql",
    "odradek.cli.pipeline.sql_here": "sql",
    "odradek.cli.pipeline.sql_server": "sql-server",
    "odradek.cli.pipeline.sql_shell": "sql",
    "odradek.cli.service.audit": "local",
    "odradek.cli.service.backup": "local",
    "odradek.cli.service.env": "local",
    "odradek.cli.service.gateway": "local",
    "odradek.cli.service.local": "local",
    "odradek.cli.service.restore": "local",
    "odradek.connect": "connect",
    "odradek.console": "console",
    "odradek.cost": "cli",
    "odradek.glue_jobs": "spark",
    "odradek.operations": "cli",
    "odradek.spark": "spark",
    "odradek.sql": "sql",
    "odradek.testing.connect": "connect",
    **dict.fromkeys(
        (
            "odradek.adapters", "odradek.dispatcher", "odradek.engine", "odradek.functions", "odradek.gateway",
            "odradek.http", "odradek.local", "odradek.patterns", "odradek.registry", "odradek.served",
            "odradek.settings", "odradek.testing", "odradek.triggers",
        ),
        "local",
    ),
}  # fmt: skip
"""Module or package of another distribution than the client's: the extra that brings it."""


class MissingExtra(KafkaError, ImportError):
    """The libraries of a feature are not installed. Also an ImportError, as Python users expect.

    Attributes:
        extra: the extra that contains them.
    """

    def __init__(self, name: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, f"this needs odradek[{name}]: pip install 'odradek[{name}]'")
        self.extra = name

    def __str__(self) -> str:
        return self.message


def extra_of(module_name: str | None) -> str | None:
    """Return the extra with a module such as "pyarrow.compute" or "odradek.engine.engine", or None."""
    name = module_name or ""
    if not name.startswith("odradek."):
        return _EXTRA_OF.get(name.split(".")[0])
    while name and name not in _EXTRA_OF_PART:
        name = name.rpartition(".")[0]
    return _EXTRA_OF_PART.get(name)


@contextmanager
def program_needs(*packages: str) -> Iterator[None]:
    """Import the libraries of a program in this block; where one is missing, end the program in one sentence.

    Args:
        packages: what pip installs: "odradek[local,spark]", "fastapi".

    Raises SystemExit.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
    except MissingExtra as error:
        missing = str(error)
    else:
        return
    wanted = " ".join(f"'{package}'" if "[" in package else package for package in packages)
    raise SystemExit(f"this program needs {', '.join(packages)} ({missing} is missing): pip install {wanted}")


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import the libraries of an extra in this block.

    Args:
        name: the extra of the feature as a whole; it may contain more than the missing module.

    Raises MissingExtra.
    """
    try:
        yield
    except MissingExtra as error:  # of a part of the feature
        raise MissingExtra(name) from error
    except ModuleNotFoundError as error:
        if extra_of(error.name) is None:
            raise
        raise MissingExtra(name) from error
