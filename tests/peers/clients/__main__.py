"""`python -m tests.peers.clients`: every client from its oldest version. `make peers-clients`.

python -m tests.peers.clients                     all of them; the results are kept for docs/CLIENTS.md
python -m tests.peers.clients confluent aiokafka  clients whose names contain a word; nothing is kept
python -m tests.peers.clients sarama --task lz4   one task
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.peers.clients.install import BUILD
from tests.peers.clients.kept import keep
from tests.peers.clients.matrix import CLIENTS, TASKS
from tests.peers.clients.run import Result, run_client
from tests.peers.clients.services import running


def main() -> int:
    """Return 1 if a task failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="run clients whose name and version contain one of these")
    parser.add_argument("--task", action="append", choices=list(TASKS), help="run only this task")
    parser.add_argument("--keep", action="store_true", help="keep the results of a part, too")
    arguments = parser.parse_args()
    clients = tuple(
        client
        for client in CLIENTS
        if not arguments.words or any(word.lower() in client.label.lower() for word in arguments.words)
    )
    BUILD.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), clients) as services:
        for client in clients:
            result = run_client(client, services, arguments.task)
            results.append(result)
            done = sum(outcome == "ok" for outcome in result.tasks.values())
            print(f"{client.label}: {result.missing or f'{done} of {len(result.tasks)} tasks'}", flush=True)
            for task, outcome in result.tasks.items():
                if outcome != "ok":
                    print(f"    {task}: {outcome}", flush=True)
    if (arguments.keep or not arguments.words) and not arguments.task:
        keep(results)
    failed = sum(bool(result.failures) for result in results)
    missing = sum(bool(result.missing) for result in results)
    print(f"{len(results) - failed - missing} passed, {failed} failed, {missing} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
