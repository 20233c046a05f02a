"""A table in slices: what is written is decided before, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.errors import KafkaError
from odradek.glue_jobs.replay.transform import due_s
from odradek.spark.jobs.files import list_files, read_text, write_text
from odradek.spark.jobs.slices import Slices, check_order, load_slices, numbered, quantile_step, save_slices


def test_slices_cover_all_once_and_go_on_where_they_ended() -> None:
    slices = Slices("w").extended(5, 25, 10)
    assert slices.slices == ((5, 15), (15, 25))
    later = slices.extended(5, 30, 10)
    assert later.slices == ((5, 15), (15, 25), (25, 30))
    assert later.extended(5, 30, 10) == later


def test_what_is_kept_is_found_again_with_its_number(tmp_path: Path) -> None:
    folder = str(tmp_path / "deep" / "checkpoint")
    slices = Slices("w").extended(0, 20, 10).written()
    save_slices(folder, slices)
    again = load_slices(folder, "another")
    assert again == slices
    assert again.next == (10, 20)
    assert numbered({"store": "s"}, again) == {"store": "s", "transactionalId": "w", "batchId": "1"}
    assert again.written().next is None
    write_text(f"{folder}/slices.json", "{")
    with pytest.raises(KafkaError, match="damaged"):
        load_slices(folder, "w")


def test_rows_are_ordered_by_whole_numbers_and_times() -> None:
    types = [("id", "bigint"), ("at", "timestamp"), ("n", "decimal(10,0)"), ("name", "string")]
    assert [check_order(types, name) for name in ("id", "at", "n")] == ["bigint", "timestamp", "bigint"]
    for name in ("name", "nothing"):
        with pytest.raises(KafkaError, match=f"column {name}"):
            check_order(types, name)


def test_a_slice_holds_about_as_many_rows_as_asked() -> None:
    assert quantile_step(0, 1_000, 500, 100) == 200
    assert quantile_step(0, 10, 0, 100) == 1_000
    assert quantile_step(0, 3, 1_000_000, 10) == 1


def test_an_hour_of_events_takes_a_second_at_3600() -> None:
    hour_us = 3_600_000_000
    assert due_s(5 * hour_us, 3 * hour_us, 3600.0) == 2.0
    assert due_s(5 * hour_us, 3 * hour_us, 0.0) == 0.0


def test_files_are_named_by_path_and_by_uri(tmp_path: Path) -> None:
    write_text(f"{tmp_path}/a/b.txt", "x")
    assert read_text((tmp_path / "a/b.txt").as_uri()) == "x"
    assert list_files(str(tmp_path), ".txt") == [f"{tmp_path}/a/b.txt"]
    assert list_files(f"{tmp_path}/nothing", ".txt") == []
    with pytest.raises(FileNotFoundError):
        read_text(f"{tmp_path}/nothing")
