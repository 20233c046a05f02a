"""`make e2e STACK=odradek-dev`: the end-to-end suite against a deployed stack, with your AWS credentials.

    --stack NAME       the deployment's name, as for `odradek configure`
    --endpoint URL     a coordinator's URL, of any service; its stacks are not looked at
    --clean            only remove what an earlier run left behind (everything named e2e-...)

It makes topics and groups named e2e-<run>-..., some hundred records, and removes them. Exit code 2: it could not begin.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import boto3
from botocore.exceptions import BotoCoreError
from odradek.cli.service.configure import COORDINATOR_URL, read_outputs
from odradek.errors import KafkaError

from tests.deployed.conftest import Stack
from tests.deployed.end_to_end import PREFIX, clean_up


class CannotRun(Exception):
    """The message says why, and what to do."""


def find(stack: str, endpoint: str, region: str | None) -> Stack:
    """Return the deployment to test. Raises CannotRun."""
    try:
        session = boto3.Session(region_name=region)
        if session.get_credentials() is None:
            raise CannotRun("no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        if endpoint:
            return Stack(endpoint, session.region_name, {})
        if session.region_name is None:
            raise CannotRun("no region: set AWS_REGION, or name it with --region")
        outputs = read_outputs(session.client("cloudformation"), stack)
    except (BotoCoreError, KafkaError) as error:
        raise CannotRun(f"stack {stack!r} cannot be read: {getattr(error, 'message', error)}") from None
    return Stack(outputs[COORDINATOR_URL], session.region_name, outputs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make e2e", description=__doc__)
    parser.add_argument("--stack", default="")
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--region")
    parser.add_argument("--clean", action="store_true")
    arguments, for_pytest = parser.parse_known_args()
    try:
        if not arguments.stack and not arguments.endpoint:
            raise CannotRun("where? make e2e STACK=odradek-dev, or ENDPOINT=<CoordinatorUrl>")
        deployment = find(arguments.stack, arguments.endpoint, arguments.region)
        if arguments.clean:
            left = clean_up(deployment, PREFIX)
            print(f"left: {', '.join(left)}" if left else "nothing is left")
            return 1 if left else 0
    except (CannotRun, KafkaError) as reason:
        print(f"e2e: {reason}", file=sys.stderr)
        return 2
    target = {
        "coordinator_url": deployment.coordinator_url,
        "region": deployment.region,
        "outputs": dict(deployment.outputs),
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/deployed", *for_pytest],
        env={**os.environ, "ODRADEK_TEST_DEPLOYED": json.dumps(target)},
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
