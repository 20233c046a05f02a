"""The job's arguments: one file here and on Glue."""

from __future__ import annotations

import sys
import types

import pytest

from glue_jobs.flight_delays.job import parse_arguments, reason

MUST = ["--checkpoint-location", "/c", "--output", "/o"]


def test_dashes_and_underscores_are_the_same() -> None:
    here = parse_arguments([*MUST, "--store", "embedded:d", "--max-offsets-per-trigger=5", "--JOB_NAME", "j-1"])
    underscored = "--checkpoint_location=/c --output=/o --store=embedded:d --max_offsets_per_trigger 5 --JOB_NAME j-1"
    there = parse_arguments(underscored.split())
    assert here == there
    assert (here.checkpoint_location, here.max_offsets_per_trigger, here.JOB_NAME) == ("/c", "5", "j-1")


def test_a_typing_mistake_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments([*MUST, "--watermerk", "1 day"])
    assert "--watermerk" in capsys.readouterr().err


def test_glue_resolves_the_same_arguments_and_brings_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_resolved_options(argv: list[str], names: list[str]) -> dict[str, str]:
        # As awsglue's: every name must be there, what else is there does not matter.
        given = dict(zip(argv[1::2], argv[2::2], strict=True))
        return {name: given[f"--{name}"] for name in names}

    utils = types.ModuleType("awsglue.utils")
    utils.getResolvedOptions = get_resolved_options  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "awsglue", types.ModuleType("awsglue"))
    monkeypatch.setitem(sys.modules, "awsglue.utils", utils)
    arguments = parse_arguments(
        [
            *["--job-language", "python", "--enable-metrics", "true", "--JOB_NAME", "odradek-dev-flight_delays"],
            *["--log_table", "l", "--catalog_table", "c", "--bucket", "b"],
            *MUST,
        ]
    )
    assert arguments.JOB_NAME == "odradek-dev-flight_delays"
    assert arguments.source("flights") == {
        "store": "aws",
        "logTable": "l",
        "catalogTable": "c",
        "bucket": "b",
        "subscribe": "flights",
        "startingOffsets": "earliest",
    }


def test_the_reason_of_a_failure_is_one_line() -> None:
    wrapped = Exception(
        '[STREAM_FAILED] Query [id = 1] terminated with exception:\n  File "x.py", line 1\n'
        "odradek.errors.KafkaError: INVALID_CONFIG: option store must be embedded:<data dir> or aws\n\tat java.lang"
    )
    assert reason(wrapped) == "INVALID_CONFIG: option store must be embedded:<data dir> or aws"
    assert reason(Exception("first\nsecond")) == "first"
