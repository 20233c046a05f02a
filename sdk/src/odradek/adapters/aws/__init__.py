"""The ports over DynamoDB, S3 and SQS: the only package that knows AWS's clients."""

from __future__ import annotations

from odradek.adapters.aws.object_store import S3ObjectStore
from odradek.adapters.aws.store import AwsStore, open_aws
from odradek.adapters.aws.table import DynamoTable
from odradek.adapters.aws.task_queue import SqsTaskQueue, open_queue

__all__ = ["AwsStore", "DynamoTable", "S3ObjectStore", "SqsTaskQueue", "open_aws", "open_queue"]
