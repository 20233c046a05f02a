"""The bucket: WAL objects, segments, and the jobs' output.

Versioning is off unless the stage wants to bring deleted objects back (`keep_deleted_days`): names are never reused and
objects never overwritten, so a version can only be a deleted object that someone pays for. One lifecycle rule drops the
parts of uploads that were never completed; with versions a second one drops what was deleted so long ago. No rule may
touch an object that is there, because only the sweep knows what the log still refers to.
"""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct


class LogBucket(Construct):
    """A private bucket: TLS only, encrypted with S3's keys or the given one, without any public access."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        keeps_data: bool,
        keep_deleted_days: int = 0,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        rules = [s3.LifecycleRule(id="abort-uploads", abort_incomplete_multipart_upload_after=Duration.days(1))]
        if keep_deleted_days:
            rules.append(
                s3.LifecycleRule(
                    id="deleted-objects",
                    noncurrent_version_expiration=Duration.days(keep_deleted_days),
                    expired_object_delete_marker=True,
                )
            )
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.S3_MANAGED if key is None else s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=None if key is None else True,  # one KMS request for many objects
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=bool(keep_deleted_days),
            lifecycle_rules=rules,
            removal_policy=RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
        )
