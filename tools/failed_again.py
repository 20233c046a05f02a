"""Ask the tests that failed once more, alone on the machine: `python -m tools.failed_again -m "not slow"`.

For CI only, whose machine may be shared: a test that waits in vain beside seven others, and passes alone, says more of
the machine than of the change. What fails here fails for good, and so does a run of which more than `_MOST` failed. The
names are printed either way, so that one which comes up again and again can be mended.

The arguments are those of the run before, for pytest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_MOST = 5
_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: list[str]) -> int:
    """Return pytest's exit code, or 1 if there is nothing to ask again."""
    failed = list(json.loads(_FAILED.read_text())) if _FAILED.exists() else []
    if not failed:
        print("failed_again: the run ended without saying which test failed")
        return 1
    if len(failed) > _MOST:
        print(f"failed_again: {len(failed)} tests failed: more than the {_MOST} that a busy machine excuses")
        return 1
    print("failed_again: these failed beside others, and are asked once more, alone:", *failed, sep="\n  ")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "--last-failed", "--last-failed-no-failures", "none", *arguments],
        check=False,
    )
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
