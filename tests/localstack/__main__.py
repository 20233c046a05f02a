"""`make localstack`: LocalStack in host mode, our stacks in it, the end-to-end suite against them.

With --endpoint URL an instance that runs already (a container, say) is used, and nothing is started.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import nullcontext

from tests.localstack.host import CannotRun, running


def main() -> int:
    parser = argparse.ArgumentParser(prog="make localstack", description=__doc__)
    parser.add_argument("--endpoint", help="of a LocalStack that runs already, such as http://localhost:4566")
    arguments, for_pytest = parser.parse_known_args()
    try:
        with nullcontext(arguments.endpoint) if arguments.endpoint else running() as endpoint:
            print(f"LocalStack answers on {endpoint}", flush=True)
            return subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "tests/localstack", *for_pytest],
                env={**os.environ, "ODRADEK_TEST_LOCALSTACK": endpoint},
                check=False,
            ).returncode
    except CannotRun as reason:
        print(f"skipped: {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
