"""`make contract-strict`: the suites of DynamoDB against an emulator that holds to DynamoDB's limits, as moto does not.

dynoxide by default (made once by cargo, some minutes). With --endpoint URL an instance that runs already is used, such
as DynamoDB Local; nothing is started then. What is not an option here is pytest's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import nullcontext

from tests.strict.emulator import CannotRun, running

SUITES = (
    "tests/contract/test_aws_contract.py",
    "tests/contract/test_aws_races.py",
    "tests/contract/test_largest_operations.py",
    "tests/contract/test_largest_groups.py",
    "tests/strict",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make contract-strict", description=__doc__)
    parser.add_argument("--endpoint", help="of an emulator that runs already, such as http://127.0.0.1:8000")
    parser.add_argument("--seconds", type=int, default=60, help="how long 200 producers write (default 60)")
    arguments, for_pytest = parser.parse_known_args()
    chosen = [argument for argument in for_pytest if argument.startswith("tests/")]
    try:
        with nullcontext(arguments.endpoint) if arguments.endpoint else running() as endpoint:
            print(f"DynamoDB's part is played by {endpoint}", flush=True)
            environment = {"ODRADEK_TEST_DYNAMODB": endpoint, "ODRADEK_TEST_STRICT_S": str(arguments.seconds)}
            return subprocess.run(
                [sys.executable, "-m", "pytest", "-q", *(() if chosen else SUITES), *for_pytest],
                env={**os.environ, **environment},
                check=False,
            ).returncode
    except CannotRun as reason:
        print(f"cannot run: {reason}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
