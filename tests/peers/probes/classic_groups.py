"""Probes of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and what describes and deletes them."""

from __future__ import annotations

import struct
import threading
import time
from typing import Any

from tests.peers.connection import Connection
from tests.peers.probe import Answer, Peer, attempt, pick, probe, settled, until

_SUBSCRIPTION = struct.pack(">hi", 0, 0) + struct.pack(">i", 0)
_PROTOCOLS = [{"Name": "range", "Metadata": _SUBSCRIPTION}]


def join(connection: Connection, group: str, member_id: str = "", version: int = 9, **values: Any) -> dict[str, Any]:
    """Join a group; where the broker asks for it (KIP-394), with the id that it gives."""
    fields = {
        "GroupId": group, "SessionTimeoutMs": 30_000, "RebalanceTimeoutMs": 30_000, "MemberId": member_id,
        "ProtocolType": "consumer", "Protocols": _PROTOCOLS,
    } | ({"GroupInstanceId": None} if version >= 5 else {}) | values  # fmt: skip
    if version < 1:
        del fields["RebalanceTimeoutMs"]
    response = settled(lambda: connection.call("JoinGroup", version, **fields))
    if response["ErrorCode"] == 79:  # MEMBER_ID_REQUIRED
        fields["MemberId"] = response["MemberId"]
        response = connection.call("JoinGroup", version, **fields)
    return response


