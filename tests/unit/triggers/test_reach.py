"""Targets that triggers may call: the operator's list, and the addresses of URLs."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.model.trigger import Trigger
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock
from odradek.triggers.calls import Call, CallFailed, CallRefused
from odradek.triggers.reach import Reach
from odradek.triggers.targets import Targets
from odradek.triggers.webhooks import WebhookTarget

ON_AWS, EMBEDDED = Reach(), Reach(is_embedded=True)
FUNCTION = "arn:aws:lambda:eu-west-1:123456789012:function:orders"


def trigger(function: str, on_failure: str = "") -> Trigger:
    return Trigger(name="t", topic="orders", function=function, on_failure=on_failure)


@pytest.mark.parametrize(
    ("address", "from_aws", "embedded"),
    [
        ("93.184.216.34", True, True),
        ("2606:2800:220:1::1", True, True),
        ("127.0.0.1", False, True),  # Lambda's runtime API
        ("::1", False, True),
        ("172.16.1.2", False, True),
        ("fd12::1", False, True),
        ("169.254.169.254", False, False),  # credentials of a machine
        ("169.254.170.2", False, False),  # of a container
        ("::ffff:169.254.169.254", False, False),
        ("64:ff9b::a9fe:a9fe", False, False),
        ("2002:a9fe:a9fe::1", False, False),
        ("fe80::1%eth0", False, False),
        ("fd00:ec2::254", False, False),
        ("168.63.129.16", False, False),
        ("100.100.100.200", False, False),
        ("0.0.0.0", False, False),
        ("224.0.0.1", False, False),
    ],
)
def test_a_url_reaches_the_internet_and_no_metadata(address: str, *, from_aws: bool, embedded: bool) -> None:
    assert (ON_AWS.allows_address(address), EMBEDDED.allows_address(address)) == (from_aws, embedded)


def test_an_operator_may_allow_a_network() -> None:
    reach = Reach(networks="172.16.0.0/16; fd00::/8")
    assert reach.allows_address("172.16.1.2")
    assert reach.allows_address("fd12::1")
    assert not reach.allows_address("172.17.0.1")
    assert not reach.allows_address("169.254.169.254")


def test_networks_that_are_none_are_refused_at_the_start() -> None:
    with pytest.raises(KafkaError, match="trigger_networks must be networks like"):
        Settings(trigger_networks="10.0.0.0/8;inside")


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        ("http://example.org/hook", ErrorCode.POLICY_VIOLATION, "use https"),
        ("https://169.254.169.254/latest/meta-data", ErrorCode.POLICY_VIOLATION, "trigger_networks"),
        ("https://[::1]:9001/", ErrorCode.POLICY_VIOLATION, "trigger_networks"),
        ("app:handler", ErrorCode.INVALID_REQUEST, "embedded service only"),
    ],
)
def test_on_aws_a_trigger_is_refused_when_it_is_created(function: str, code: ErrorCode, said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        ON_AWS.check(trigger(function))
    assert refused.value.code is code


def test_what_an_operator_has_not_listed_is_refused() -> None:
    reach = Reach(f"{FUNCTION};https://hooks.example.org/*;sqs:*/failed-*")
    reach.check(trigger(FUNCTION, "sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/failed-orders"))
    reach.check(trigger("https://hooks.example.org/a", "topic:failed"))
    for bad in (trigger(f"{FUNCTION}2"), trigger("https://hooks.example.org.evil.example/"), trigger(FUNCTION, "s3:b")):
        with pytest.raises(KafkaError, match="trigger_targets") as refused:
            reach.check(bad)
        assert refused.value.code is ErrorCode.POLICY_VIOLATION


async def test_a_trigger_of_before_the_list_calls_nothing_any_more() -> None:
    with pytest.raises(CallRefused, match="trigger_targets"):
        await Targets({}, Reach("https://hooks.example.org/*")).call(Call(trigger(FUNCTION), "id", b"{}", 1.0))


def webhook(reach: Reach) -> WebhookTarget:
    return WebhookTarget(ManualClock(), reach, ThreadPoolExecutor(2))


async def test_a_name_is_judged_by_the_address_to_which_the_connection_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it resolves to afterwards, and before: a name that changes between look and call reaches nothing."""
    resolved_hosts: list[str] = []

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        resolved_hosts.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    call = Call(trigger("https://looks-harmless.example/"), "id", b"{}", 5.0)
    with pytest.raises(CallRefused, match=r"169\.254\.169\.254 is not an address of the internet"):
        await webhook(EMBEDDED).call(call)
    assert resolved_hosts == ["looks-harmless.example"]


async def answering(response: bytes, *, rests: bool = False) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        await writer.drain()
        if rests:
            await reader.read()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


def url_of(server: asyncio.Server) -> str:
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?a=b"


@pytest.mark.parametrize(
    ("status", "error"),
    [("429 Too Many Requests", CallRefused), ("500 Oh", CallFailed), ("302 Found", CallFailed)],
)
async def test_an_answer_that_is_no_success(status: str, error: type[Exception]) -> None:
    server = await answering(
        f"HTTP/1.1 {status}\r\nlocation: http://example.org\r\ncontent-length: 2\r\n\r\nno".encode()
    )
    with pytest.raises(CallFailed, match=f"HTTP {status}: no") as failed:
        await webhook(EMBEDDED).call(Call(trigger(url_of(server)), "id", b"{}", 30.0))
    assert type(failed.value) is error
    server.close()


async def test_a_url_that_trickles_ends_with_the_time_of_the_call() -> None:
    server = await answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[", rests=True)
    target = webhook(EMBEDDED)
    with pytest.raises(CallFailed, match=r"no answer within 0\.2 seconds"):
        await target.call(Call(trigger(url_of(server)), "id", b"{}", 0.2))
    await asyncio.to_thread(target._threads.shutdown)  # its thread has ended
    server.close()
