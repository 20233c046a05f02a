"""The job's arguments: those of every job (test_job_arguments.py), with defaults of its own."""

from __future__ import annotations

from odradek.glue_jobs.flight_delays.job import NAME, Arguments
from odradek.spark.jobs.arguments import parse_arguments
from odradek.spark.jobs.run import reason

MUST = ["--checkpoint-location", "/c", "--output", "/o"]


def test_the_topics_have_defaults_and_the_delays_may_be_left_out() -> None:
    arguments = parse_arguments(
        Arguments, [*MUST, "--store", "embedded:d", "--bootstrap-servers", "http://x"], prog=NAME
    )
    assert (arguments.flights_topic, arguments.max_offsets_per_trigger) == ("flights", 200_000)
    assert arguments.delays_sink() == {"store": "embedded:d", "bootstrapServers": "http://x", "topic": "delays"}

    none = parse_arguments(Arguments, [*MUST, "--delays-topic", "none"], prog=NAME)
    assert none.delays_sink() is None


def test_on_aws_it_reads_the_deployed_store_from_the_beginning() -> None:
    argv = [*MUST, "--log_table", "l", "--catalog_table", "c", "--bucket", "b"]
    assert parse_arguments(Arguments, argv, prog=NAME).source("flights") == {
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
