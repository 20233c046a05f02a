"""The end-to-end suite in LocalStack: SDK -> function URL -> packaged function -> DynamoDB and S3 -> maintenance."""

from __future__ import annotations

from tests.deployed.end_to_end import *  # noqa: F403
