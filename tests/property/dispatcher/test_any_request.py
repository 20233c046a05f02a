"""Whatever a well-formed request says and whatever the engine does, the answer is one of that API and version."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.dispatcher import BadFrame
from odradek.errors import ErrorCode, KafkaError, OutcomeUnknown
from odradek.protocol.frame import decode_response, encode_request, request_schema, response_schema

from tests.support.dispatching import context, dispatcher
from tests.support.examples import examples
from tests.support.fake_engine import FakeEngine
from tests.support.kafka.messages import ALL_REQUESTS, messages, request_frame

failures = st.sampled_from(
    [
        None,
        KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "later"),
        RuntimeError("a bug"),
        OutcomeUnknown("timeout"),
        KeyError("x"),
    ]
)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> None:
    logging.getLogger("odradek.dispatcher").setLevel(logging.CRITICAL)


@settings(max_examples=examples(400))
@given(data=st.data(), failure=failures)
def test_every_request_is_answered_in_its_own_shape(data: st.DataObject, failure: Exception | None) -> None:
    api_key, version = data.draw(st.sampled_from(ALL_REQUESTS))
    message = data.draw(messages(request_schema(api_key, version)))
    frame = encode_request(message, correlation_id=5, client_id=None)
    parts = asyncio.run(dispatcher(FakeEngine(failure=failure)).dispatch(frame, context()))
    if parts is None:
        assert api_key == 0
        assert message.acks == 0
        return
    decode_response(b"".join(parts), response_schema(api_key, version), correlation_id=5)


@settings(max_examples=examples(300))
@given(api=st.sampled_from(ALL_REQUESTS), body=st.binary(max_size=60))
def test_any_bytes_are_answered_or_refused_as_the_callers_fault(api: tuple[int, int], body: bytes) -> None:
    try:
        asyncio.run(dispatcher(FakeEngine()).dispatch(request_frame(*api, body), context()))
    except BadFrame as refused:
        assert 400 <= refused.http_status < 500  # noqa: PT017
