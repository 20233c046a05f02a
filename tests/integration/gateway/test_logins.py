"""Logins: passwords in the clear, certificates of clients, how long a login lasts, and what SCRAM must not let pass."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.gateway.sasl import LOGIN_FRAME_BYTES_MAX
from odradek.gateway.server import principal_of
from odradek.local import Listener, ThreadedService
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.protocol.api import ApiKey

from tests.support.kafka import port
from tests.support.kafka.messages import request_frame
from tests.support.kafka.port import Message
from tests.support.kafka.raw import RawConnection

METADATA = request_frame(ApiKey.METADATA, 1, b"\xff\xff\xff\xff")
CLEAR = Listener(port=0, sasl=True, plain_without_tls=True)


def handshake(connection: RawConnection, mechanism: str, version: int = 1) -> bytes:
    connection.send(request_frame(17, version, len(mechanism).to_bytes(2, "big") + mechanism.encode()))
    return connection.receive()


def authenticate(connection: RawConnection, token: bytes, version: int = 0) -> tuple[int, bytes]:
    """The error and the rest of the answer."""
    connection.send(request_frame(36, version, len(token).to_bytes(4, "big") + token))
    response = connection.receive()
    return int.from_bytes(response[4:6], "big"), response[6:]


# --- PLAIN ------------------------------------------------------------------------------------------------------------


def test_a_password_does_not_cross_the_network_in_the_clear_unless_asked_for() -> None:
    with port.kafka_service(Listener(port=0, sasl=True)) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_user("ann", "secret")
            admin.create_topics([odradek.NewTopic("t", 1)])
        with RawConnection(service.kafka_bootstrap_servers) as connection:
            response = handshake(connection, "PLAIN")
            assert int.from_bytes(response[4:6], "big") == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert b"PLAIN" not in response
            assert b"SCRAM-SHA-256" in response
            assert authenticate(connection, b"\0ann\0secret")[0] == ErrorCode.ILLEGAL_SASL_STATE
        config = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "ann", "sasl_password": "secret"}
        sent = port.confluent_produce(
            service.kafka_bootstrap_servers, "t", [Message(b"k", b"v")], sasl_mechanism="SCRAM-SHA-256", **config
        )
        assert sent == [0]


def test_a_registry_that_others_reach_takes_no_passwords_in_the_clear() -> None:
    with pytest.raises(KafkaError, match="in the clear"):
        odradek.local(registry=Listener("0.0.0.0", 0, sasl=True))
    with odradek.local(registry=Listener("0.0.0.0", 0, sasl=True, plain_without_tls=True)) as service:
        assert service.registry_url
    with odradek.local(registry=Listener("127.0.0.1", 0, sasl=True)) as service:
        assert service.registry_url


# --- certificates of clients ------------------------------------------------------------------------------------------


def run(folder: Path, *command: str) -> None:
    subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with authorities `ca` and `other`, and certificates of them: server, ann (ca), eve (other)."""
    folder = tmp_path_factory.mktemp("certificates")
    for authority in ("ca", "other"):
        run(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={authority}",
            "-keyout", f"{authority}.key", "-out", f"{authority}.pem")  # fmt: skip
    for name, authority, subject in (
        ("server", "ca", "/CN=127.0.0.1"),
        ("ann", "ca", "/O=Shop, Ltd/OU=Sales/CN=ann"),
        ("bob", "ca", "/CN=bob"),
        ("eve", "other", "/O=Shop, Ltd/OU=Sales/CN=ann"),
    ):
        (folder / "names.txt").write_text("subjectAltName=IP:127.0.0.1\n")
        run(
            folder,
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            subject,
            "-keyout",
            f"{name}.key",
            "-out",
            "request",
        )
        run(folder, "x509", "-req", "-in", "request", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names.txt", "-out", f"{name}.pem")  # fmt: skip
    return folder


def test_a_certificate_says_who_a_client_is(certificates: Path) -> None:
    listener = Listener(
        port=0,
        tls_cert=certificates / "server.pem",
        tls_key=certificates / "server.key",
        tls_client_ca=certificates / "ca.pem",
    )
    ann = "User:CN=ann,OU=Sales,O=Shop\\, Ltd"
    with odradek.local(kafka=listener, registry=listener) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
            admin.create_acls(
                [
                    AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, ann, "*", operation, AclPermission.ALLOW)
                    for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
                ]
            )

        def config(name: str) -> dict[str, Any]:
            return {
                "security_protocol": "SSL",
                "ssl_ca_location": str(certificates / "ca.pem"),
                "ssl_certificate_location": str(certificates / f"{name}.pem"),
                "ssl_key_location": str(certificates / f"{name}.key"),
            }

        servers = service.kafka_bootstrap_servers
        assert port.confluent_produce(servers, "t", [Message(b"k", b"v")], **config("ann")) == [0]
        assert _error(servers, config("bob")) == "TOPIC_AUTHORIZATION_FAILED"
        assert _error(servers, config("eve")) in ("_SSL", "_TRANSPORT", "_ALL_BROKERS_DOWN")

        def register(name: str) -> int:
            context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
            context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
            url = f"{service.registry_url}/subjects/t-value/versions"
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(url, json.dumps({"schema": '"string"'}).encode(), headers)
            try:
                with urllib.request.urlopen(request, timeout=20, context=context) as response:
                    return int(response.status)
            except urllib.error.HTTPError as error:
                return error.code

        assert register("ann") == 200
        assert register("bob") == 403
        with pytest.raises((urllib.error.URLError, OSError)):
            register("eve")


