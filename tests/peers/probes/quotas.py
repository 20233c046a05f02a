"""Probes of client quotas: DescribeClientQuotas, AlterClientQuotas, and what a quota does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.peers.probe import Answer, Peer, add, attempt, pick, probe, probe_alone

Parts = Sequence[tuple[str, str | None]]
_PRODUCE, _FETCH, _REQUESTS = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
_MUTATIONS, _CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"


def alter(peer: Peer, parts: Parts, *changes: tuple[str, float | None], **more: Any) -> Answer:
    """Alter quotas of an entity; the results."""
    entity = [{"EntityType": entity_type, "EntityName": name} for entity_type, name in parts]
    rows = [{"Key": key, "Value": value or 0.0, "Remove": value is None} for key, value in changes]
    response = attempt(lambda: peer.call("AlterClientQuotas", Entries=[{"Entity": entity, "Ops": rows}], **more))
    if isinstance(response, str):
        return response
    for entry in response["Entries"]:
        entry["Entity"].sort(key=str)
    return response["Entries"]


def described(peer: Peer, *components: tuple[str, int, str | None], strict: bool = False) -> Answer:
    """Quotas by filters, those of this probe's names and of defaults."""
    peer.settle()
    components_asked = [
        {"EntityType": entity_type, "MatchType": match, "Match": name} for entity_type, match, name in components
    ]
    response = attempt(lambda: peer.call("DescribeClientQuotas", Components=components_asked, Strict=strict))
    if isinstance(response, str) or response["ErrorCode"]:
        return response
    rows = [
        [sorted([part["EntityType"], part["EntityName"]] for part in row["Entity"]), _values(row)]
        for row in response["Entries"]
    ]
    return sorted((row for row in rows if peer.suffix in str(row)), key=str)


def _values(row: dict[str, Any]) -> dict[str, float]:
    return {value_row["Key"]: value_row["Value"] for value_row in row["Values"]}


def _alteration(
    parts: Parts, *changes: tuple[str, float | None], is_validated: bool = False
) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        named = [(entity_type, peer.name(name) if name and name[0] == "%" else name) for entity_type, name in parts]
        return alter(peer, named, *changes, ValidateOnly=is_validated)

    return question


_USER: Parts = [("user", "%u")]
for _label, _parts, _changes in (
    ("a user", _USER, [(_PRODUCE, 1e6)]),
    ("a user in fractions", _USER, [(_PRODUCE, 1.5)]),
    ("a user's requests", _USER, [(_REQUESTS, 12.5)]),
    ("a user's mutations", _USER, [(_MUTATIONS, 0.5)]),
    ("a user's connections", _USER, [(_CONNECTIONS, 5.0)]),
    ("a user of nothing", _USER, [(_PRODUCE, 0.0)]),
    ("a user of less than nothing", _USER, [(_PRODUCE, -1.0)]),
    ("a user of nearly nothing", _USER, [(_PRODUCE, 1e-9)]),
    ("a user of requests of nothing", _USER, [(_REQUESTS, 0.0)]),
    ("a user of very much", _USER, [(_PRODUCE, 1e18)]),
    ("a user of more than a long", _USER, [(_PRODUCE, 1e19)]),
    ("a user of infinity", _USER, [(_PRODUCE, float("inf"))]),
    ("a user of no number", _USER, [(_PRODUCE, float("nan"))]),
    ("a user by an unknown key", _USER, [("no_such_rate", 1.0)]),
    ("a user by an empty key", _USER, [("", 1.0)]),
    ("a user by a key twice", _USER, [(_PRODUCE, 1e6), (_PRODUCE, 2e6)]),
    ("a user by a key set and removed", _USER, [(_PRODUCE, 1e6), (_PRODUCE, None)]),
    ("a user without changes", _USER, []),
    ("a removal of what is not set", _USER, [(_PRODUCE, None)]),
    ("a removal of an unknown key", _USER, [("no_such_rate", None)]),
    ("an empty user", [("user", "")], [(_PRODUCE, 1e6)]),
    ("an empty client", [("client-id", "")], [(_PRODUCE, 1e6)]),
    ("nobody", [], [(_PRODUCE, 1e6)]),
    ("a user twice", [("user", "%u"), ("user", "%v")], [(_PRODUCE, 1e6)]),
    ("a client", [("client-id", "%c")], [(_FETCH, 1e6)]),
    ("a user and a client", [("user", "%u"), ("client-id", "%c")], [(_FETCH, 1e6)]),
    ("a client and a user", [("client-id", "%c"), ("user", "%u")], [(_FETCH, 1e6)]),
    ("an unknown entity", [("group", "%g")], [(_FETCH, 1e6)]),
    ("an entity without a type", [("", "%g")], [(_FETCH, 1e6)]),
    ("an address and a user", [("ip", "192.0.2.1"), ("user", "%u")], [(_CONNECTIONS, 5.0)]),
    ("an address that is none", [("ip", "192.0.2")], [(_CONNECTIONS, 5.0)]),
    ("an address of version 6", [("ip", "::1")], [(_CONNECTIONS, 5.0)]),
    ("an empty address", [("ip", "")], [(_CONNECTIONS, 5.0)]),
    ("a range of addresses", [("ip", "192.0.2.0/24")], [(_CONNECTIONS, 5.0)]),
    ("an address by another key", [("ip", "192.0.2.1")], [(_PRODUCE, 1e6)]),
    ("an address in fractions", [("ip", "192.0.2.1")], [(_CONNECTIONS, 1.5)]),
    ("a host", [("ip", "localhost")], [(_CONNECTIONS, 5.0)]),
    ("a long name", [("user", "u" * 300)], [(_PRODUCE, 1e6)]),
    ("a name with all characters", [("user", "a=b,c/d <e>;%@:ü")], [(_PRODUCE, 1e6)]),
):
    add(f"quotas: validate {_label}", _alteration(_parts, *_changes, is_validated=True))


