"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete and SASL: fields in, fields out, in every version."""

from __future__ import annotations

import pytest
from odradek.dispatcher import BadFrame
from odradek.errors import ErrorCode
from odradek.model.classic_group import ClassicIdentity, ClassicJoin, ClassicLeave
from odradek.protocol.api import OWNED, ApiKey, FunctionName
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.dispatching import ask, context, dispatcher
from tests.support.fake_engine import FakeEngine
from tests.support.kafka.messages import request_frame


def versions(api_key: ApiKey) -> range:
    low, high = SUPPORTED_VERSIONS[api_key]
    return range(low, high + 1)


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
async def test_join_group(version: int) -> None:
    engine = FakeEngine()
    fields = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": "m1",
        "group_instance_id": "one",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"topics"}],
    }
    response = await ask(engine, ApiKey.JOIN_GROUP, version, fields)
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 3, "range")
    assert [(member.member_id, member.metadata) for member in response.members] == [("m1", b"topics")]
    join_asked = ClassicJoin(
        "g",
        "m1",
        "consumer",
        (("range", b"topics"),),
        session_ms=10_000,
        rebalance_ms=60_000 if version >= 1 else 10_000,
        instance_id="one" if version >= 5 else None,
        client_id="tests",
        client_host="/127.0.0.1",
        requires_known_member_id=version >= 4,
        may_skip_assignment=version >= 9,
    )
    assert engine.calls == [("join", join_asked)]


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
async def test_sync_group(version: int) -> None:
    engine = FakeEngine()
    fields = {"group_id": "g", "generation_id": 3, "member_id": "m1", "protocol_type": "consumer"}
    fields["assignments"] = [{"member_id": "m1", "assignment": b"yours"}]
    response = await ask(engine, ApiKey.SYNC_GROUP, version, fields)
    assert (response.error_code, response.assignment) == (0, b"yours")
    [(_, sync_asked)] = engine.calls
    assert sync_asked.identity == ClassicIdentity("g", "m1", 3)
    assert sync_asked.assignments == {"m1": b"yours"}
    assert sync_asked.protocol_type == ("consumer" if version >= 5 else None)


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
async def test_heartbeat(version: int) -> None:
    fields = {"group_id": "g", "generation_id": 3, "member_id": "m1"}
    response = await ask(FakeEngine(), ApiKey.HEARTBEAT, version, fields)
    assert response.error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
async def test_leave_group(version: int) -> None:
    engine = FakeEngine()
    members = [{"member_id": "m1"}, {"member_id": "", "group_instance_id": "one"}]
    response = await ask(engine, ApiKey.LEAVE_GROUP, version, {"group_id": "g", "member_id": "m1", "members": members})
    assert response.error_code == 0
    if version < 3:
        assert engine.calls == [("leave", "g", (ClassicLeave("m1"),))]
    else:
        assert engine.calls == [("leave", "g", (ClassicLeave("m1"), ClassicLeave("", "one")))]
        assert [(member.member_id, member.error_code) for member in response.members] == [("m1", 0), ("", 0)]


async def test_offset_delete() -> None:
    fields = {"group_id": "g", "topics": [{"name": "flights", "partitions": [{"partition_index": 1}]}]}
    response = await ask(FakeEngine(), ApiKey.OFFSET_DELETE, 0, fields)
    assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in response.topics] == [
        ("flights", [(1, 0)])
    ]


async def test_sasl_where_it_is_not_enabled() -> None:
    response = await ask(FakeEngine(), ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    response = await ask(FakeEngine(), ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0a\0b"})
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE


async def test_functions_point_to_the_kafka_port() -> None:
    with pytest.raises(BadFrame, match="belongs to the Kafka port"):
        await dispatcher(FakeEngine()).dispatch(
            request_frame(12, 0, b""), context(allowed=OWNED[FunctionName.COORDINATOR])
        )
