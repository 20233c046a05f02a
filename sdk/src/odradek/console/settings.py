"""What an operator may choose of a console."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The settings of a console."""

    read_only: bool = False  # refuses everything that changes something
    hosts: tuple[str, ...] = ()  # names under which browsers may call it, besides those of the loopback interface
    session_idle_s: float = 12 * 3600  # a session without a request for so long ends
    sessions_max: int = 100
    requests_per_s: float = 100.0  # of one address; three times as many in a burst
    changes_per_s: float = 10.0
    sign_ins_per_min: float = 10.0
    streams_max: int = 32  # live pages at a time: charts, searches, tails
    body_bytes_max: int = 8 * 1024 * 1024  # of a form
    audit_file: str | None = None  # lines of JSON; None keeps the last ones in memory only
    topics_fresh_s: float = 10.0  # a list of topics older than this is read again in the background
    sql_jobs: bool = True  # start scripts of stream SQL beside the console, where it has the folder of the service
    sample_s: float = 2.0  # between two looks of a chart at a service on this machine
    history_s: float = 30.0  # between two looks that nobody asked for, at a service on this machine; 0: none
    sample_remote_s: float = 15.0  # and at a deployed one, where each look is billed
