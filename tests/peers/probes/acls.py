"""Probes of ACLs: CreateAcls, DescribeAcls, DeleteAcls, and what they allow to whom."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.peers.connection import Connection
from tests.peers.probe import USER, Answer, Peer, add, attempt, pick, probe

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER_RESOURCE = 2, 3, 4, 5, 6, 7
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT = range(10, 16)
_OPERATIONS = {
    "ALL": ALL,
    "READ": READ,
    "WRITE": WRITE,
    "CREATE": CREATE,
    "DELETE": DELETE,
    "ALTER": ALTER,
    "DESCRIBE": DESCRIBE,
    "CLUSTER_ACTION": CLUSTER_ACTION,
    "DESCRIBE_CONFIGS": DESCRIBE_CONFIGS,
    "ALTER_CONFIGS": ALTER_CONFIGS,
    "IDEMPOTENT_WRITE": IDEMPOTENT_WRITE,
    "CREATE_TOKENS": CREATE_TOKENS,
    "DESCRIBE_TOKENS": DESCRIBE_TOKENS,
    "TWO_PHASE_COMMIT": TWO_PHASE_COMMIT,
    "number 16": 16,
}
_RESOURCES = {
    "a topic": TOPIC,
    "a group": GROUP,
    "the cluster": CLUSTER,
    "a transactional id": TRANSACTIONAL_ID,
    "a delegation token": DELEGATION_TOKEN,
    "a user": USER_RESOURCE,
    "type 8": 8,
}


def acl(peer: Peer, **changes: Any) -> dict[str, Any]:
    """An ACL as CreateAcls takes it, of a principal of this probe's own."""
    row = {
        "ResourceType": TOPIC,
        "ResourceName": peer.name("t"),
        "ResourcePatternType": LITERAL,
        "Principal": f"User:{peer.name('p')}",
        "Host": "*",
        "Operation": READ,
        "PermissionType": ALLOW,
    }
    return {**row, **changes}


def create(peer: Peer, *acls: Mapping[str, Any]) -> Answer:
    """Create ACLs; the results."""
    response = attempt(lambda: peer.call("CreateAcls", Creations=list(acls)))
    return response if isinstance(response, str) else response["Results"]


