"""The report of a client program in Python: a line for each task, `name TAB ok | absent | failed TAB why`."""

import json
import sys
import time
import traceback

CONFIG = json.loads(sys.argv[1])
SERVERS = CONFIG["servers"]
PREFIX = CONFIG["prefix"]
COUNT = CONFIG["count"]
BASE_MS = CONFIG["base_ms"]
LIMIT_S = 40.0


class Absent(Exception):
    """The client has no such thing."""


def run(tasks):
    """Run tasks by name, each whatever happened to the others."""
    for name, task in tasks.items():
        if CONFIG["tasks"] and name not in CONFIG["tasks"]:
            continue
        try:
            task()
            outcome = "ok\t"
        except Absent as absent:
            outcome = f"absent\t{absent}"
        except BaseException as error:
            traceback.print_exc()
            outcome = "failed\t" + f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " ")[:300]
        print(f"{name}\t{outcome}", flush=True)


def until(done, event):
    """Wait for `done()` to be true, and return it."""
    until_s = time.monotonic() + LIMIT_S
    while not (outcome := done()):
        if time.monotonic() > until_s:
            raise TimeoutError(event)
        time.sleep(0.05)
    return outcome


def logins():
    """The listeners with a login: name of the task, address, protocol, mechanism."""
    return [
        ("plain", SERVERS["sasl"], "SASL_PLAINTEXT", "PLAIN"),
        ("scram", SERVERS["sasl"], "SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("plain_tls", SERVERS["sasl_tls"], "SASL_SSL", "PLAIN"),
        ("scram_tls", SERVERS["sasl_tls"], "SASL_SSL", "SCRAM-SHA-512"),
    ]
