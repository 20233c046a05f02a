"""A killed process loses no answered write, and leaves no half of one.

A child process writes with many tasks and reports each answer on its standard output; it is killed in mid-stream. Every
reported write must be there afterwards. What is there beyond the reports was under way: it may, but whole.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.adapters.embedded import open_embedded
from odradek.ports.table import Key

ROUNDS = 3
ANSWERS = 150  # read before the kill

CHILD = """
import asyncio, os, sys
from odradek.adapters.embedded import open_embedded
from odradek.ports.table import Add, Key, Put, Set, Update

async def main(data_dir, round_number, synchronous):
    store = open_embedded(data_dir, synchronous=synchronous)

    async def writer(number):
        for count in range(1_000_000):
            name = f"{round_number}-{number}-{count}"
            head = Key(f"t#{number % 3}", "head")
            await store.objects.put(f"wal/{number % 3}/{name}", [name.encode() * 50])
            await store.log.transact([
                Update(head, (Add(("next_offset",), 1), Set(("entries", name), True))),
                Put(Key(head.pk, f"e#{name}"), {"name": name}),
            ])
            os.write(1, (name + "\\n").encode())

    for partition in range(3):
        key = Key(f"t#{partition}", "head")
        if await store.log.get(key) is None:
            await store.log.put(Put(key, {"next_offset": 0, "entries": {}}))
    await asyncio.gather(*(writer(number) for number in range(12)))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
async def test_a_killed_process_loses_no_answered_write(tmp_path: Path, synchronous: str) -> None:
    answered: list[str] = []
    for number in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(number), synchronous], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(ANSWERS)]
        child.send_signal(signal.SIGKILL)
        output, _ = child.communicate()
        assert child.returncode == -signal.SIGKILL
        answered += [line.strip() for line in [*lines, *output.splitlines()] if line.strip()]
    assert len(answered) >= ROUNDS * ANSWERS
    await _check(tmp_path, answered)


async def _check(data_dir: Path, answered: list[str]) -> None:
    async with open_embedded(data_dir) as store:
        entries: set[str] = set()
        for partition in range(3):
            head = await store.log.get(Key(f"t#{partition}", "head"))
            assert head is not None
            rows = await store.log.query(f"t#{partition}", sk_from="e#", sk_to="e$")
            assert set(head["entries"]) == {row.item["name"] for row in rows}, "a transaction was applied by half"  # type: ignore[arg-type]
            assert head["next_offset"] == len(rows)
            entries |= set(head["entries"])  # type: ignore[arg-type]
        assert set(answered) <= entries, "an answered write is lost"
        objects = {info.key.rpartition("/")[2] for info in await store.objects.list("wal/")}
        assert entries <= objects
        for info in await store.objects.list("wal/"):
            name = info.key.rpartition("/")[2]
            assert info.size_bytes == 50 * len(name), "an object was written by half"
        newest = answered[-1]
        assert await store.objects.get(f"wal/{int(newest.split('-')[1]) % 3}/{newest}") == newest.encode() * 50
