"""The address of a running service: kept in its folder, and gone when it stops."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.local.address import client_config, load_address, remove_address, save_address
from odradek.local.credentials import load_or_create_credentials

ADDRESS = "http://127.0.0.1:9393"


def test_clients_of_a_folder_get_address_and_credentials(tmp_path: Path) -> None:
    credentials = load_or_create_credentials(tmp_path)
    save_address(tmp_path, ADDRESS)

    assert client_config(tmp_path) == {
        "bootstrap_servers": ADDRESS,
        "aws_access_key_id": credentials.access_key_id,
        "aws_secret_access_key": credentials.secret_access_key,
        "aws_region": credentials.region,
    }


def test_without_a_service_the_error_says_how_to_start_one(tmp_path: Path) -> None:
    load_or_create_credentials(tmp_path)
    save_address(tmp_path, ADDRESS)
    remove_address(tmp_path)

    with pytest.raises(KafkaError, match="odradek local --data-dir") as refused:
        client_config(tmp_path)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"bootstrap_servers": 1}'])
def test_a_damaged_file_is_no_address(tmp_path: Path, content: str) -> None:
    (tmp_path / "address.json").write_text(content)
    assert load_address(tmp_path) is None
