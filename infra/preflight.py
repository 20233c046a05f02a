"""`python -m infra.preflight STAGE`: would a deployment of this stage succeed? `make deploy` asks first.

The checks are those of `odradek doctor --before-deploy`.
"""

from __future__ import annotations

import os
import sys

from odradek.cli.service.account import examine_account
from odradek.cli.service.doctor import show_findings
from odradek.errors import KafkaError

from infra.stages import stage_of


def main(arguments: list[str], endpoint_url: str | None = None) -> int:
    """Print the findings; 1 where a deployment would fail, 2 where AWS cannot be asked."""
    stage = stage_of(arguments[0] if arguments else "")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    try:
        findings = show_findings(examine_account(region, sum(stage.reserved_concurrency.values()), endpoint_url))
    except KafkaError as error:
        print(f"infra: {error}", file=sys.stderr)
        return 2
    return int(any(finding.outcome == "FAIL" for finding in findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
