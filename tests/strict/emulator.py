"""dynoxide, an emulator of DynamoDB that refuses what DynamoDB refuses: for development only, never shipped.

.strict/bin/dynoxide    made by `cargo install` in this folder, once a version
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".strict"
VERSION = "3.2.0"
_READY_S = 30.0


class CannotRun(Exception):
    """The message says why the emulator cannot run here."""


def installed() -> Path:
    """The program, made if it is not there in this version. Raises CannotRun."""
    program, made_before = FOLDER / "bin" / "dynoxide", FOLDER / ".crates.toml"
    if program.is_file() and f"dynoxide-rs {VERSION} " in made_before.read_text():
        return program
    cargo = shutil.which("cargo")
    if cargo is None:
        raise CannotRun("dynoxide is made by cargo (Rust), which is not on this machine; or use --endpoint URL")
    print(f"making dynoxide {VERSION}: some minutes, once", flush=True)
    command = [cargo, "install", "--quiet", "--locked", "--root", str(FOLDER), "--version", VERSION, "dynoxide-rs"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise CannotRun(f"dynoxide cannot be made: {made.stderr.strip()[-500:]}")
    return program


@contextmanager
def running() -> Iterator[str]:
    """Start it, empty and in memory, and yield its endpoint; it is stopped at the end. Raises CannotRun."""
    program, port = installed(), _free_port()
    with (FOLDER / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_ready(endpoint, process)
        yield endpoint
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(endpoint, timeout=1):
                return
        except urllib.error.HTTPError:
            return  # it answers
        except OSError:
            time.sleep(0.05)
    raise CannotRun(f"dynoxide does not answer; its log is {FOLDER / 'log'}")


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
