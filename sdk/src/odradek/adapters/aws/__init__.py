"""The ports over DynamoDB and S3: the only place that knows AWS's clients."""

from __future__ import annotations

from odradek.adapters.aws.object_store import S3ObjectStore
from odradek.adapters.aws.store import AwsStore, open_aws
from odradek.adapters.aws.table import DynamoTable

__all__ = ["AwsStore", "DynamoTable", "S3ObjectStore", "open_aws"]
