"""A function's reading of its environment, and its errors where something is missing."""

from __future__ import annotations

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.functions.environment import (
    HANDLERS,
    REQUIRED,
    Environment,
    format_function_urls,
    parse_function_urls,
)
from odradek.protocol.api import FunctionName

FULL = {name: name.lower() for name in REQUIRED}


def test_reads_all() -> None:
    urls = {FunctionName.PRODUCE: "https://p.example/", FunctionName.FETCH: "https://f.example/?a=b"}
    environment = Environment.from_env({**FULL, "ODRADEK_FUNCTION_URLS": format_function_urls(urls)})
    assert environment.bucket == "odradek_bucket"
    assert environment.function_urls == urls
    assert environment.endpoint_url is None


def test_names_everything_that_is_missing_at_once() -> None:
    with pytest.raises(KafkaError) as missing:
        Environment.from_env({"AWS_REGION": "eu-west-1", "ODRADEK_LOG_TABLE": ""})
    assert missing.value.code is ErrorCode.INVALID_CONFIG
    for name in ("ODRADEK_LOG_TABLE", "ODRADEK_GROUPS_TABLE", "ODRADEK_CATALOG_TABLE", "ODRADEK_BUCKET"):
        assert name in missing.value.message


@pytest.mark.parametrize("text", ["produce", "produce=", "consume=https://x", "produce=https://x,fetch"])
def test_refuses_malformed_function_urls(text: str) -> None:
    with pytest.raises(KafkaError, match="ODRADEK_FUNCTION_URLS"):
        parse_function_urls(text)


def test_every_function_has_a_handler_string() -> None:
    assert set(HANDLERS) == {name.value for name in FunctionName} | {
        "maintenance",
        "maintainer",
        "registry",
        "tables",
        "triggers",
        "trigger-dispatcher",
    }
