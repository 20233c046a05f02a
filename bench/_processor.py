"""CPU of a process: its own, that of all below it, and of those that have ended, from /proc.

tasks       Java's threads, without those below
compiling   Java's compilers of bytecode
collecting  Java's garbage collector
python      all other processes
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PARTS = ("tasks", "compiling", "collecting", "python")
_COMPILERS = ("C1 Compiler", "C2 Compiler")
_COLLECTORS = ("G1 ", "GC Thread", "VM Thread", "VM Periodic")


def parts_s(pid: int) -> dict[str, float]:
    """Return CPU seconds by part."""
    processes = {
        int(folder.name): (name, fields) for folder in Path("/proc").glob("[0-9]*") for name, fields in _stat(folder)
    }
    ours = {pid}
    while more := {child for child, (_, fields) in processes.items() if int(fields[1]) in ours} - ours:
        ours |= more
    ticks: Counter[str] = Counter(dict.fromkeys(PARTS, 0))
    for process in ours & processes.keys():
        name, fields = processes[process]
        own, ended = _ticks(fields), sum(map(int, fields[13:15]))
        ticks["python"] += ended  # children of Java, too
        if name == "java":
            special = _special(process)
            ticks.update(special)
            ticks["tasks"] += own - special.total()
        else:
            ticks["python"] += own
    return {part: ticks[part] / os.sysconf("SC_CLK_TCK") for part in PARTS}


def _special(pid: int) -> Counter[str]:
    """Return the ticks of a JVM's compilers and collectors."""
    ticks: Counter[str] = Counter()
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        for name, fields in _stat(folder):
            if name.startswith(_COMPILERS):
                ticks["compiling"] += _ticks(fields)
            elif name.startswith(_COLLECTORS):
                ticks["collecting"] += _ticks(fields)
    return ticks


def _ticks(fields: list[str]) -> int:
    """Return the ticks of a process or thread itself, in user mode and in the kernel."""
    return sum(map(int, fields[11:13]))


def _stat(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of a process or thread, and the fields after it; nothing if it has ended."""
    try:
        start, _, fields = (folder / "stat").read_text().rpartition(")")
    except OSError:
        return
    yield start.partition("(")[2], fields.split()
