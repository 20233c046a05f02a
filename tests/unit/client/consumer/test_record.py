"""Making many records at once leaves the collector as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from odradek.client.consumer.record import ConsumerRecord, make_records
from odradek.columnar.rows import Fields
from odradek.model.record import TimestampType

COUNT = 5_000
FIELDS = Fields(range(COUNT), range(COUNT), [b"k"] * COUNT, [None] * COUNT, [(("h", b"1"),)] * COUNT)


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_is_left_as_it_was(is_enabled: bool) -> None:
    if not is_enabled:
        gc.disable()
    records = make_records("t", 3, TimestampType.LOG_APPEND_TIME, FIELDS)
    assert gc.isenabled() is is_enabled
    assert len(records) == COUNT
    assert records[7] == ConsumerRecord("t", 3, 7, 7, TimestampType.LOG_APPEND_TIME, b"k", None, (("h", b"1"),))
    assert type(records[7]) is ConsumerRecord


def test_the_collector_goes_on_after_an_error() -> None:
    with pytest.raises(TypeError):
        make_records("t", 3, TimestampType.CREATE_TIME, FIELDS._replace(keys=_fails()))  # type: ignore[arg-type]
    assert gc.isenabled()


def _fails() -> Iterator[bytes]:
    yield b"k"
    raise TypeError
