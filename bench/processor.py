"""Where the CPU of a process goes: it, all below it, and those of them that have ended, from /proc.

tasks       Java's threads, without those below
compiling   Java's compilers of bytecode
collecting  Java's garbage collector
python      all other processes
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

PARTS = ("tasks", "compiling", "collecting", "python")
_COMPILERS = ("C1 Compiler", "C2 Compiler")
_COLLECTORS = ("G1 ", "GC Thread", "VM Thread", "VM Periodic")


def parts_s(pid: int) -> dict[str, float]:
    """Return CPU seconds by part."""
    parents: dict[int, tuple[int, str, int, int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if (found := _stat(folder)) is not None:
            name, fields = found
            parents[int(folder.name)] = int(fields[1]), name, *(sum(map(int, fields[n : n + 2])) for n in (11, 13))  # type: ignore[assignment]
    ours = {pid}
    while more := {each for each, (parent, *_) in parents.items() if parent in ours} - ours:
        ours |= more
    ticks: Counter[str] = Counter(dict.fromkeys(PARTS, 0))
    for each in ours & parents.keys():
        _, name, own, ended = parents[each]
        ticks["python"] += ended  # children of Java, too
        if name == "java":
            special = _special(each)
            ticks.update(special)
            ticks["tasks"] += own - special.total()
        else:
            ticks["python"] += own
    return {part: ticks[part] / os.sysconf("SC_CLK_TCK") for part in PARTS}


def _special(pid: int) -> Counter[str]:
    """Return the ticks of a JVM's compilers and collectors."""
    ticks: Counter[str] = Counter()
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        if (found := _stat(folder)) is not None:
            name, fields = found
            part = "compiling" if name.startswith(_COMPILERS) else "collecting" if name.startswith(_COLLECTORS) else ""
            if part:
                ticks[part] += sum(map(int, fields[11:13]))
    return ticks


def _stat(folder: Path) -> tuple[str, list[str]] | None:
    """Return the name of a process or thread, and the fields after it; None if it has ended."""
    try:
        start, _, rest = (folder / "stat").read_text().rpartition(")")
    except OSError:
        return None
    return start.partition("(")[2], rest.split()
