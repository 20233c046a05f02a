"""Extras: what a feature needs beyond the base wheel, and the one error that names it.

    with extra("table"):
        import pyarrow

A module that is missing for any other reason stays the ModuleNotFoundError that it is: it would be a bug, and naming an
extra for it would hide that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odradek.errors import ErrorCode, KafkaError

_EXTRA_OF = {
    "boto3": "aws",
    "fastavro": "avro",
    "google": "protobuf",
    "lark": "sql",
    "matplotlib": "charts",
    "msgpack": "local",
    "numba": "fast",
    "numpy": "table",
    "opentelemetry": "otel",
    "pandas": "spark",
    "pyarrow": "table",
    "pyiceberg": "tables",
    "pyspark": "spark",
    "sqlalchemy": "tables",
    "yaml": "spark",
}
"""Import name of a library: the smallest extra that brings it (sdk/pyproject.toml)."""


class MissingExtra(KafkaError, ImportError):
    """A feature was used whose libraries are not installed. An ImportError as well, as Python users expect.

    Attributes:
        extra: the extra that brings them.
    """

    def __init__(self, name: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, f"this needs odradek[{name}]: pip install 'odradek[{name}]'")
        self.extra = name

    def __str__(self) -> str:
        return self.message


def extra_of(module_name: str | None) -> str | None:
    """The extra that brings a module such as "pyarrow.compute", or None where no extra does."""
    return _EXTRA_OF.get((module_name or "").split(".")[0])


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports for which an extra is needed.

    Args:
        name: the extra that the feature as a whole needs; it may bring more than the module that is missing.

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
