"""ask: prints the current charts, read from their topic without Spark.

python -m odradek.glue_jobs.top_charts.ask --store embedded:.odradek --topic charts --name all
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.errors import OdradekError
from odradek.glue_jobs.top_charts.transform import Ranked, latest_charts
from odradek.spark.jobs.arguments import StoreArguments, parse_arguments
from odradek.spark.options import parse_options
from odradek.spark.source.log_view import LogView
from odradek.spark.source.plan import ReadRange
from odradek.spark.source.read import read

NAME = "top_charts.ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StoreArguments):
    """See the module."""

    topic: str
    name: str = ""  # of a chart; empty: all of them


def charts_now(options: Mapping[str, str]) -> dict[str, Ranked]:
    """Return the latest value of each chart; options of the source. Raises KafkaError."""
    parsed = parse_options(options)
    values: list[bytes] = []
    with LogView(parsed.store) as view:
        ids = view.partitions(parsed.subscription)
        for tp, bounds in view.bounds(ids).items():
            start, end = bounds.log_start_offset, bounds.next_offset
            partition = ids[tp]
            pieces = tuple(view.pieces(partition, start, end))
            wanted = ReadRange(tp.topic, partition.topic_id, tp.partition, start, end, pieces)
            for batch in read(wanted, ["value"], view):
                values += [bytes(value) for value in batch.column(0).to_pylist() if value is not None]
    return latest_charts(values)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the charts as JSON, one per line; after an error print one line and return 1."""
    try:
        arguments = parse_arguments(Arguments, sys.argv[1:] if argv is None else argv, prog=NAME)
        charts = charts_now(arguments.source(arguments.topic))
    except OdradekError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    for chart, top in sorted(charts.items()):
        if arguments.name in ("", chart):
            print(json.dumps({"chart": chart, "top": [{"item": item, "plays": plays} for item, plays in top]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
