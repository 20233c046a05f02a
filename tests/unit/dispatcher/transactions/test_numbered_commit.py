"""A numbered batch over the wire: what a process stored beside the service is committed once, checked first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from odradek.dispatcher import Dispatcher
from odradek.dispatcher.answer import build
from odradek.engine.engine import Engine
from odradek.engine.transactions.items import PendingBatches
from odradek.errors import ErrorCode, FormatError
from odradek.model.log import ProducePartition
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_response, encode_request, request_schema, response_schema
from odradek.protocol.numbered_commit import decode_uploaded, encode_uploaded

from tests.support.clients.transactional_producer import values
from tests.support.dispatching import CLUSTER, context
from tests.support.engine import batch, memory_store

NO_ITEMS = {"item_bytes_max": 0}  # who uploads beside a service stores objects


@pytest.fixture
async def engine() -> Engine:
    engine = memory_store().engine(**NO_ITEMS)
    await engine.topics.create("a", 2)
    return engine


async def upload(engine: Engine, *contents: bytes) -> list[PendingBatches]:
    requests = [ProducePartition("a", i, batch([content])) for i, content in enumerate(contents)]
    return await engine.numbered_batches.upload(requests)


async def commit(
    engine: Engine, batch_id: int, uploaded: Sequence[PendingBatches], *, takes_uploads: bool = True
) -> Any:
    content = encode_uploaded(batch_id, [(upload.partition, upload.entries) for upload in uploaded])
    fields = {
        "transactional_id": "query",
        "producer_id": -1,
        "producer_epoch": -1,
        "committed": True,
        "uploaded": content,
    }
    frame = encode_request(build(request_schema(ApiKey.END_TXN, 5), fields), correlation_id=1, client_id=None)
    parts = await Dispatcher(engine, CLUSTER, takes_uploads=takes_uploads).dispatch(frame, context())
    return decode_response(b"".join(parts or ()), response_schema(ApiKey.END_TXN, 5), correlation_id=1)


async def test_a_batch_is_added_once(engine: Engine) -> None:
    first = await commit(engine, 0, await upload(engine, b"0", b"x"))
    assert (first.error_code, first.added) == (0, 1)
    again = await commit(engine, 0, await upload(engine, b"0 again", b"x again"))
    assert (again.error_code, again.added) == (0, 0)
    assert await values(engine, "a") == [b"0"]


async def test_a_service_whose_store_is_not_shared_takes_none(engine: Engine) -> None:
    response = await commit(engine, 0, await upload(engine, b"0"), takes_uploads=False)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "embedded" in response.message
    assert await values(engine, "a") == []


async def test_what_is_not_in_the_store_or_is_another_thing_is_refused(engine: Engine) -> None:
    [uploaded_one] = await upload(engine, b"0")
    [entry] = uploaded_one.entries
    for wrong in (
        entry._replace(object_id=bytes(16)),
        entry._replace(length=entry.length - 1),
        entry._replace(position=1),
        entry._replace(offset_count=2),
        entry._replace(producer_id=5),
        entry._replace(length=0),
    ):
        response = await commit(engine, 0, [replace(uploaded_one, entries=(wrong,))])
        assert response.error_code == ErrorCode.INVALID_REQUEST, wrong
    assert await values(engine, "a") == []
    assert await engine.numbered_batches.last_committed("query") == -1


def test_what_cannot_be_read_is_a_format_error() -> None:
    assert decode_uploaded(encode_uploaded(7, [])) == (7, [])
    for content in (b"\0", bytes(8) + b"x", bytes(8) + bytes(20) + b"\0\0\0\x10"):
        with pytest.raises(FormatError):
            decode_uploaded(content)
