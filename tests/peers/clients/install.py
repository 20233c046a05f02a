"""Fetches one version of one client into build/peers-clients, and returns the command that runs its program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.peers.clients.matrix import Client

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "peers-clients"
PROGRAMS = Path(__file__).parent / "programs"
_LIMIT_S = 600
_CODECS = {  # which are extras of clients in Python
    "kafka-python": ("crc32c", "lz4", "python-snappy", "zstandard"),
    "aiokafka": ("cramjam", "lz4", "python-snappy", "zstandard"),
}


class NotInstalled(Exception):
    """The client cannot be had on this machine; the message says why."""


def command(client: Client, folder: Path = BUILD) -> list[str]:
    """Install a client if it is not there, and return the command of its program. Raises NotInstalled."""
    folder_of = folder / f"{client.package.rpartition('/')[2].replace(':', '-')}-{client.version}"
    folder_of.mkdir(parents=True, exist_ok=True)
    return {"pip": _pip, "go": _go, "npm": _npm, "maven": _maven, "debian": _debian}[client.installer](
        client, folder_of
    )


def _run(words: list[str], folder: Path, **environment: str) -> str:
    if shutil.which(words[0]) is None:
        raise NotInstalled(f"{words[0]} is not on this machine")
    try:
        ended = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{words[0]} did not end within {_LIMIT_S} s") from None
    if ended.returncode != 0:
        lines = (ended.stderr + ended.stdout).strip().splitlines() or ["no output"]
        raise NotInstalled(f"{' '.join(words[:3])} failed: {lines[-1][:200]}")
    return ended.stdout


def uv() -> str:
    """Return the path of uv, which `make setup` installs."""
    executable = shutil.which("uv") or str(ROOT / "build" / "bootstrap" / "bin" / "uv")
    if not Path(executable).exists():
        raise NotInstalled("uv is not on this machine: `make setup` installs it")
    return executable


def _pip(client: Client, environment: Path) -> list[str]:
    python = environment / "bin" / "python"
    if not (environment / ".complete").exists():
        _run([uv(), "venv", "-q", "--clear", "--python", sys.executable, str(environment)], environment.parent)
        wanted = [f"{client.package}=={client.version}", *client.needs, *_CODECS.get(client.package, ())]
        _run([uv(), "pip", "install", "-q", "--python", str(python), *wanted], environment)
        (environment / ".complete").touch()
    return [str(python), str(PROGRAMS / client.program)]


def _go(client: Client, module_folder: Path) -> list[str]:
    shutil.copytree(PROGRAMS / client.program, module_folder, dirs_exist_ok=True)
    shutil.copy(PROGRAMS / "report.go.txt", module_folder / "report.go")
    if not (module_folder / ".complete").exists():
        (module_folder / "go.mod").write_text("module odradek.example/client\n\ngo 1.24\n")
        _run(["go", "get", f"{client.package}@{client.version}"], module_folder)
        _run(["go", "mod", "tidy"], module_folder)
        (module_folder / ".complete").touch()
    _run(["go", "build", "-o", "program", "."], module_folder)
    return [str(module_folder / "program")]


def _npm(client: Client, package_folder: Path) -> list[str]:
    if not (package_folder / ".complete").exists():
        (package_folder / "package.json").write_text(json.dumps({"private": True}))
        wanted = [f"{client.package}@{client.version}", *client.needs]
        _run(["npm", "install", "--no-audit", "--no-fund", *wanted], package_folder)
        (package_folder / ".complete").touch()
    for name in (client.program, "report.cjs"):
        shutil.copy(PROGRAMS / name, package_folder)
    own = package_folder / "node_modules" / ".bin" / "node"
    return [str(own) if own.exists() else "node", str(package_folder / client.program)]


def _maven(client: Client, project: Path) -> list[str]:
    jars = project / "jars"
    if not (project / ".complete").exists():
        (project / "pom.xml").write_text(_POM.format(version=client.version))
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        _run(["mvn", "-q", "-B", copy, f"-DoutputDirectory={jars}"], project)
        (project / ".complete").touch()
    _run(["javac", "-cp", f"{jars}/*", "-d", str(project), str(PROGRAMS / client.program)], project)
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{project}:{jars}/*", "ClientTasks"]


def _debian(client: Client, unpacked: Path) -> list[str]:
    if shutil.which(client.package) is None:
        raise NotInstalled(f"{client.package} is not on this machine: apt-get install {client.package}")
    return [sys.executable, str(PROGRAMS / client.program)]


_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>odradek</groupId>
  <artifactId>client-tasks</artifactId>
  <version>0</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-clients</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""
