"""Arguments of jobs: command line, a YAML file, Glue's parser."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
from odradek.errors import KafkaError
from odradek.glue_jobs.windowed_aggregates.job import Arguments
from odradek.spark.jobs.arguments import parse_arguments, split_list
from odradek.spark.jobs.durations import duration_us

MUST = ["--checkpoint-location", "/c", "--input-topic", "i", "--output-topic", "o", "--value-schema"]
AGGREGATES = "n=count(), p=percentile(delay, 0.95)"


def parse(*argv: str) -> Arguments:
    return parse_arguments(Arguments, argv, prog="windowed_aggregates")


def test_the_command_line_rules_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text(
        "checkpoint-location: /file\ninput_topic: flights\noutput_topic: delays\nvalue_schema: origin STRING\n"
        "aggregates:\n  - n = count()\n  - t = top(delay, 3, origin)\ngroup_by: origin, carrier\nonce: true\n"
        "idle_after_seconds: 5\n"
    )
    arguments = parse("--config", str(config), "--output_topic=other", "--checkpoint-location", "/line")
    assert (arguments.checkpoint_location, arguments.input_topic, arguments.output_topic) == (
        "/line",
        "flights",
        "other",
    )
    assert arguments.aggregates == ("n = count()", "t = top(delay, 3, origin)")
    assert arguments.group_by == ("origin", "carrier")
    assert (arguments.once, arguments.idle_after_seconds, arguments.window) == (True, 5.0, "tumbling")


def test_a_flag_may_stand_alone_and_values_have_types() -> None:
    arguments = parse(*MUST, "a INT", "--aggregates", AGGREGATES, "--once", "--max-offsets-per-trigger", "7")
    assert arguments.once is True
    assert arguments.max_offsets_per_trigger == 7
    assert arguments.aggregates == ("n=count()", "p=percentile(delay, 0.95)")
    assert parse(*MUST, "a INT", "--aggregates", AGGREGATES, "--once", "false").once is False


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--input-topic", "i"], "--checkpoint-location, --output-topic"),
        ([*MUST, "a INT", "--aggregates", "n=count()", "--max-offsets-per-trigger", "many"], "must be a number"),
        ([*MUST, "a INT", "--aggregates", "n=count()", "--once", "perhaps"], "must be true or false"),
        (["--config", "/nowhere/job.yaml"], "cannot read /nowhere/job.yaml"),
    ],
)
def test_what_is_wrong_is_told(argv: list[str], complaint: str) -> None:
    with pytest.raises(KafkaError, match="INVALID_CONFIG") as raised:
        parse(*argv)
    assert complaint in str(raised.value)


def test_a_wrong_file_is_told_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("input_topic: a\ninput_topci: b\n")
    with pytest.raises(KafkaError, match="unknown argument input_topci: did you mean input_topic"):
        parse("--config", str(config))
    config.write_text("input_topic: a\n  b: [\n")
    with pytest.raises(KafkaError, match="at line 2"):
        parse("--config", str(config))


def test_glue_resolves_the_same_arguments_and_brings_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_resolved_options(argv: list[str], names: list[str]) -> dict[str, str]:
        options = dict(zip(argv[1::2], argv[2::2], strict=True))
        return {name: options[f"--{name}"] for name in names}

    utils = types.ModuleType("awsglue.utils")
    utils.getResolvedOptions = get_resolved_options  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "awsglue", types.ModuleType("awsglue"))
    monkeypatch.setitem(sys.modules, "awsglue.utils", utils)
    arguments = parse(
        *["--job-language", "python", "--JOB_NAME", "odradek-dev-windowed_aggregates", "--once", "true"],
        *["--log_table", "l", "--catalog_table", "c", "--bucket", "b", *MUST, "a INT", "--aggregates", AGGREGATES],
    )
    assert arguments.JOB_NAME == "odradek-dev-windowed_aggregates"
    assert arguments.once is True
    store = {"store": "aws", "logTable": "l", "catalogTable": "c", "bucket": "b"}
    assert arguments.sink("t") == {**store, "topic": "t"}
    assert arguments.stream("i") == {
        **store,
        "subscribe": "i",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "200000",
        "columns": "key,value,timestamp",
    }


def test_commas_in_parentheses_do_not_separate() -> None:
    assert split_list("a=f(x, 1), b ,, c='x,y'") == ["a=f(x, 1)", "b", "c='x,y'"]


def test_durations() -> None:
    assert duration_us("1 hour 30 minutes", name="--gap") == 5_400_000_000
    assert duration_us("250 milliseconds", name="--gap") == 250_000
    for wrong in ("", "soon", "5", "-1 hour", "0 seconds", "1 month"):
        with pytest.raises(KafkaError, match="--gap must be a duration"):
            duration_us(wrong, name="--gap")