def _error(servers: str, config: dict[str, Any]) -> str:
    """Return a producer's error."""
    from confluent_kafka import Producer

    said: list[str] = []
    dotted = {name.replace("_", "."): value for name, value in config.items()}
    producer = Producer(
        {"bootstrap.servers": servers, "log_level": 0, "error_cb": lambda error: said.append(error.name()), **dotted}
    )
    producer.produce("t", b"x", on_delivery=lambda error, _: said.append("NONE" if error is None else error.name()))
    port.until(lambda: producer.poll(0.05) or said, what="the producer is told")
    producer.purge()
    return said[0]


@pytest.mark.parametrize(
    ("subject", "principal"),
    [
        ((), "User:ANONYMOUS"),
        (((("countryName", "DE"),), (("commonName", "a+b"),)), "User:CN=a\\+b,C=DE"),
        (((("commonName", "#x "),),), "User:CN=\\#x\\ "),
        (((("commonName", "a"), ("userId", "7")),), "User:CN=a+UID=7"),
    ],
)
def test_a_subject_is_written_as_kafka_writes_it(subject: Any, principal: str) -> None:
    assert principal_of({"subject": subject}) == principal


# --- SaslHandshake 0: bare tokens -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clear_service() -> Iterator[ThreadedService]:
    with port.kafka_service(CLEAR) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_user("ann", "secret")
            admin.create_user("bob", "bobs")
        yield service


@pytest.fixture
def bare(clear_service: ThreadedService) -> Iterator[RawConnection]:
    with RawConnection(clear_service.kafka_bootstrap_servers) as connection:
        yield connection


def bare_handshake(connection: RawConnection, mechanism: str) -> None:
    assert int.from_bytes(handshake(connection, mechanism, version=0)[4:6], "big") == 0


def test_old_librdkafka_finds_version_0_of_the_handshake(bare: RawConnection) -> None:
    bare.send(request_frame(ApiKey.API_VERSIONS, 0, b""))
    response = bare.receive()
    entries = (response[at : at + 6] for at in range(10, len(response) - 5, 6))
    assert (ApiKey.SASL_HANDSHAKE).to_bytes(2, "big") + b"\0\0\0\1" in entries


def test_a_plain_login_in_bare_tokens_opens_the_connection_and_may_be_renewed(bare: RawConnection) -> None:
    for _ in range(2):
        bare_handshake(bare, "PLAIN")
        bare.send(b"\0ann\0secret")
        assert bare.receive() == b""
        bare.send(METADATA)
        assert len(bare.receive()) > 10
    bare_handshake(bare, "PLAIN")
    bare.send(b"\0bob\0bobs")  # a connection keeps its user
    assert bare.is_closed_by_peer()


def test_a_scram_login_in_bare_tokens(bare: RawConnection) -> None:
    bare_handshake(bare, "SCRAM-SHA-256")
    bare.send(b"n,,n=ann,r=mine")
    bare.send(client_final("n=ann,r=mine", bare.receive().decode(), "secret"))
    assert bare.receive().startswith(b"v=")
    bare.send(METADATA)
    assert len(bare.receive()) > 10


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("PLAIN", b"\0ann\0wrong"),
        ("PLAIN", b"\0\0\0"),  # begins as a Produce request does
        ("PLAIN", b""),
        ("PLAIN", request_frame(36, 0, b"\0\0\0\x0b\0ann\0secret")),  # a token with a header is no bare token
        ("SCRAM-SHA-256", b"n,,n=ann"),
        ("SCRAM-SHA-256", b"\xff\xff"),
    ],
)
def test_a_failed_login_in_bare_tokens_ends_the_connection_unanswered(
    bare: RawConnection, caplog: pytest.LogCaptureFixture, mechanism: str, token: bytes
) -> None:
    bare_handshake(bare, mechanism)
    bare.send(token)
    bare.send(METADATA)
    assert bare.is_closed_by_peer()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "odradek.gateway.sasl"]
    assert line.startswith(f"a {mechanism} login from /127.0.0.1 failed: ")
    assert "secret" not in line


