"""TLS and logins: who gets in, who does not, and what stays outside."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.local import Listener, ThreadedService
from odradek.protocol.api import ApiKey

from tests.support.kafka import port
from tests.support.kafka.messages import request_frame
from tests.support.kafka.port import Message
from tests.support.kafka.raw import RawConnection

MESSAGES = [Message(b"k", b"secret %d" % i) for i in range(5)]
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def service(certificate: tuple[Path, Path]) -> Iterator[ThreadedService]:
    listener = Listener(port=0, tls_cert=certificate[0], tls_key=certificate[1], sasl=True)
    with port.kafka_service(listener, super_users="User:ada") as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic(f"t-{name}", 1) for name in ("confluent", "python", "aio")])
            admin.create_user("ada", "lovelace, 1815")
            assert admin.list_users() == ["ada"]
        yield service


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_logs_in_over_tls(
    service: ThreadedService, certificate: tuple[Path, Path], mechanism: str
) -> None:
    from confluent_kafka import Producer

    config = {
        "security_protocol": "SASL_SSL",
        "ssl_ca_location": str(certificate[0]),
        "sasl_mechanism": mechanism,
        "sasl_username": "ada",
        "sasl_password": "lovelace, 1815",
    }
    assert len(port.confluent_produce(service.kafka_bootstrap_servers, "t-confluent", MESSAGES, **config)) == 5
    wrong = {name.replace("_", "."): value for name, value in config.items()} | {"sasl.password": "byron"}
    errors: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": service.kafka_bootstrap_servers, "error_cb": errors.append, "log_level": 0, **wrong}
    )
    producer.produce("t-confluent", b"no")
    port.until(lambda: producer.poll(0.05) or errors, what="the login is refused")
    assert errors[0].name() == "_AUTHENTICATION"
    producer.purge()


def test_kafka_python_logs_in_over_tls(service: ThreadedService, certificate: tuple[Path, Path]) -> None:
    config = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(certificate[0]),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ada",
        "sasl_plain_password": "lovelace, 1815",
    }
    port.python_produce(service.kafka_bootstrap_servers, "t-python", MESSAGES, **config)
    assert port.python_consume(service.kafka_bootstrap_servers, "t-python", 5, **config) == MESSAGES


def test_aiokafka_logs_in_over_tls(service: ThreadedService, certificate: tuple[Path, Path]) -> None:
    from aiokafka.helpers import create_ssl_context

    config = {
        "security_protocol": "SASL_SSL",
        "ssl_context": create_ssl_context(cafile=str(certificate[0])),
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "ada",
        "sasl_plain_password": "lovelace, 1815",
    }
    port.aio_produce(service.kafka_bootstrap_servers, "t-aio", MESSAGES, **config)
    assert port.aio_consume(service.kafka_bootstrap_servers, "t-aio", 5, **config) == MESSAGES


@pytest.fixture(scope="module")
def plain_service() -> Iterator[ThreadedService]:
    """Logins without TLS, so that frames can be sent by hand."""
    with port.kafka_service(Listener(port=0, sasl=True, plain_without_tls=True)) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_user("ada", "right")
            admin.create_user("eve", "eves")
        yield service


def handshake(mechanism: str) -> bytes:
    return request_frame(17, 1, len(mechanism).to_bytes(2, "big") + mechanism.encode())


def authenticate(token: bytes) -> bytes:
    return request_frame(36, 0, len(token).to_bytes(4, "big") + token)


def error_of(response: bytes) -> int:
    return int.from_bytes(response[4:6], "big", signed=True)


def test_nothing_but_a_login_is_served_before_one(plain_service: ThreadedService) -> None:
    servers = plain_service.kafka_bootstrap_servers
    with RawConnection(servers) as connection:
        connection.send(request_frame(ApiKey.API_VERSIONS, 0, b""))
        assert error_of(connection.receive()) == 0
        connection.send(request_frame(ApiKey.METADATA, 1, b"\xff\xff\xff\xff"))
        assert connection.is_closed_by_peer()
    with RawConnection(servers) as connection:
        connection.send(authenticate(b"\0ada\0right"))
        assert error_of(connection.receive()) == 34  # ILLEGAL_SASL_STATE: no handshake
        connection.send(handshake("PLAIN"))
        assert connection.is_closed_by_peer()


def test_a_login_with_plain_opens_the_connection_and_keeps_to_its_user(plain_service: ThreadedService) -> None:
    with RawConnection(plain_service.kafka_bootstrap_servers) as connection:
        connection.send(handshake("GSSAPI"))
        assert error_of(connection.receive()) == 33  # UNSUPPORTED_SASL_MECHANISM
        connection.send(handshake("PLAIN"))
        assert error_of(connection.receive()) == 0
        connection.send(authenticate(b"\0ada\0right"))
        assert error_of(connection.receive()) == 0
        connection.send(request_frame(ApiKey.METADATA, 1, b"\xff\xff\xff\xff"))
        assert len(connection.receive()) > 10
        connection.send(handshake("PLAIN"))  # re-authentication, as the same user
        assert error_of(connection.receive()) == 0
        connection.send(authenticate(b"\0ada\0right"))
        assert error_of(connection.receive()) == 0
        connection.send(handshake("PLAIN"))
        connection.receive()
        connection.send(authenticate(b"\0eve\0eves"))
        assert error_of(connection.receive()) == 58  # SASL_AUTHENTICATION_FAILED
        connection.send(request_frame(ApiKey.METADATA, 1, b"\xff\xff\xff\xff"))
        assert connection.is_closed_by_peer()


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("PLAIN", b"\0ada\0wrong"),
        ("PLAIN", b"\0nobody\0right"),
        ("PLAIN", b"\0ada\0"),
        ("PLAIN", b"eve\0ada\0right"),
        ("PLAIN", b"\xff\xfe"),
        ("SCRAM-SHA-256", b"n,,n=ada"),
        ("SCRAM-SHA-512", b"p=tls-unique,,n=ada,r=x"),
        ("SCRAM-SHA-256", b"\x00" * 70_000),
    ],
)
def test_a_login_that_is_wrong_is_told_so_and_ends_the_connection(
    plain_service: ThreadedService, mechanism: str, token: bytes
) -> None:
    with RawConnection(plain_service.kafka_bootstrap_servers) as connection:
        connection.send(handshake(mechanism))
        connection.receive()
        connection.send(authenticate(token))
        assert error_of(connection.receive()) == 58
        connection.send(request_frame(ApiKey.METADATA, 1, b"\xff\xff\xff\xff"))
        assert connection.is_closed_by_peer()


def test_scram_asks_a_name_that_nobody_has_like_any_other(plain_service: ThreadedService) -> None:
    def first_answer(user: str) -> bytes:
        with RawConnection(plain_service.kafka_bootstrap_servers) as connection:
            connection.send(handshake("SCRAM-SHA-256"))
            connection.receive()
            connection.send(authenticate(f"n,,n={user},r=mine".encode()))
            response = connection.receive()
        assert error_of(response) == 0
        return response[response.index(b",s=") :]

    assert first_answer("nobody") == first_answer("nobody")  # as a real one's salt stays the same
    assert len(first_answer("nobody")) == len(first_answer("ada"))


def test_frames_are_small_before_a_login(plain_service: ThreadedService) -> None:
    with RawConnection(plain_service.kafka_bootstrap_servers) as connection:
        connection.send_bytes((1024 * 1024).to_bytes(4, "big"))
        assert connection.is_closed_by_peer()


def test_passwords_are_not_in_the_store(plain_service: ThreadedService) -> None:
    stored = b"".join(path.read_bytes() for path in plain_service.data_dir.rglob("*") if path.is_file())
    assert b"SCRAM-SHA-256" in stored
    assert b"eves" not in stored


def test_users_are_administered_over_the_port_by_super_users_only(
    service: ThreadedService, certificate: tuple[Path, Path]
) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    def client(name: str, password: str) -> Any:
        return AdminClient(
            {
                "bootstrap.servers": service.kafka_bootstrap_servers,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(certificate[0]),
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": name,
                "sasl.password": password,
            }
        )

    wanted = UserScramCredentialUpsertion("grace", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192), b"hopper")
    ada = client("ada", "lovelace, 1815")
    ada.alter_user_scram_credentials([wanted])["grace"].result(10)
    assert set(ada.describe_user_scram_credentials().result(10)) == {"ada", "grace"}
    grace = client("grace", "hopper")
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        grace.alter_user_scram_credentials([wanted])["grace"].result(10)
    with odradek.Admin(**service.client_config) as admin:
        admin.delete_user("grace")
        assert admin.list_users() == ["ada"]
        with pytest.raises(odradek.KafkaError, match="RESOURCE_NOT_FOUND"):
            admin.delete_user("grace")
