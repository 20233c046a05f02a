"""Java programs as processes: those of tests/java/src and those that come with Kafka's jars.

`tools/java_clients.sh` makes build/java/jars and build/java/classes. Each program has a small heap and writes its log
to a file, of which the end is shown where it fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.clients.numbered import Numbered, Sent
from tests.support.clients.numbered_producers import Load

BUILD = Path(__file__).resolve().parents[2] / "build" / "java"
_TAIL_LINES = 40


class JavaProgram:
    """A Java program; use it as a context manager, which kills what still runs.

    Args:
        main: its class.
        arguments: its command line.
        log: where its standard error goes; appended to.
        on_line: called with each line of its standard output, in a thread.
        options: of the JVM.
    """

    def __init__(
        self,
        main: str,
        *arguments: str,
        log: Path,
        on_line: Callable[[str], None] | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.main, self.log = main, log
        self.lines: list[str] = []
        self._on_line = on_line
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [
                    _java(),
                    *("-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                    "-Dorg.slf4j.simpleLogger.showDateTime=true",
                    *options,
                    *("-cp", f"{BUILD / 'classes'}:{BUILD / 'jars'}/*"),
                    main,
                    *arguments,
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reading = threading.Thread(target=self._read, name=main)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if self._on_line is not None:
                self._on_line(line.rstrip())

    def wait(self, timeout_s: float) -> list[str]:
        """Wait for its end; the lines that it printed. Fails where it ends badly or not in time."""
        status = self.process.wait(timeout_s)
        self._reading.join()
        assert status == 0, f"{self.main} ended with {status}:\n{self.tail()}"
        return self.lines

    def kill(self) -> None:
        """SIGKILL, and wait for the end. May be repeated."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reading.join()

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def run_tool(main: str, *arguments: str, timeout_s: float = 120) -> str:
    """Run one of Kafka's command-line tools; its standard output. Fails where it ends badly."""
    classes = f"{BUILD / 'classes'}:{BUILD / 'jars'}/*"
    command = [_java(), "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classes, main, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{main} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def numbered_producer(folder: Path, servers: str, load: Load, producer: str = "java", **config: str) -> Sent:
    """Write by Java's producer, at its defaults but for `config`; its log goes to the folder."""
    sent = Sent()
    arguments = (
        *(servers, load.topic, producer, str(load.partitions), str(load.records), str(load.seconds)),
        *(str(load.size), str(load.records_per_s), str(load.outstanding)),
        *(f"{name.replace('_', '.')}={value}" for name, value in config.items()),
    )
    with JavaProgram("odradek.NumberedProducer", *arguments, log=folder / "producer.log") as program:
        lines = program.wait(min(load.seconds, 600) + 300)
    for line in lines:
        line_type, *words = line.split(" ", 3)
        if line_type == "sent":
            sent.counts[producer, int(words[0])] = int(words[1])
        elif line_type == "refused":
            sent.refuse(Numbered(producer, int(words[0]), int(words[1])), words[2])
        elif line_type == "fatal":
            sent.fatal.append(" ".join(words))
    return sent


def producer_perf(
    folder: Path, servers: str, topic: str, records: int, *options: str, props: Sequence[str] = ()
) -> list[str]:
    """Write by Kafka's own kafka-producer-perf-test; the errors that it was told, not of which records."""
    arguments = ("--topic", topic, "--num-records", str(records), "--throughput", "-1", *options)
    properties = ("--producer-props", f"bootstrap.servers={servers}", *props)
    main, log = "org.apache.kafka.tools.ProducerPerformance", folder / "perf.log"
    with JavaProgram(main, *arguments, *properties, log=log) as program:
        print("\n" + program.wait(600)[-1])
    return [line for line in log.read_text().splitlines() if line.startswith("org.apache.kafka.common.errors.")]
