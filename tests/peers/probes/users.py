"""Probes of SCRAM users: DescribeUserScramCredentials, AlterUserScramCredentials."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.peers.probe import Answer, Peer, add, attempt, by_name, probe

_SALT = b"a salt of some length"


def credential(name: str, mechanism: int = 1, iterations: int = 4096, **more: Any) -> dict[str, Any]:
    """A credential as AlterUserScramCredentials takes it."""
    algorithm = "sha512" if mechanism == 2 else "sha256"
    salted = hashlib.pbkdf2_hmac(algorithm, b"password", _SALT, 4096)
    row = {"Name": name, "Mechanism": mechanism, "Iterations": iterations, "Salt": _SALT, "SaltedPassword": salted}
    return {**row, **more}


def alter(peer: Peer, upsertions: Sequence[Mapping[str, Any]], deletions: Sequence[Mapping[str, Any]] = ()) -> Answer:
    """Alter credentials; results by user."""
    response = attempt(lambda: peer.call("AlterUserScramCredentials", Deletions=deletions, Upsertions=upsertions))
    return (
        response
        if isinstance(response, str)
        else sorted(response["Results"], key=lambda user_row: str(user_row["User"]))
    )


def described(peer: Peer, *names: str) -> Answer:
    """Users as they are described."""
    peer.settle()
    response = attempt(lambda: peer.call("DescribeUserScramCredentials", Users=[{"Name": name} for name in names]))
    if isinstance(response, dict):
        response["Results"].sort(key=lambda row: str(row["User"]))
        for user_row in response["Results"]:
            user_row["CredentialInfos"].sort(key=lambda row: row["Mechanism"])
    return response


def _one(**changes: Any) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        user = changes.get("Name", peer.name("u"))
        return [alter(peer, [{**credential(user), **changes}]), described(peer, user) if user else None]

    return question


_CREATED: dict[str, dict[str, Any]] = {
    "SHA-256": {},
    "SHA-512": {"Mechanism": 2, "SaltedPassword": b"x" * 64},
    "an unknown mechanism": {"Mechanism": 3},
    "mechanism 0": {"Mechanism": 0},
    "4095 iterations": {"Iterations": 4095},
    "16384 iterations": {"Iterations": 16384},
    "16385 iterations": {"Iterations": 16385},
    "no iterations": {"Iterations": 0},
    "negative iterations": {"Iterations": -1},
    "an empty salt": {"Salt": b""},
    "a salt of one byte": {"Salt": b"s"},
    "an empty password": {"SaltedPassword": b""},
    "a short password": {"SaltedPassword": b"x"},
    "a password of 64 bytes": {"SaltedPassword": b"x" * 64},
    "an empty name": {"Name": ""},
    "a name with a comma": {"Name": "a,b=c"},
    "a name that is not ASCII": {"Name": "jürgen"},
    "a name of a blank": {"Name": " "},
}
for _label, _changes in _CREATED.items():
    add(f"users: create with {_label}", _one(**_changes))


@probe
def two_mechanisms_of_a_user(peer: Peer) -> Answer:
    user = peer.name("u")
    return [alter(peer, [credential(user, 1), credential(user, 2)]), described(peer, user)]


@probe
def a_mechanism_twice(peer: Peer) -> Answer:
    user = peer.name("u")
    return [alter(peer, [credential(user), credential(user, 1, 5000)]), described(peer, user)]


@probe
def one_mechanism_after_the_other(peer: Peer) -> Answer:
    user = peer.name("u")
    return [alter(peer, [credential(user, 1)]), alter(peer, [credential(user, 2, 8192)]), described(peer, user)]


@probe
def create_and_delete_in_one_request(peer: Peer) -> Answer:
    user = peer.name("u")
    alter(peer, [credential(user, 1)])
    peer.settle()
    results = alter(peer, [credential(user, 2)], [{"Name": user, "Mechanism": 1}])
    return [results, described(peer, user)]


@probe
def change_the_iterations(peer: Peer) -> Answer:
    user = peer.name("u")
    return [alter(peer, [credential(user)]), alter(peer, [credential(user, 1, 8000)]), described(peer, user)]


@probe
def delete_one_mechanism_then_the_other(peer: Peer) -> Answer:
    user = peer.name("u")
    alter(peer, [credential(user, 1)])
    alter(peer, [credential(user, 2)])
    peer.settle()
    first = [alter(peer, [], [{"Name": user, "Mechanism": 1}]), described(peer, user)]
    return [first, alter(peer, [], [{"Name": user, "Mechanism": 2}]), described(peer, user)]


@probe
def delete_a_mechanism_that_the_user_lacks(peer: Peer) -> Answer:
    user = peer.name("u")
    alter(peer, [credential(user, 1)])
    peer.settle()
    return alter(peer, [], [{"Name": user, "Mechanism": 2}])


@probe
def delete_an_unknown_user(peer: Peer) -> Answer:
    return alter(peer, [], [{"Name": peer.name("u"), "Mechanism": 1}])


@probe
def delete_an_unknown_mechanism(peer: Peer) -> Answer:
    return alter(peer, [], [{"Name": peer.name("u"), "Mechanism": 9}])


@probe
def delete_twice(peer: Peer) -> Answer:
    user = peer.name("u")
    alter(peer, [credential(user, 1)])
    peer.settle()
    row = {"Name": user, "Mechanism": 1}
    return [alter(peer, [], [row, row]), described(peer, user)]


@probe
def one_bad_user_of_two(peer: Peer) -> Answer:
    good, bad = peer.name("a"), peer.name("b")
    return [alter(peer, [credential(good), credential(bad, 7)]), described(peer, good, bad)]


@probe
def nothing_to_alter(peer: Peer) -> Answer:
    return alter(peer, [])


@probe
def describe_a_user_twice(peer: Peer) -> Answer:
    user = peer.name("u")
    alter(peer, [credential(user)])
    return described(peer, user, user)


@probe
def describe_an_unknown_user(peer: Peer) -> Answer:
    return described(peer, peer.name("u"))


@probe
def describe_an_empty_name(peer: Peer) -> Answer:
    return described(peer, "")


@probe
def describe_everyone(peer: Peer) -> Answer:
    answers = []
    everyone: tuple[list[Any] | None, ...] = ([], None)
    for users in everyone:
        response = peer.call("DescribeUserScramCredentials", Users=users)
        answers.append(
            [response["ErrorCode"] == 0, sorted({"admin", "alice"} & set(by_name(response["Results"], "User")))]
        )
    return answers


@probe
def without_any_right(peer: Peer) -> Answer:
    connection = peer.login()
    rows = [credential(peer.name("u"))]
    return [
        connection.call("DescribeUserScramCredentials", 0, Users=[{"Name": "alice"}]),
        connection.call("AlterUserScramCredentials", 0, Deletions=[], Upsertions=rows),
    ]