@probe
def set_change_and_remove(peer: Peer) -> Answer:
    user = peer.name("u")
    filters = ("user", 0, user)
    first = [alter(peer, [("user", user)], (_PRODUCE, 1e6), (_FETCH, 2e6)), described(peer, filters)]
    second = [alter(peer, [("user", user)], (_PRODUCE, 3e6), (_REQUESTS, 10.5)), described(peer, filters)]
    removals = (_PRODUCE, None), (_FETCH, None), (_REQUESTS, None)
    third = [alter(peer, [("user", user)], *removals), described(peer, filters)]
    return [first, second, third]


@probe
def one_bad_change_of_two(peer: Peer) -> Answer:
    user = peer.name("u")
    return [alter(peer, [("user", user)], (_PRODUCE, 1e6), ("nonsense", 1.0)), described(peer, ("user", 0, user))]


@probe
def an_entity_twice_in_a_request(peer: Peer) -> Answer:
    entity = [{"EntityType": "user", "EntityName": peer.name("u")}]
    entries = [{"Entity": entity, "Ops": [{"Key": key, "Value": 1e6, "Remove": False}]} for key in (_PRODUCE, _FETCH)]
    response = peer.call("AlterClientQuotas", Entries=entries)
    return [[pick(entry, "ErrorCode") for entry in response["Entries"]], described(peer, ("user", 2, None))]


def _filtered(*components: tuple[str, int, str | None], strict: bool = False) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        user, client = peer.name("u"), peer.name("c")
        alter(peer, [("user", user)], (_PRODUCE, 1e6))
        alter(peer, [("client-id", client)], (_PRODUCE, 2e6))
        alter(peer, [("user", user), ("client-id", client)], (_PRODUCE, 3e6))
        alter(peer, [("user", user), ("client-id", None)], (_PRODUCE, 4e6))
        named = [
            (entity_type, match, {"u": user, "c": client}.get(name or "", name))
            for entity_type, match, name in components
        ]
        return described(peer, *named, strict=strict)

    return question


_FILTERS: dict[str, list[tuple[str, int, str | None]]] = {
    "a user": [("user", 0, "u")],
    "any user": [("user", 2, None)],
    "the default user": [("user", 1, None)],
    "a client": [("client-id", 0, "c")],
    "any client": [("client-id", 2, None)],
    "the default client": [("client-id", 1, None)],
    "a user and a client": [("user", 0, "u"), ("client-id", 0, "c")],
    "a user and the default client": [("user", 0, "u"), ("client-id", 1, None)],
    "a user and any client": [("user", 0, "u"), ("client-id", 2, None)],
    "nothing": [],
}
for _label, _components in _FILTERS.items():
    for _strict in (False, True):
        add(
            f"quotas: describe by {_label}{', strictly' if _strict else ''}",
            _filtered(*_components, strict=_strict),
        )

_ODD: dict[str, list[tuple[str, int, str | None]]] = {
    "a user twice": [("user", 0, "u"), ("user", 0, "v")],
    "an unknown entity": [("group", 2, None)],
    "an empty entity": [("", 2, None)],
    "an unknown match": [("user", 7, "u")],
    "a user without a name": [("user", 0, None)],
    "a default with a name": [("user", 1, "u")],
    "anything with a name": [("user", 2, "u")],
    "an address and a user": [("ip", 2, None), ("user", 2, None)],
}


def _described(components: list[tuple[str, int, str | None]]) -> Callable[[Peer], Answer]:
    return lambda peer: described(peer, *components)


for _label, _components in _ODD.items():
    add(f"quotas: describe by {_label}", _described(_components))


@probe
def without_any_right(peer: Peer) -> Answer:
    connection = peer.login()
    entry = {
        "Entity": [{"EntityType": "user", "EntityName": "u"}],
        "Ops": [{"Key": _PRODUCE, "Value": 1.0, "Remove": False}],
    }
    return [
        connection.call("DescribeClientQuotas", 1, Components=[], Strict=False),
        connection.call("AlterClientQuotas", 1, Entries=[entry]),
    ]


@probe
def mutations_beyond_a_quota(peer: Peer) -> Answer:
    client = peer.name("c")
    alter(peer, [("client-id", client)], (_MUTATIONS, 1.0))
    peer.settle()
    codes = []
    for number in range(3):
        topic = {"Name": peer.name(f"t{number}"), "NumPartitions": 60, "ReplicationFactor": 1}
        response = peer.connect(client).call("CreateTopics", 7, Topics=[topic], timeoutMs=10_000)
        codes.append([{"ErrorCode": response["Topics"][0]["ErrorCode"]}, response["ThrottleTimeMs"] > 30_000])
    return codes


@probe_alone
def default_quotas(peer: Peer) -> Answer:
    default = [("user", None)], [("client-id", None)], [("ip", None)]
    answers = []
    for parts, key in zip(default, (_PRODUCE, _FETCH, _CONNECTIONS), strict=True):
        answers.append(alter(peer, parts, (key, 1e9)))
        peer.settle()
        described_quotas = peer.call(
            "DescribeClientQuotas",
            Components=[{"EntityType": parts[0][0], "MatchType": 1, "Match": None}],
            Strict=True,
        )
        answers.append(described_quotas["Entries"])
        answers.append(alter(peer, parts, (key, None)))
    return answers
