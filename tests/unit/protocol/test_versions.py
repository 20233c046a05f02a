"""Which versions of which API are served and advertised."""

from __future__ import annotations

import pytest
from kio.schema.index import api_key_map, schema_name_map
from odradek.protocol.api import OWNED, TCP_ONLY, ApiKey
from odradek.protocol.versions import SUPPORTED_VERSIONS, advertised, is_supported


@pytest.mark.parametrize("api_key", SUPPORTED_VERSIONS)
def test_every_version_of_the_range_has_a_schema(api_key: ApiKey) -> None:
    low, high = SUPPORTED_VERSIONS[api_key]
    assert set(range(low, high + 1)) <= set(schema_name_map[api_key_map[api_key]])


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(0, 10), (1, 16), (0, 9), (1, 12), (0, 7), (1, 11)],
    ids=[
        "librdkafka produce",
        "librdkafka fetch",
        "kafka-python produce",
        "kafka-python fetch",
        "aiokafka produce",
        "aiokafka fetch",
    ],
)
def test_stock_clients_find_their_versions(api_key: int, version: int) -> None:
    assert is_supported(api_key, version)


def test_produce_is_advertised_from_0_for_librdkafka_but_served_from_3() -> None:
    assert advertised([ApiKey.PRODUCE]) == [(ApiKey.PRODUCE, 0, 13)]
    assert not is_supported(ApiKey.PRODUCE, 2)


def test_every_served_api_has_an_owner() -> None:
    owned = frozenset().union(*OWNED.values(), TCP_ONLY)
    assert set(SUPPORTED_VERSIONS) - {ApiKey.API_VERSIONS} <= owned
