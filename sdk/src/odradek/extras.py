"""Extras: the libraries of a feature beyond the base wheel, and the error that names the missing extra.

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
    "hypercorn": "console",
    "jinja2": "console",
    "joserfc": "console-oidc",
    "lark": "sql",
    "matplotlib": "charts",
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
    "yaml": "spark",
}
"""Import name of a library: the smallest extra that brings it (sdk/pyproject.toml)."""


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
    """Return the extra with a module such as "pyarrow.compute", or None."""
    return _EXTRA_OF.get((module_name or "").split(".")[0])


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
