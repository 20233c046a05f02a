"""The ports over one local folder: tables in SQLite, objects in files. Durable, with one writing process."""

from __future__ import annotations

from odradek.adapters.embedded.object_store import FileObjectStore
from odradek.adapters.embedded.store import EmbeddedStore, open_embedded
from odradek.adapters.embedded.table import SqliteTable

__all__ = ["EmbeddedStore", "FileObjectStore", "SqliteTable", "open_embedded"]