def test_a_bare_token_is_no_longer_than_a_login_may_be(bare: RawConnection) -> None:
    bare_handshake(bare, "PLAIN")
    bare.send_bytes((LOGIN_FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert bare.is_closed_by_peer()


def test_a_handshake_0_with_an_unknown_mechanism_waits_for_another_one(bare: RawConnection) -> None:
    assert int.from_bytes(handshake(bare, "GSSAPI", version=0)[4:6], "big") == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    handshake(bare, "PLAIN")
    assert authenticate(bare, b"\0ann\0secret")[0] == 0


def test_the_nonce_of_old_librdkafka_is_refused_by_name(bare: RawConnection, caplog: pytest.LogCaptureFixture) -> None:
    handshake(bare, "SCRAM-SHA-256")
    _, token = authenticate(bare, b"n,,n=ann,r=mine")
    challenge = token[token.index(b"r=") :].decode()
    error, token = authenticate(bare, client_final("n=ann,r=mine", challenge, "secret", nonce_prefix="mine"))
    assert error == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert b"librdkafka before 2.6.1" in token
    assert "librdkafka before 2.6.1" in caplog.text


# --- how long a login lasts (KIP-368) ---------------------------------------------------------------------------------


def test_a_login_ends_where_it_is_told_so_and_may_be_renewed() -> None:
    with port.kafka_service(CLEAR, connections_max_reauth_ms=2_000) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_user("ann", "secret")
            admin.create_topics([odradek.NewTopic("t", 1)])
        with (
            RawConnection(service.kafka_bootstrap_servers) as stays,
            RawConnection(service.kafka_bootstrap_servers) as ends,
        ):
            for connection in (stays, ends):
                handshake(connection, "PLAIN")
                error, token = authenticate(connection, b"\0ann\0secret", version=1)
                assert (error, int.from_bytes(token[-8:], "big")) == (0, 2_000)
            time.sleep(1.2)
            handshake(stays, "PLAIN")
            assert authenticate(stays, b"\0ann\0secret", version=1)[0] == 0
            time.sleep(1.2)
            stays.send(METADATA)
            assert len(stays.receive()) > 10
            ends.send(METADATA)
            assert ends.is_closed_by_peer()
        # A stock client renews its login by itself, and loses nothing.
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": service.kafka_bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "ann",
                "sasl.password": "secret",
            }
        )
        offsets: list[int] = []
        for i in range(40):
            producer.produce("t", b"%d" % i, on_delivery=lambda error, message: offsets.append(message.offset()))
            producer.poll(0)
            time.sleep(0.1)
        assert producer.flush(30) == 0
        assert offsets == list(range(40))


# --- SCRAM ------------------------------------------------------------------------------------------------------------


def scram(connection: RawConnection, user: str, password: str, *, first: str = "n,,", repeated: str = "n,,") -> int:
    """Log in; the error of the last answer. `repeated` is what the last message says that the first one began with."""
    handshake(connection, "SCRAM-SHA-256")
    bare = f"n={user},r=mine"
    error, token = authenticate(connection, f"{first}{bare}".encode())
    assert error == 0
    challenge = token[token.index(b"r=") :].decode()
    return authenticate(connection, client_final(bare, challenge, password, repeated=repeated))[0]


def client_final(bare: str, challenge: str, password: str, *, repeated: str = "n,,", nonce_prefix: str = "") -> bytes:
    """The last message of a client, which proves the password."""
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    last = f"c={base64.b64encode(repeated.encode()).decode()},r={nonce_prefix}{fields['r']}"
    signature = hmac.digest(hashlib.sha256(client_key).digest(), f"{bare},{challenge},{last}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    return f"{last},p={proof}".encode()


@pytest.mark.parametrize(
    ("first", "repeated", "error"),
    [
        ("n,,", "n,,", 0),
        ("y,,", "y,,", 0),
        ("n,a=ann,", "n,a=ann,", 0),
        ("y,,", "n,,", 58),  # somebody between took the server's channel binding off its list
        ("n,,", "y,,", 58),
        ("n,,", "n,a=bob,", 58),
        ("n,,", "n,", 58),
        ("n,,", "n,,x", 58),
    ],
)
def test_the_last_message_repeats_how_the_first_one_began(first: str, repeated: str, error: int) -> None:
    with port.kafka_service(CLEAR) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_user("ann", "secret")
        with RawConnection(service.kafka_bootstrap_servers) as connection:
            assert scram(connection, "ann", "secret", first=first, repeated=repeated) == error


def test_a_name_that_nobody_has_keeps_its_salt_over_restarts(tmp_path: Path) -> None:
    """Otherwise two attempts, before and after, tell who exists; so does another gateway of the same store."""

    def salts() -> list[bytes]:
        salts_sent = []
        with odradek.local(tmp_path, kafka=CLEAR) as service:
            with odradek.Admin(**service.client_config) as admin:
                admin.create_user("ann", "secret") if "ann" not in admin.list_users() else None
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                for user in ("nobody", "ann"):
                    with RawConnection(service.kafka_bootstrap_servers) as connection:
                        handshake(connection, mechanism)
                        _, token = authenticate(connection, f"n,,n={user},r=mine".encode())
                        salts_sent.append(token[token.index(b",s=") :])
        return salts_sent

    before = salts()
    assert salts() == before
    assert len(set(before)) == 4
