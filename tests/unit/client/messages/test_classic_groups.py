"""The bytes of classic members: what Kafka's clients write is read, anything else shows as nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.messages.classic_groups import decode_assignment, decode_topics
from odradek.model.topic_partition import TopicPartition


def test_bytes_of_the_java_client_are_read() -> None:
    subscription = (
        b"\x00\x01" + b"\x00\x00\x00\x02" + b"\x00\x01a" + b"\x00\x02bc" + b"\xff\xff\xff\xff\x00\x00\x00\x00"
    )
    assert decode_topics(subscription) == ["a", "bc"]
    assignment = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01a" + b"\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05"
    assert decode_assignment(assignment) == [TopicPartition("a", 0), TopicPartition("a", 5)]


@pytest.mark.parametrize("decode", [decode_topics, decode_assignment])
@given(data=st.binary(max_size=40))
def test_other_bytes_show_as_something_or_nothing(decode: object, data: bytes) -> None:
    assert isinstance(decode(data), list)  # type: ignore[operator]
