"""The ports over dicts: for tests, the simulation and anything that need not outlive the process."""

from __future__ import annotations

from odradek.adapters.memory.object_store import MemoryObjectStore
from odradek.adapters.memory.table import MemoryStore, MemoryTable
from odradek.adapters.memory.table_catalog import MemoryTableCatalog
from odradek.adapters.memory.task_queue import MemoryTaskQueue

__all__ = ["MemoryObjectStore", "MemoryStore", "MemoryTable", "MemoryTableCatalog", "MemoryTaskQueue"]