def described(peer: Peer, **changes: Any) -> Answer:
    """ACLs that a filter finds, those of this probe, in order."""
    peer.settle()
    filters = {"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1, "PermissionType": 1, **changes}
    response = attempt(lambda: peer.call("DescribeAcls", **filters))
    if isinstance(response, str) or response["ErrorCode"]:
        return response
    rows = [
        [resource["ResourceType"], resource["ResourceName"], resource["PatternType"], *row.values()]
        for resource in response["Resources"]
        for row in resource["Acls"]
    ]
    return sorted(row for row in rows if peer.suffix in str(row))


# --- creation ---------------------------------------------------------------------------------------------------------


def _creation(**changes: Any) -> Callable[[Peer], Answer]:
    return lambda peer: [create(peer, acl(peer, **changes)), described(peer)]


def _everywhere(operation: int) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        names = {
            resource_type: "kafka-cluster" if resource_type == CLUSTER else peer.name("x")
            for resource_type in _RESOURCES.values()
        }
        return {
            label: create(
                peer, acl(peer, ResourceType=resource_type, ResourceName=names[resource_type], Operation=operation)
            )
            for label, resource_type in _RESOURCES.items()
        }

    return question


for _label, _number in _OPERATIONS.items():
    add(f"acls: create {_label} for any resource", _everywhere(_number))
_CREATED: dict[str, dict[str, Any]] = {
    "a resource of type ANY": {"ResourceType": 1},
    "a resource of type UNKNOWN": {"ResourceType": 0},
    "operation ANY": {"Operation": 1},
    "operation UNKNOWN": {"Operation": 0},
    "a prefix": {"ResourcePatternType": PREFIXED},
    "pattern MATCH": {"ResourcePatternType": 2},
    "pattern ANY": {"ResourcePatternType": 1},
    "pattern UNKNOWN": {"ResourcePatternType": 0},
    "pattern 5": {"ResourcePatternType": 5},
    "a denial": {"PermissionType": DENY},
    "permission ANY": {"PermissionType": 1},
    "permission UNKNOWN": {"PermissionType": 0},
    "permission 4": {"PermissionType": 4},
    "an address": {"Host": "192.0.2.3"},
    "a host": {"Host": "example.org"},
    "an empty host": {"Host": ""},
    "a range of addresses": {"Host": "192.0.2.0/24"},
    "a bad range of addresses": {"Host": "192.0.2.0/99"},
    "an empty principal": {"Principal": ""},
    "a principal without a type": {"Principal": "alice"},
    "a principal without a name": {"Principal": "User:"},
    "a principal of another type": {"Principal": "Group:admins"},
    "a principal with colons": {"Principal": "User:CN=a:b"},
    "an empty name": {"ResourceName": ""},
    "a wildcard as a prefix": {"ResourceName": "*", "ResourcePatternType": PREFIXED},
    "a topic with a bad name": {"ResourceName": "a/b c"},
    "a cluster by another name": {"ResourceType": CLUSTER, "ResourceName": "my-cluster", "Operation": ALTER},
    "a cluster by a prefix": {
        "ResourceType": CLUSTER,
        "ResourceName": "kafka",
        "ResourcePatternType": PREFIXED,
        "Operation": ALTER,
    },
    "any cluster": {"ResourceType": CLUSTER, "ResourceName": "*", "Operation": ALTER},
    "a long name": {"ResourceName": "n" * 300},
    "a long principal": {"Principal": "User:" + "p" * 300},
}
for _label, _changes in _CREATED.items():
    add(f"acls: create with {_label}", _creation(**_changes))


@probe
def create_twice(peer: Peer) -> Answer:
    row = acl(peer)
    return [create(peer, row, row), create(peer, row), described(peer)]


@probe
def one_bad_acl_of_two(peer: Peer) -> Answer:
    return [create(peer, acl(peer), acl(peer, PermissionType=1)), described(peer)]


@probe
def create_nothing(peer: Peer) -> Answer:
    return peer.call("CreateAcls", Creations=[])


# --- filters ----------------------------------------------------------------------------------------------------------


def _some(peer: Peer) -> None:
    create(
        peer,
        acl(peer),
        acl(peer, Operation=WRITE, PermissionType=DENY),
        acl(peer, ResourceName=peer.name("")[:2], ResourcePatternType=PREFIXED, Principal=f"User:{peer.suffix}-q"),
        acl(peer, ResourceName=peer.name("t")[:-1], ResourcePatternType=PREFIXED),
        acl(peer, ResourceName="*", Host="192.0.2.9"),
        acl(peer, ResourceType=GROUP, ResourceName=peer.name("g")),
    )


_FILTERS: dict[str, Callable[[Peer], dict[str, Any]]] = {
    "everything": lambda peer: {},
    "a name": lambda peer: {"ResourceNameFilter": peer.name("t")},
    "a name, literally": lambda peer: {"ResourceNameFilter": peer.name("t"), "PatternTypeFilter": LITERAL},
    "a name, as a prefix": lambda peer: {"ResourceNameFilter": peer.name("t")[:-1], "PatternTypeFilter": PREFIXED},
    "a name that matches": lambda peer: {"ResourceNameFilter": peer.name("t"), "PatternTypeFilter": 2},
    "a wildcard that matches": lambda peer: {"ResourceNameFilter": "*", "PatternTypeFilter": 2},
    "a wildcard": lambda peer: {"ResourceNameFilter": "*", "PatternTypeFilter": LITERAL},
    "any name that matches": lambda peer: {"PatternTypeFilter": 2},
    "a type": lambda peer: {"ResourceTypeFilter": GROUP},
    "a type and a name that matches": lambda peer: {
        "ResourceTypeFilter": TOPIC,
        "ResourceNameFilter": peer.name("t") + "-more",
        "PatternTypeFilter": 2,
    },
    "a principal": lambda peer: {"PrincipalFilter": f"User:{peer.name('p')}"},
    "everyone": lambda peer: {"PrincipalFilter": "User:*"},
    "a principal without a type": lambda peer: {"PrincipalFilter": peer.name("p")},
    "an empty principal": lambda peer: {"PrincipalFilter": ""},
    "a host": lambda peer: {"HostFilter": "192.0.2.9"},
    "any host by its wildcard": lambda peer: {"HostFilter": "*"},
    "an operation": lambda peer: {"Operation": WRITE},
    "a permission": lambda peer: {"PermissionType": DENY},
    "an operation that none has": lambda peer: {"Operation": ALTER},
    "an empty name": lambda peer: {"ResourceNameFilter": ""},
    "an unknown type": lambda peer: {"ResourceTypeFilter": 9},
    "type UNKNOWN": lambda peer: {"ResourceTypeFilter": 0},
    "an unknown pattern": lambda peer: {"PatternTypeFilter": 9},
    "pattern UNKNOWN": lambda peer: {"PatternTypeFilter": 0},
    "an unknown operation": lambda peer: {"Operation": 99},
    "operation UNKNOWN": lambda peer: {"Operation": 0},
    "an unknown permission": lambda peer: {"PermissionType": 9},
    "type USER": lambda peer: {"ResourceTypeFilter": USER_RESOURCE},
    "operation TWO_PHASE_COMMIT": lambda peer: {"Operation": TWO_PHASE_COMMIT},
}


def _filtered(label: str) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        _some(peer)
        return described(peer, **_FILTERS[label](peer))

    return question


for _label in _FILTERS:
    add(f"acls: describe by {_label}", _filtered(_label))


def _delete(peer: Peer, *filters: Mapping[str, Any]) -> Answer:
    blank = {"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1, "PermissionType": 1}
    response = attempt(lambda: peer.call("DeleteAcls", Filters=[{**blank, **filter_} for filter_ in filters]))
    if isinstance(response, str):
        return response
    for filter_result in response["FilterResults"]:
        filter_result["MatchingAcls"].sort(key=str)
    return response["FilterResults"]


@probe
def delete_by_principal(peer: Peer) -> Answer:
    _some(peer)
    peer.settle()
    return [_delete(peer, {"PrincipalFilter": f"User:{peer.name('p')}"}), described(peer)]


@probe
def delete_by_two_filters_that_overlap(peer: Peer) -> Answer:
    _some(peer)
    peer.settle()
    mine = {"PrincipalFilter": f"User:{peer.name('p')}"}
    return [_delete(peer, {**mine, "Operation": WRITE}, mine), described(peer)]


@probe
def delete_by_a_name_that_matches(peer: Peer) -> Answer:
    create(peer, acl(peer), acl(peer, ResourceName=peer.name("t")[:-1], ResourcePatternType=PREFIXED))
    peer.settle()
    mine = {"PrincipalFilter": f"User:{peer.name('p')}"}
    return [_delete(peer, {**mine, "ResourceNameFilter": peer.name("t"), "PatternTypeFilter": 2}), described(peer)]


@probe
def delete_nothing(peer: Peer) -> Answer:
    return _delete(peer, {"PrincipalFilter": f"User:{peer.name('nobody')}"})


@probe
def delete_by_an_unknown_operation(peer: Peer) -> Answer:
    return _delete(peer, {"PrincipalFilter": f"User:{peer.name('nobody')}", "Operation": 99})


# --- what they allow --------------------------------------------------------------------------------------------------


def _allowed(peer: Peer, connection: Connection, topic: str) -> Answer:
    """Return a user's rights to a topic: its metadata, its configurations, its offsets, growth."""
    name = {"Name": topic}
    offsets = {"Topics": [{**name, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}], "ReplicaId": -1}
    resource = {"ResourceType": 2, "ResourceName": topic, "ConfigurationKeys": ["retention.ms"]}
    growth = {"Topics": [{**name, "Count": 1, "Assignments": None}], "TimeoutMs": 1000, "ValidateOnly": True}
    described_topic = connection.call("Metadata", 12, Topics=[name], IncludeTopicAuthorizedOperations=True)["Topics"][0]
    return {
        "metadata": pick(described_topic, "ErrorCode", "TopicAuthorizedOperations"),
        "offsets": pick(connection.call("ListOffsets", 5, **offsets)["Topics"][0]["Partitions"][0], "ErrorCode"),
        "configurations": pick(connection.call("DescribeConfigs", 4, Resources=[resource])["Results"][0], "ErrorCode"),
        "growth": pick(connection.call("CreatePartitions", 3, **growth)["Results"][0], "ErrorCode"),
    }


def _rights(*acls: Mapping[str, Any]) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        topic = peer.topic()
        rows = [acl(peer, **{"Principal": f"User:{USER}", "ResourceName": topic, **acl_fields}) for acl_fields in acls]
        cut = [{**row, "ResourceName": topic[:-1]} if row["ResourcePatternType"] == PREFIXED else row for row in rows]
        created = create(peer, *cut)
        peer.settle()
        return [created, _allowed(peer, peer.login(), topic)]

    return question


for _label, _number in _OPERATIONS.items():
    if _number < CREATE_TOKENS:
        add(f"acls: a topic's {_label} allows", _rights({"Operation": _number}))
_RULED: dict[str, list[dict[str, Any]]] = {
    "nothing is ruled": [],
    "a prefix": [{"ResourcePatternType": PREFIXED, "Operation": READ}],
    "everyone": [{"Principal": "User:*", "Operation": READ}],
    "an address": [{"Host": "127.0.0.1", "Operation": READ}],
    "another address": [{"Host": "192.0.2.1", "Operation": READ}],
    "a range of addresses": [{"Host": "127.0.0.0/8", "Operation": READ}],
    "a denial": [{"Operation": ALL}, {"Operation": READ, "PermissionType": DENY}],
    "a denial of DESCRIBE": [{"Operation": READ}, {"Operation": DESCRIBE, "PermissionType": DENY}],
    "a denial of ALL": [{"Operation": READ}, {"Operation": ALL, "PermissionType": DENY}],
    "a denial of a prefix": [
        {"Operation": READ},
        {"Operation": READ, "PermissionType": DENY, "ResourcePatternType": PREFIXED},
    ],
    "a denial for everyone": [{"Operation": ALL}, {"Operation": ALTER, "PermissionType": DENY, "Principal": "User:*"}],
    "another principal": [{"Operation": ALL, "Principal": "User:bob"}],
    "a principal of another type": [{"Operation": ALL, "Principal": f"Group:{USER}"}],
}
for _label, _acls in _RULED.items():
    add(f"acls: a user's rights with {_label}", _rights(*_acls))


def _groups_and_cluster(connection: Connection, peer: Peer) -> Answer:
    group = peer.name("g")
    calls: Sequence[tuple[str, int, dict[str, Any]]] = (
        ("FindCoordinator", 3, {"Key": group, "KeyType": 0}),
        ("FindCoordinator", 3, {"Key": peer.name("x"), "KeyType": 1}),
        ("Heartbeat", 4, {"GroupId": group, "GenerationId": 1, "MemberId": "m"}),
        ("DescribeCluster", 1, {}),
        ("DescribeAcls", 3, {"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1, "PermissionType": 1}),
        ("CreateAcls", 3, {"Creations": []}),
        ("ListGroups", 4, {"StatesFilter": ["nothing"]}),
        ("DescribeClientQuotas", 1, {"Components": [], "Strict": True}),
        ("ApiVersions", 3, {"ClientSoftwareName": "p", "ClientSoftwareVersion": "1"}),
    )
    return [[api, pick(connection.call(api, version, **values), "ErrorCode")] for api, version, values in calls]


@probe
def without_any_right(peer: Peer) -> Answer:
    return _groups_and_cluster(peer.login(), peer)


def _right_of(resource_type: int, text: str, operation: int) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        row = acl(
            peer,
            Principal=f"User:{USER}",
            ResourceType=resource_type,
            ResourceName=peer.name(text),
            Operation=operation,
        )
        created = create(peer, row)
        peer.settle()
        return [created, _groups_and_cluster(peer.login(), peer)]

    return question


for (_label, _kind, _text), _name in itertools.product(
    (("group", GROUP, "g"), ("transactional id", TRANSACTIONAL_ID, "x")), ("READ", "WRITE", "DESCRIBE", "ALL")
):
    add(f"acls: a {_label}'s {_name} allows", _right_of(_kind, _text, _OPERATIONS[_name]))


@probe
def a_group_describes_its_operations(peer: Peer) -> Answer:
    group = peer.name("g")
    create(peer, acl(peer, Principal=f"User:{USER}", ResourceType=GROUP, ResourceName=group, Operation=READ))
    peer.settle()
    described = peer.login().call("DescribeGroups", 5, Groups=[group], IncludeAuthorizedOperations=True)["Groups"][0]
    return pick(described, "AuthorizedOperations")
