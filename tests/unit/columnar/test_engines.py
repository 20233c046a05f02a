"""Which engine runs, and what is imported and written for it."""

from __future__ import annotations

import subprocess
import sys

import numba
import pytest
from odradek.columnar import engine as engine_module
from odradek.columnar import kernels


def test_auto_takes_numba_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_module.uses_numba("auto")
    assert not engine_module.uses_numba("python")
    monkeypatch.setattr(engine_module, "has_numba", lambda: False)
    assert not engine_module.uses_numba("auto")
    with pytest.raises(ImportError, match=r"odradek\[fast\]"):
        engine_module.uses_numba("numba")


def test_auto_begins_with_plain_python_and_changes_when_numba_pays() -> None:
    """Ten thousand bytes at a time, in a process of its own: the modules of this one are imported."""
    code = (
        "import sys\n"
        "import pyarrow as pa\n"
        "from odradek.columnar.decode import decode_to_arrow\n"
        "from odradek.columnar.encode import encode_from_arrow\n"
        "table = pa.table({'value': [bytes(10_000)]})\n"
        "[batch] = encode_from_arrow(table, default_timestamp_ms=0, engine='python')\n"
        "calls = 0\n"
        "while 'numba' not in sys.modules:\n"
        "    assert decode_to_arrow(batch, topic='t', partition=0).num_rows == 1\n"
        "    calls += 1\n"
        "print(calls * len(batch))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert 0 <= int(ran.stdout) - engine_module.START_BYTES <= 20_000, ran.stderr


def test_neither_import_nor_the_python_engine_needs_numba() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import pyarrow as pa\n"
        "from odradek.columnar.decode import decode_to_arrow\n"
        "from odradek.columnar.encode import encode_from_arrow\n"
        "batches = encode_from_arrow(pa.table({'value': ['a']}), default_timestamp_ms=0, engine='python')\n"
        "print(decode_to_arrow(batches[0], topic='t', partition=0, engine='python').num_rows)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "1", ran.stderr


def test_kernels_compile_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def njit_without_a_folder(*args: object, cache: bool = False, **options: object) -> object:
        if cache:
            return lambda function: (_ for _ in ()).throw(RuntimeError("no locator available"))
        return real(*args, **options)

    monkeypatch.setattr(kernels.numba, "njit", njit_without_a_folder)
    compiled = kernels._compile(numba.types.int64(numba.types.int64))(lambda value: value + 1)
    assert compiled(41) == 42
