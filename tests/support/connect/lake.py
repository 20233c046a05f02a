"""Iceberg tables for tests: a catalog in SQLite, files in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError


def catalog_properties(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder / 'lake'}"}


def iceberg_configs(folder: Path) -> dict[str, str]:
    """Return a connector's configuration: a table db.TOPIC a topic, created if it is missing."""
    return {
        "iceberg.tables": "db.${topic}",
        "iceberg.tables.auto-create-enabled": "true",
        **{f"iceberg.catalog.{name}": value for name, value in catalog_properties(folder).items()},
    }


def open_table(folder: Path, name: str) -> Any:
    return load_catalog("iceberg", **catalog_properties(folder)).load_table(name)


def read_table(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table; none if it does not exist."""
    try:
        return list(open_table(folder, name).scan().to_arrow().to_pylist())
    except NoSuchTableError:
        return []
