"""The processor time of an append that the validation of each operation takes (adapters/validation.py).

The same appends go through the engine into the embedded store, with the validation and without, in turns; processor
time of the process, of which the least of several rounds counts: on a shared machine time is only ever added. Beside it
the microseconds of one check, by operation.

    python -m bench.engine.validation [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from odradek.adapters.embedded import open_embedded
from odradek.adapters.embedded import table as table_module
from odradek.adapters.validation import check_operation
from odradek.engine.engine import Engine
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition
from odradek.ports.table import Operation
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng
from rich.console import Console
from rich.table import Table

embedded_table: Any = table_module  # its validation is taken out for a while

RESULTS = Path(__file__).parents[1] / "results" / "validation.json"
PRODUCERS = (1, 8)  # in the head, each with batches in turn
CHECKS_A_ROUND = 2_000
ID_CHARACTERS = 32
KINDS = {"i": "an index row", "head": "the head"}


@dataclass
class Share:
    """Processor time of an append, microseconds."""

    producers: int
    with_validation_us: float
    without_us: float

    @property
    def share(self) -> float:
        return self.with_validation_us / self.without_us - 1


@dataclass
class Check:
    """One check of an operation that the appends made."""

    operation: str
    microseconds: float


@contextmanager
def unchecked() -> Iterator[None]:
    """The embedded tables without their validation."""
    kept = embedded_table.check_operation, embedded_table.check_key
    embedded_table.check_operation = embedded_table.check_key = lambda operation: None
    try:
        yield
    finally:
        embedded_table.check_operation, embedded_table.check_key = kept


def batches(producers: int, count: int) -> list[bytes]:
    made = []
    for number in range(count):
        builder = RecordBatchBuilder()
        builder.append(1_700_000_000_000, b"key", b"v" * 100)
        made.append(builder.build(producer_id=number % producers, producer_epoch=0, base_sequence=number // producers))
    return made


async def append_us(producers: int, count: int) -> float:
    """Processor time of one append into a fresh store."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_embedded(Path(folder), synchronous="NORMAL") as store:
            engine = Engine(
                tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=Settings()
            )
            await engine.topics.create("t", 1)
            made = batches(producers, count)
            started = time.process_time()
            for batch in made:
                [result] = await engine.produce([ProducePartition("t", 0, batch)])
                assert not result.error, result.message
            return (time.process_time() - started) / count * 1e6


async def shares(rounds: int, count: int) -> list[Share]:
    shares = []
    for producers in PRODUCERS:
        measured: dict[bool, list[float]] = {True: [], False: []}
        await append_us(producers, count // 4)
        for _ in range(rounds):
            measured[True].append(await append_us(producers, count))
            with unchecked():
                measured[False].append(await append_us(producers, count))
        shares.append(Share(producers, min(measured[True]), min(measured[False])))
    return shares


async def operations_of(producers: int) -> dict[str, Operation]:
    """The operations of an append, the longest of each kind."""
    operations_by_name: dict[str, Operation] = {}

    def note(operation: Operation) -> None:
        item = operation.key[1].split("#")[0]
        item_name = item if item.islower() and len(item) < ID_CHARACTERS else "an upload"
        name = f"{type(operation).__name__} of {KINDS.get(item_name, item_name)}, {producers} producers"
        if name not in operations_by_name or len(repr(operation)) > len(repr(operations_by_name[name])):
            operations_by_name[name] = operation

    kept = embedded_table.check_operation
    embedded_table.check_operation = note
    try:
        await append_us(producers, 200)
    finally:
        embedded_table.check_operation = kept
    return operations_by_name


def check_us(operation: Operation, rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(CHECKS_A_ROUND):
            check_operation(operation)
        best = min(best, (time.process_time() - started) / CHECKS_A_ROUND * 1e6)
    return best


async def measure(rounds: int, count: int) -> tuple[list[Share], list[Check]]:
    checks = []
    for producers in PRODUCERS:
        for name, operation in (await operations_of(producers)).items():
            checks.append(Check(name, check_us(operation, rounds)))
    return await shares(rounds, count), checks


def tables(shares: list[Share], checks: list[Check]) -> list[Table]:
    whole = Table("producers", "with, us", "without, us", "share", title="an append, processor time")
    for share in shares:
        row = (
            str(share.producers),
            f"{share.with_validation_us:.0f}",
            f"{share.without_us:.0f}",
            f"{share.share:+.1%}",
        )
        whole.add_row(*row)
    single = Table("operation", "us", title="one check")
    for check in checks:
        single.add_row(check.operation, f"{check.microseconds:.1f}")
    return [whole, single]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few appends: whether it runs")
    quick = parser.parse_args(argv).quick
    shares, checks = asyncio.run(measure(*((2, 200) if quick else (7, 1_500))))
    for table in tables(shares, checks):
        Console().print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    document: dict[str, Any] = {"append": [asdict(share) for share in shares], "check": [asdict(c) for c in checks]}
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
