"""A bucket only for the WAL, on S3 Express One Zone: cheaper and faster PUTs, in one availability zone.

Acknowledged data is only here until a merge writes a segment to the main bucket: minutes. The loss of the zone loses
that much, which is the price of the option. A directory bucket is always private, TLS only and encrypted.
"""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3express as s3express
from constructs import Construct


class WalBucket(Construct):
    """A directory bucket in one zone."""

    def __init__(
        self, scope: Construct, construct_id: str, *, zone_id: str, keeps_data: bool, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        by_key = s3express.CfnDirectoryBucket.ServerSideEncryptionRuleProperty(
            bucket_key_enabled=True,
            server_side_encryption_by_default=s3express.CfnDirectoryBucket.ServerSideEncryptionByDefaultProperty(
                sse_algorithm="aws:kms", kms_master_key_id=None if key is None else key.key_arn
            ),
        )
        self.bucket = s3express.CfnDirectoryBucket(
            self,
            "Bucket",
            data_redundancy="SingleAvailabilityZone",
            location_name=zone_id,
            bucket_encryption=None
            if key is None
            else s3express.CfnDirectoryBucket.BucketEncryptionProperty(server_side_encryption_configuration=[by_key]),
        )
        self.bucket.apply_removal_policy(RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY)
