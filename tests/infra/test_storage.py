"""The bucket and the tables as CloudFormation gets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from infra.stages import STAGES
from tests.infra.conftest import Deployment


def test_the_bucket_is_private_and_encrypted_with_s3_keys(dev: Deployment) -> None:
    properties = dev.only("storage", "AWS::S3::Bucket")["Properties"]
    (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(properties["PublicAccessBlockConfiguration"]) == 4
    assert properties["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]


def test_the_bucket_refuses_what_is_not_tls_1_2(dev: Deployment) -> None:
    policy = dev.only("storage", "AWS::S3::BucketPolicy")["Properties"]["PolicyDocument"]
    denied = [
        statement
        for statement in policy["Statement"]
        if statement["Effect"] == "Deny" and statement["Action"] == "s3:*"
    ]
    conditions = [statement["Condition"] for statement in denied]
    assert {"Bool": {"aws:SecureTransport": "false"}} in conditions
    assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in conditions
    for statement in denied:  # the bucket itself and every object in it
        assert "/*" in json.dumps(statement["Resource"])
        assert len(statement["Resource"]) == 2


def test_no_lifecycle_rule_can_delete_an_object(dev: Deployment) -> None:
    properties = dev.only("storage", "AWS::S3::Bucket")["Properties"]
    (rule,) = properties["LifecycleConfiguration"]["Rules"]
    assert set(rule) == {"Id", "Status", "AbortIncompleteMultipartUpload"}
    assert "VersioningConfiguration" not in properties


def test_deleted_objects_can_be_brought_back_for_as_long_as_the_stage_says(
    synthesize_stage: Callable[..., Deployment],
) -> None:
    deployment = synthesize_stage(replace(STAGES["prod"], keep_deleted_days=35))
    properties = deployment.only("storage", "AWS::S3::Bucket")["Properties"]
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    rules = {rule["Id"]: rule for rule in properties["LifecycleConfiguration"]["Rules"]}
    assert rules["deleted-objects"] == {
        "Id": "deleted-objects",
        "Status": "Enabled",
        "NoncurrentVersionExpiration": {"NoncurrentDays": 35},
        "ExpiredObjectDeleteMarker": True,
    }
    for rule in rules.values():
        assert not {"ExpirationInDays", "ExpirationDate", "Transitions"} & set(rule), "it would delete what is there"
    with pytest.raises(ValueError, match="keep_deleted_days must be 0 to 35"):
        replace(STAGES["prod"], keep_deleted_days=36)


def test_four_tables_on_demand_three_of_them_with_point_in_time_recovery(dev: Deployment) -> None:
    tables = dev.resources("storage", "AWS::DynamoDB::Table")
    assert len(tables) == 4
    for name, table in tables.items():
        properties, is_copy = table["Properties"], "TablesRows" in name
        assert properties["BillingMode"] == "PAY_PER_REQUEST"
        assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": not is_copy}
        assert properties["KeySchema"] == [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ]
        assert {attribute["AttributeType"] for attribute in properties["AttributeDefinitions"]} == {"S"}
        # Nothing but the sweep may make rows of the log disappear.
        assert ("TimeToLiveSpecification" in properties) is is_copy


def test_prod_keeps_its_data_whatever_is_deleted(prod: Deployment) -> None:
    stores = [*prod.resources("storage", "AWS::DynamoDB::Table").values(), prod.only("storage", "AWS::S3::Bucket")]
    assert [(store["DeletionPolicy"], store["UpdateReplacePolicy"]) for store in stores] == [("Retain", "Retain")] * 5
    tables = prod.resources("storage", "AWS::DynamoDB::Table").values()
    assert all(table["Properties"]["DeletionProtectionEnabled"] is True for table in tables)


def test_dev_can_be_thrown_away(dev: Deployment) -> None:
    stores = [*dev.resources("storage", "AWS::DynamoDB::Table").values(), dev.only("storage", "AWS::S3::Bucket")]
    assert {store["DeletionPolicy"] for store in stores} == {"Delete"}


def test_outputs_name_the_store(dev: Deployment) -> None:
    named = {"BucketName", "LogTableName", "GroupsTableName", "CatalogTableName"}
    assert named <= set(dev.templates["storage"]["Outputs"])
