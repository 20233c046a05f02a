"""Child processes that end with their parent, whatever ended that: also SIGKILL, or a terminal that closed.

    parent ──holds the one write end of a pipe── read end ── child: reads until the end, then SIGTERM to itself

The operating system closes the write end when the parent is gone. The variable names the read end's number; a child
takes it out of its environment, so that its own children do not look for it. A child has a session of its own: Ctrl-C
at the terminal reaches the parent alone, which ends its children in order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import weakref
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

_VARIABLE = "ODRADEK_PARENT"
_GRACE_S = 60.0  # to end in order


def start_child(command: Sequence[str], environment: Mapping[str, str], **options: Any) -> subprocess.Popen[Any]:
    """Start a process that ends with this one, and at the latest when its Popen is forgotten.

    Args:
        command: of a program that calls `end_with_parent`.
        environment: all of it.
        options: of Popen.
    """
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            command, env={**environment, _VARIABLE: str(read)}, pass_fds=(read,), start_new_session=True, **options
        )
    except BaseException:
        os.close(write)
        raise
    finally:
        os.close(read)
    weakref.finalize(process, os.close, write)
    return process


def end_with_parent(environment: MutableMapping[str, str]) -> None:
    """Let this process end in order when the parent that `start_child` started it in is gone; killed if it takes long.

    Args:
        environment: of this process; the variable is taken out of it.
    """
    number = environment.pop(_VARIABLE, "")
    if not number.isdigit():
        return
    read = int(number)
    with suppress(OSError):  # the variable was inherited, but not the pipe
        os.set_inheritable(read, False)
        threading.Thread(target=_follow, args=(read,), name="parent", daemon=True).start()


def _follow(read: int) -> None:
    with suppress(OSError):
        while os.read(read, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_GRACE_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)  # with its JVM
