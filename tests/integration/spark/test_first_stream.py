"""A first stream that reads nothing says why; one that was told where to begin says nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from odradek.columnar.names import COLUMNS
from odradek.spark.options import parse_options
from odradek.spark.source.data_source import StreamReader

from tests.support.spark.session import LiveLog


@pytest.mark.parametrize(
    ("options", "is_told"),
    [({}, True), ({"startingOffsets": "latest"}, False), ({"startingTimestamp": "0"}, False)],
)
def test_a_stream_that_begins_at_the_end_says_so(
    options: dict[str, str], is_told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LiveLog(tmp_path / "store") as log:
        log.create("t")
        reader = StreamReader(parse_options({**log.options, "subscribe": "t", **options}), COLUMNS[:-1])
        with caplog.at_level(logging.WARNING, logger="odradek.spark"):
            reader.initialOffset()
            assert caplog.messages == [], "there is nothing to leave out"
            reader.stop()
            log.produce("t", 0, [(b"k", b"v")] * 3)
            reader = StreamReader(parse_options({**log.options, "subscribe": "t", **options}), COLUMNS[:-1])
            reader.initialOffset()
            reader.initialOffset()
            reader.stop()
    assert caplog.messages == (
        [
            "startingOffsets is not set, so the new stream begins at the end and skips 3 existing records; "
            "set startingOffsets to earliest to read them"
        ]
        if is_told
        else []
    )
