"""The key of a data directory: made once, its owner's alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.errors import KafkaError
from odradek.local.credentials import load_credentials, load_or_create_credentials


def test_made_once_and_readable_by_the_owner_only(tmp_path: Path) -> None:
    made = load_or_create_credentials(tmp_path)
    assert (tmp_path / "credentials.json").stat().st_mode & 0o777 == 0o600
    assert len(made.secret_access_key) >= 40
    assert load_or_create_credentials(tmp_path) == made == load_credentials(tmp_path)


def test_two_directories_have_two_keys(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a, b = load_or_create_credentials(tmp_path / "a"), load_or_create_credentials(tmp_path / "b")
    assert a.access_key_id != b.access_key_id
    assert a.secret_access_key != b.secret_access_key


def test_the_secret_is_not_in_the_repr(tmp_path: Path) -> None:
    made = load_or_create_credentials(tmp_path)
    assert made.secret_access_key not in repr(made)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"access_key_id": "x"}', '{"nonsense": 1}'])
def test_a_broken_file_is_a_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "credentials.json").write_text(content)
    with pytest.raises(KafkaError, match=r"credentials\.json"):
        load_or_create_credentials(tmp_path)


def test_no_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match="data directory"):
        load_credentials(tmp_path)
