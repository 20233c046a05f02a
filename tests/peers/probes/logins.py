"""Probes of logins with SASL: handshakes, PLAIN, SCRAM, and what may be asked before and after."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Callable

from tests.peers.connection import Connection
from tests.peers.probe import PASSWORD, USER, Answer, Peer, add, attempt, pick, probe

_GOOD = f"\0{USER}\0{PASSWORD}".encode()
_ALGORITHMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def _handshake(mechanism: str, version: int) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        connection = peer.connect(sasl=True)
        response = attempt(lambda: connection.call("SaslHandshake", version, Mechanism=mechanism))
        if isinstance(response, dict):
            response["Mechanisms"] = sorted(response["Mechanisms"])
        return response

    return question


for _version in (0, 1):
    for _mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "plain", "", "X" * 300):
        _label = _mechanism[:20] or "nothing"
        add(f"logins: handshake version {_version} for {_label}", _handshake(_mechanism, _version))


def _authenticated(connection: Connection, data: bytes, version: int = 2) -> Answer:
    response = attempt(lambda: connection.call("SaslAuthenticate", version, AuthBytes=data))
    return pick(response, "ErrorCode", "AuthBytes", "SessionLifetimeMs") if isinstance(response, dict) else response


def _login(mechanism: str, data: bytes, version: int = 2) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        connection = peer.connect(sasl=True)
        connection.call("SaslHandshake", 1, Mechanism=mechanism)
        authenticated = _authenticated(connection, data, version)
        after = attempt(lambda: pick(connection.call("Metadata", 9, Topics=[]), "ControllerId"))
        return [authenticated, after]

    return question


for _label, _data in {
    "good": _GOOD,
    "a wrong password": f"\0{USER}\0wrong".encode(),
    "an unknown user": f"\0nobody\0{PASSWORD}".encode(),
    "an empty password": f"\0{USER}\0".encode(),
    "an empty user": f"\0\0{PASSWORD}".encode(),
    "the user as whom to act": f"{USER}\0{USER}\0{PASSWORD}".encode(),
    "another as whom to act": f"bob\0{USER}\0{PASSWORD}".encode(),
    "nothing": b"",
    "one field": b"alice",
    "two fields": f"\0{USER}".encode(),
    "four fields": f"\0{USER}\0{PASSWORD}\0more".encode(),
    "bytes that are not UTF-8": b"\0\xff\xfe\0\xff",
    "a user in capitals": f"\0{USER.upper()}\0{PASSWORD}".encode(),
    "blanks": f"\0 {USER} \0{PASSWORD}".encode(),
}.items():
    add(f"logins: PLAIN with {_label}", _login("PLAIN", _data))
for _version in (0, 1):
    add(f"logins: PLAIN in version {_version}", _login("PLAIN", _GOOD, _version))
for _label, _data in {
    "nothing": b"",
    "nonsense": b"hello",
    "an unknown user": b"n,,n=nobody,r=abcdef",
    "no user": b"n,,n=,r=abcdef",
    "channel binding": b"p=tls-unique,,n=alice,r=abcdef",
    "channel binding of the client": b"y,,n=alice,r=abcdef",
    "an extension": b"n,,m=x,n=alice,r=abcdef",
    "no nonce": b"n,,n=alice",
    "the user as whom to act": b"n,a=alice,n=alice,r=abcdef",
    "another as whom to act": b"n,a=bob,n=alice,r=abcdef",
}.items():

    def _first(data: bytes) -> Callable[[Peer], Answer]:
        def question(peer: Peer) -> Answer:
            connection = peer.connect(sasl=True)
            connection.call("SaslHandshake", 1, Mechanism="SCRAM-SHA-256")
            response = attempt(lambda: connection.call("SaslAuthenticate", 2, AuthBytes=data))
            if not isinstance(response, dict):
                return response
            names = [part.partition("=")[0] for part in response["AuthBytes"].decode(errors="replace").split(",")]
            return {**pick(response, "ErrorCode"), "attributes": names}

        return question

    add(f"logins: SCRAM with {_label}", _first(_data))


def _scram(peer: Peer, mechanism: str, password: str, nonce: str = "abcdefgh", wrong: str = "") -> Answer:
    algorithm = _ALGORITHMS[mechanism]
    connection = peer.connect(sasl=True)
    connection.call("SaslHandshake", 1, Mechanism=mechanism)
    first = f"n={USER},r={nonce}"
    reply = attempt(lambda: connection.call("SaslAuthenticate", 2, AuthBytes=f"n,,{first}".encode()))
    if not isinstance(reply, dict) or reply["ErrorCode"]:
        return reply if isinstance(reply, str) else pick(reply, "ErrorCode")
    challenge = reply["AuthBytes"].decode()
    parts = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
    final = f"c={'biws' if wrong != 'binding' else 'eSws'},r={parts['r'] + ('x' if wrong == 'nonce' else '')}"
    key = hmac.digest(salted, b"Client Key", algorithm)
    stored = hashlib.new(algorithm, key).digest()
    signature = hmac.digest(stored, f"{first},{challenge},{final}".encode(), algorithm)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    last = attempt(lambda: connection.call("SaslAuthenticate", 2, AuthBytes=f"{final},p={proof}".encode()))
    if not isinstance(last, dict):
        return last
    after = attempt(lambda: pick(connection.call("Metadata", 9, Topics=[]), "ControllerId"))
    return [pick(last, "ErrorCode", "SessionLifetimeMs"), last["AuthBytes"][:2], after]


def _scram_login(mechanism: str, wrong: str) -> Callable[[Peer], Answer]:
    password = "wrong" if wrong == "password" else PASSWORD
    return lambda peer: _scram(peer, mechanism, password, wrong=wrong)


for _mechanism in _ALGORITHMS:
    for _wrong in ("", "password", "nonce", "binding"):
        add(f"logins: {_mechanism}{_wrong and f' with a wrong {_wrong}'}", _scram_login(_mechanism, _wrong))


@probe
def requests_before_the_handshake(peer: Peer) -> Answer:
    answers = {}
    for api, version in (("Metadata", 9), ("SaslAuthenticate", 2), ("ListGroups", 4), ("ApiVersions", 0)):
        connection = peer.connect(sasl=True)
        response = attempt(lambda c=connection, a=api, v=version: c.call(a, v))  # type: ignore[misc]
        answers[api] = pick(response, "ErrorCode") if isinstance(response, dict) else response
    return answers


@probe
def requests_between_handshake_and_login(peer: Peer) -> Answer:
    answers = {}
    for api, version in (("Metadata", 9), ("ApiVersions", 0), ("SaslHandshake", 1)):
        connection = peer.connect(sasl=True)
        connection.call("SaslHandshake", 1, Mechanism="PLAIN")
        values = {"Mechanism": "PLAIN"} if api == "SaslHandshake" else {}
        response = attempt(lambda c=connection, a=api, v=version, x=values: c.call(a, v, **x))  # type: ignore[misc]
        answers[api] = pick(response, "ErrorCode") if isinstance(response, dict) else response
    return answers


@probe
def api_versions_twice_before_the_handshake(peer: Peer) -> Answer:
    connection = peer.connect(sasl=True)
    software = {"ClientSoftwareName": "probe", "ClientSoftwareVersion": "1"}
    first = connection.call("ApiVersions", 3, **software)["ErrorCode"]
    second = attempt(lambda: pick(connection.call("ApiVersions", 3, **software), "ErrorCode"))
    third = attempt(lambda: pick(connection.call("SaslHandshake", 1, Mechanism="PLAIN"), "ErrorCode"))
    return [first, second, third]


@probe
def api_versions_of_the_future_before_the_handshake(peer: Peer) -> Answer:
    connection = peer.connect(sasl=True)
    connection.send_body("ApiVersions", 99, b"")
    first = pick(connection.receive("ApiVersions", 0), "ErrorCode")
    return [first, attempt(lambda: pick(connection.call("SaslHandshake", 1, Mechanism="PLAIN"), "ErrorCode"))]


@probe
def a_handshake_of_an_unknown_mechanism_then_a_good_one(peer: Peer) -> Answer:
    connection = peer.connect(sasl=True)
    first = attempt(lambda: pick(connection.call("SaslHandshake", 1, Mechanism="GSSAPI"), "ErrorCode"))
    return [first, attempt(lambda: pick(connection.call("SaslHandshake", 1, Mechanism="PLAIN"), "ErrorCode"))]


def _bare(connection: Connection, token: bytes) -> Answer:
    """A token after a handshake of version 0: bytes after their length."""
    connection.send_frame(token)
    return attempt(connection.receive_frame)


@probe
def bare_tokens_after_a_handshake_of_version_0(peer: Peer) -> Answer:
    connection = peer.connect(sasl=True)
    first = attempt(lambda: pick(connection.call("SaslHandshake", 0, Mechanism="PLAIN"), "ErrorCode"))
    if isinstance(first, str):
        return first
    return [first, _bare(connection, _GOOD), attempt(lambda: pick(connection.call("Metadata", 9), "ControllerId"))]


@probe
def a_bad_bare_token(peer: Peer) -> Answer:
    connection = peer.connect(sasl=True)
    first = attempt(lambda: pick(connection.call("SaslHandshake", 0, Mechanism="PLAIN"), "ErrorCode"))
    return [first, _bare(connection, b"\0alice\0wrong")] if isinstance(first, dict) else first


@probe
def sasl_authenticate_after_a_handshake_of_version_0(peer: Peer) -> Answer:
    connection = peer.connect(sasl=True)
    first = attempt(lambda: pick(connection.call("SaslHandshake", 0, Mechanism="PLAIN"), "ErrorCode"))
    return [first, _authenticated(connection, _GOOD)] if isinstance(first, dict) else first


@probe
def a_handshake_on_the_port_without_logins(peer: Peer) -> Answer:
    connection = peer.connect()
    first = attempt(lambda: connection.call("SaslHandshake", 1, Mechanism="PLAIN"))
    return [first, attempt(lambda: pick(connection.call("SaslAuthenticate", 2, AuthBytes=_GOOD), "ErrorCode"))]


@probe
def a_second_login_on_a_connection(peer: Peer) -> Answer:
    connection = peer.login()
    first = attempt(lambda: pick(connection.call("SaslHandshake", 1, Mechanism="PLAIN"), "ErrorCode"))
    second = _authenticated(connection, _GOOD)
    return [first, second, attempt(lambda: pick(connection.call("Metadata", 9, Topics=[]), "ControllerId"))]


@probe
def a_second_login_as_another(peer: Peer) -> Answer:
    connection = peer.login()
    first = attempt(lambda: pick(connection.call("SaslHandshake", 1, Mechanism="PLAIN"), "ErrorCode"))
    return [first, _authenticated(connection, f"\0admin\0{PASSWORD}".encode())]


@probe
def a_second_login_by_another_mechanism(peer: Peer) -> Answer:
    connection = peer.login()
    return attempt(lambda: pick(connection.call("SaslHandshake", 1, Mechanism="SCRAM-SHA-256"), "ErrorCode"))


@probe
def a_failed_second_login(peer: Peer) -> Answer:
    connection = peer.login()
    connection.call("SaslHandshake", 1, Mechanism="PLAIN")
    authenticated = _authenticated(connection, b"\0alice\0wrong")
    return [authenticated, attempt(lambda: pick(connection.call("Metadata", 9, Topics=[]), "ControllerId"))]


@probe
def authentication_without_a_handshake_after_a_login(peer: Peer) -> Answer:
    return _authenticated(peer.login(), _GOOD)


@probe
def versions_before_a_login(peer: Peer) -> Answer:
    rows = peer.connect(sasl=True).call("ApiVersions", 0)["ApiKeys"]
    return {"SaslAuthenticate": [[row["MinVersion"], row["MaxVersion"]] for row in rows if row["ApiKey"] == 36]}


@probe
def a_frame_of_tls_on_the_port_of_sasl(peer: Peer) -> Answer:
    connection = peer.connect(sasl=True, answer_s=10)
    connection.send_bytes(b"\x16\x03\x01\x00\x20" + b"\0" * 32)
    return attempt(connection.receive_frame)


@probe
def a_large_token(peer: Peer) -> Answer:
    connection = peer.connect(sasl=True, answer_s=10)
    connection.call("SaslHandshake", 1, Mechanism="PLAIN")
    return _authenticated(connection, b"\0alice\0" + b"x" * 100_000)


@probe
def a_frame_beyond_the_limit_before_a_login(peer: Peer) -> Answer:
    connection = peer.connect(sasl=True, answer_s=10)
    connection.send_bytes(struct.pack(">i", 600_000))
    return connection.is_closed()