def sync(connection: Connection, group: str, joined: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Take the assignment; a leader gives itself b"mine"."""
    assignments = [{"MemberId": row["MemberId"], "Assignment": b"mine"} for row in joined.get("Members", ())]
    fields = {
        "GroupId": group, "GenerationId": joined["GenerationId"], "MemberId": joined["MemberId"],
        "GroupInstanceId": None, "ProtocolType": "consumer", "ProtocolName": "range", "Assignments": assignments,
    } | values  # fmt: skip
    return connection.call("SyncGroup", 5, **fields)


def stable(peer: Peer, label: str = "g", **values: Any) -> tuple[Connection, str, dict[str, Any]]:
    """A group of one member, which has its assignment."""
    connection, group = peer.connect(), peer.name(label)
    joined = join(connection, group, **values)
    assert joined["ErrorCode"] == 0, joined
    assert sync(connection, group, joined, GroupInstanceId=values.get("GroupInstanceId"))["ErrorCode"] == 0
    return connection, group, joined


def _told(answer: Any) -> Answer:
    """An answer to JoinGroup without the ids that a broker makes up."""
    if not isinstance(answer, dict):
        return answer
    comparable = {**answer, "MemberId": "made up" if answer["MemberId"] else ""}
    if "Leader" in comparable:
        comparable["Leader"] = (
            "itself" if answer["Leader"] and answer["Leader"] == answer["MemberId"] else answer["Leader"]
        )
    comparable["Members"] = [{**row, "MemberId": "made up"} for row in answer.get("Members", ())]
    return comparable


def _join_raw(peer: Peer, version: int = 9, **values: Any) -> Answer:
    fields = {
        "GroupId": peer.name("g"), "SessionTimeoutMs": 30_000, "RebalanceTimeoutMs": 30_000, "MemberId": "",
        "ProtocolType": "consumer", "Protocols": _PROTOCOLS, **values,
    }  # fmt: skip
    if version >= 5:
        fields.setdefault("GroupInstanceId", None)
    return _told(attempt(lambda: settled(lambda: peer.call("JoinGroup", version, **fields))))


# --- JoinGroup --------------------------------------------------------------------------------------------------------


@probe
def join_without_a_member_id(peer: Peer) -> Answer:
    return _join_raw(peer)


@probe
def join_without_a_member_id_in_version_three(peer: Peer) -> Answer:
    return _join_raw(peer, 3)


@probe
def join_twice_as_asked(peer: Peer) -> Answer:
    connection = peer.connect()
    return _told(join(connection, peer.name("g")))


@probe
def join_with_an_unknown_member_id(peer: Peer) -> Answer:
    return _join_raw(peer, MemberId="nobody")


@probe
def join_an_empty_group_id(peer: Peer) -> Answer:
    return _join_raw(peer, GroupId="")


@probe
def join_without_protocols(peer: Peer) -> Answer:
    return _join_raw(peer, Protocols=[])


@probe
def join_without_a_protocol_type(peer: Peer) -> Answer:
    return _join_raw(peer, ProtocolType="")


@probe
def join_with_the_same_protocol_twice(peer: Peer) -> Answer:
    return _join_raw(peer, Protocols=_PROTOCOLS * 2)


@probe
def join_with_a_session_timeout_that_is_too_short(peer: Peer) -> Answer:
    return _join_raw(peer, SessionTimeoutMs=1)


@probe
def join_with_a_session_timeout_that_is_too_long(peer: Peer) -> Answer:
    return _join_raw(peer, SessionTimeoutMs=2**31 - 1)


@probe
def join_with_a_negative_rebalance_timeout(peer: Peer) -> Answer:
    return _join_raw(peer, RebalanceTimeoutMs=-5)


@probe
def join_with_an_instance_id(peer: Peer) -> Answer:
    return _join_raw(peer, GroupInstanceId="i")


@probe
def join_with_an_empty_instance_id(peer: Peer) -> Answer:
    return _join_raw(peer, GroupInstanceId="")


@probe
def join_with_an_instance_id_of_odd_characters(peer: Peer) -> Answer:
    return _join_raw(peer, GroupInstanceId="a/b c")


@probe
def join_with_an_instance_id_of_250_characters(peer: Peer) -> Answer:
    return _join_raw(peer, GroupInstanceId="i" * 250)


@probe
def join_with_another_protocol_type(peer: Peer) -> Answer:
    _, group, _ = stable(peer)
    return _join_raw(peer, GroupId=group, ProtocolType="connect")


@probe
def join_with_a_protocol_that_nobody_shares(peer: Peer) -> Answer:
    _, group, _ = stable(peer)
    return _join_raw(peer, GroupId=group, Protocols=[{"Name": "other", "Metadata": b""}])


@probe
def the_same_member_joins_again(peer: Peer) -> Answer:
    connection, group, joined = stable(peer)
    return _told(join(connection, group, joined["MemberId"]))


@probe
def a_static_member_comes_back(peer: Peer) -> Answer:
    connection, group, joined = stable(peer, GroupInstanceId="i")
    again = join(peer.connect(), group, GroupInstanceId="i")
    beat = {"GroupId": group, "GenerationId": joined["GenerationId"], "MemberId": joined["MemberId"]}
    return [
        _told(again),
        again["MemberId"] != joined["MemberId"],
        connection.call("Heartbeat", 4, GroupInstanceId="i", **beat),
        connection.call("Heartbeat", 4, GroupInstanceId=None, **beat),
    ]


def _hears_of_a_round(first: Connection, group: str, joined: dict[str, Any]) -> dict[str, Any]:
    """Beat until the broker says that a round gathers (5 s at most); the last answer to Heartbeat."""
    beat = {"GroupId": group, "GenerationId": joined["GenerationId"], "MemberId": joined["MemberId"]}
    response = settled(lambda: first.call("Heartbeat", 4, **beat), 0.1)
    for _ in range(100):
        if response["ErrorCode"]:
            break
        time.sleep(0.05)
        response = first.call("Heartbeat", 4, **beat)
    return response


@probe
def a_second_member_begins_a_generation(peer: Peer) -> Answer:
    first, group, joined = stable(peer)
    second, answers = peer.connect(), []
    thread = threading.Thread(target=lambda: answers.append(join(second, group)))
    thread.start()
    heartbeat = _hears_of_a_round(first, group, joined)
    again = join(first, group, joined["MemberId"])
    thread.join(30)
    return [
        heartbeat,
        again["GenerationId"],
        len(again["Members"]),
        [joined_again["GenerationId"] for joined_again in answers],
    ]


@probe
def sync_while_the_next_round_gathers(peer: Peer) -> Answer:
    first, group, joined = stable(peer)
    second = peer.connect()
    thread = threading.Thread(target=lambda: join(second, group))
    thread.start()
    heard = _hears_of_a_round(first, group, joined)
    synced = sync(first, group, joined, Assignments=[])
    join(first, group, joined["MemberId"])
    thread.join(30)
    return [heard["ErrorCode"], pick(synced, "ErrorCode", "Assignment")]


# --- SyncGroup, Heartbeat ---------------------------------------------------------------------------------------------


@probe
def sync_as_the_leader(peer: Peer) -> Answer:
    connection, group = peer.connect(), peer.name("g")
    joined = join(connection, group)
    return [sync(connection, group, joined), sync(connection, group, joined)]


@probe
def sync_with_another_generation(peer: Peer) -> Answer:
    connection, group, joined = stable(peer)
    return [sync(connection, group, joined, GenerationId=number) for number in (0, 2, -1)]


@probe
def sync_with_an_unknown_member(peer: Peer) -> Answer:
    connection, group, joined = stable(peer)
    return sync(connection, group, joined, MemberId="nobody")


@probe
def sync_with_another_protocol(peer: Peer) -> Answer:
    connection, group, joined = stable(peer)
    return [sync(connection, group, joined, ProtocolName="x"), sync(connection, group, joined, ProtocolType="x")]


@probe
def sync_of_an_unknown_group(peer: Peer) -> Answer:
    return sync(peer.connect(), peer.name("g"), {"GenerationId": 1, "MemberId": "m"})


def _beats(peer: Peer, label: str = "g", **values: Any) -> Answer:
    connection, group, joined = stable(peer, label)
    fields = {"GroupId": group, "GenerationId": joined["GenerationId"], "MemberId": joined["MemberId"], **values}
    return connection.call("Heartbeat", 4, **fields)


@probe
def heartbeat(peer: Peer) -> Answer:
    return _beats(peer)


@probe
def heartbeat_with_another_generation(peer: Peer) -> Answer:
    return [_beats(peer, f"g{number}", GenerationId=number) for number in (0, 2, -1)]


@probe
def heartbeat_of_an_unknown_member(peer: Peer) -> Answer:
    return _beats(peer, MemberId="nobody")


@probe
def heartbeat_with_an_unknown_instance(peer: Peer) -> Answer:
    return _beats(peer, GroupInstanceId="nobody")


@probe
def heartbeat_of_an_empty_group_id(peer: Peer) -> Answer:
    return _beats(peer, GroupId="")


@probe
def heartbeat_of_an_unknown_group(peer: Peer) -> Answer:
    return _beats(peer, GroupId=peer.name("none"))


@probe
def heartbeat_while_the_assignment_is_awaited(peer: Peer) -> Answer:
    connection, group = peer.connect(), peer.name("g")
    joined = join(connection, group)
    fields = {"GroupId": group, "GenerationId": joined["GenerationId"], "MemberId": joined["MemberId"]}
    return connection.call("Heartbeat", 4, **fields)


# --- LeaveGroup -------------------------------------------------------------------------------------------------------


def _leave(connection: Connection, group: str, *members: dict[str, Any]) -> Answer:
    response = connection.call("LeaveGroup", 5, GroupId=group, Members=list(members))
    for row in response["Members"]:
        row["MemberId"] = "made up" if "-" in row["MemberId"] else row["MemberId"]
    return response


@probe
def leave(peer: Peer) -> Answer:
    connection, group, joined = stable(peer)
    member = {"MemberId": joined["MemberId"], "GroupInstanceId": None}
    return [_leave(connection, group, member), _leave(connection, group, member)]


@probe
def leave_as_nobody(peer: Peer) -> Answer:
    connection, group, _ = stable(peer)
    return [
        _leave(connection, group, {"MemberId": "nobody", "GroupInstanceId": None}),
        _leave(connection, group, {"MemberId": "", "GroupInstanceId": "nobody"}),
        _leave(connection, group, {"MemberId": "", "GroupInstanceId": None}),
        _leave(connection, group),
    ]


@probe
def leave_by_instance_id(peer: Peer) -> Answer:
    connection, group, _ = stable(peer, GroupInstanceId="i")
    return _leave(connection, group, {"MemberId": "", "GroupInstanceId": "i"})


@probe
def leave_by_an_instance_id_of_another_member(peer: Peer) -> Answer:
    connection, group, _ = stable(peer, GroupInstanceId="i")
    return _leave(connection, group, {"MemberId": "nobody", "GroupInstanceId": "i"})


@probe
def leave_an_unknown_group(peer: Peer) -> Answer:
    return _leave(peer.connect(), peer.name("g"), {"MemberId": "m", "GroupInstanceId": None})


@probe
def leave_in_version_two(peer: Peer) -> Answer:
    connection, group, joined = stable(peer)
    return [
        connection.call("LeaveGroup", 2, GroupId=group, MemberId="nobody"),
        connection.call("LeaveGroup", 2, GroupId=group, MemberId=joined["MemberId"]),
        connection.call("LeaveGroup", 2, GroupId=peer.name("none"), MemberId="m"),
    ]


# --- describe, list, delete -------------------------------------------------------------------------------------------


def _described(connection: Connection, group: str, version: int = 6) -> Answer:
    [row] = connection.call("DescribeGroups", version, Groups=[group], IncludeAuthorizedOperations=False)["Groups"]
    for member in row["Members"]:
        member.update(MemberId="made up", ClientHost=bool(member["ClientHost"]))
    return row


@probe
def describe_a_stable_group(peer: Peer) -> Answer:
    connection, group, _ = stable(peer)
    return _described(connection, group)


@probe
def describe_a_static_member(peer: Peer) -> Answer:
    connection, group, _ = stable(peer, GroupInstanceId="i")
    return _described(connection, group)


@probe
def describe_a_group_without_members(peer: Peer) -> Answer:
    connection, group = _emptied(peer)
    return [_described(connection, group), _described(connection, group, 5)]


@probe
def describe_a_group_that_does_not_exist(peer: Peer) -> Answer:
    connection = peer.connect()
    return [_described(connection, peer.name("none"), version) for version in (3, 5, 6)]


@probe
def describe_an_empty_group_id(peer: Peer) -> Answer:
    connection = peer.connect()
    return [_described(connection, "", version) for version in (5, 6)]


@probe
def describe_a_group_twice(peer: Peer) -> Answer:
    connection, group, _ = stable(peer)
    rows = connection.call("DescribeGroups", 6, Groups=[group, group])["Groups"]
    return [pick(row, "ErrorCode", "GroupState") for row in rows]


@probe
def list_a_group(peer: Peer) -> Answer:
    connection, group, _ = stable(peer)

    def listed(**filters: Any) -> Answer:
        response = connection.call("ListGroups", 5, **filters)
        return [row for row in response["Groups"] if row["GroupId"] == group]

    return [
        listed(), listed(StatesFilter=["Stable"]), listed(StatesFilter=["Empty"]), listed(StatesFilter=["stable"]),
        listed(StatesFilter=["NoSuchState"]), listed(TypesFilter=["classic"]), listed(TypesFilter=["Classic"]),
        listed(TypesFilter=["consumer"]), listed(TypesFilter=["nonsense"]),
    ]  # fmt: skip


@probe
def delete_a_group_with_members(peer: Peer) -> Answer:
    connection, group, _ = stable(peer)
    return connection.call("DeleteGroups", 2, GroupsNames=[group])


def _emptied(peer: Peer) -> tuple[Connection, str]:
    """A group whose only member left."""
    connection, group, joined = stable(peer)
    _leave(connection, group, {"MemberId": joined["MemberId"], "GroupInstanceId": None})
    until(lambda: _described(connection, group)["GroupState"] == "Empty")
    return connection, group


@probe
def delete_a_group_without_members(peer: Peer) -> Answer:
    connection, group = _emptied(peer)
    return [connection.call("DeleteGroups", 2, GroupsNames=[group]), _described(connection, group)]


@probe
def delete_a_group_twice_in_a_request(peer: Peer) -> Answer:
    connection, group = _emptied(peer)
    rows = connection.call("DeleteGroups", 2, GroupsNames=[group, group, peer.name("none"), ""])["Results"]
    return sorted([row["GroupId"], row["ErrorCode"]] for row in rows)
