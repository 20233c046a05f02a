"""The contracts of the ports over DynamoDB and S3, as moto plays them (tests/support/stores/aws.py).

Once over the direct clients that the functions use, once over botocore's.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from odradek.adapters.aws import AwsStore
from odradek.adapters.aws.direct.dynamodb import DirectDynamoDb
from odradek.adapters.aws.direct.s3 import DirectS3
from odradek.testing.contract import check_id
from odradek.testing.contract_object_store import OBJECT_STORE_CHECKS, ObjectStoreCheck
from odradek.testing.contract_table import TABLE_CHECKS, TABLES_CHECKS, TableCheck, TablesCheck

from tests.support.stores.aws import CREDENTIALS, DYNAMODB, create_tables, moto_server, open_store


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, id="botocore", marks=pytest.mark.slow), pytest.param(True, id="direct")],
)
def store(request: pytest.FixtureRequest) -> Iterator[AwsStore]:
    """One store for all checks: it belongs to no event loop, and making clients takes longer than a check.

    Over botocore slow: every check once more.
    """
    with pytest.MonkeyPatch.context() as patch, moto_server() as endpoint:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        store = open_store(endpoint, create_tables(endpoint), direct=request.param)
        assert isinstance(store._dynamodb, DirectDynamoDb) is request.param
        assert isinstance(store._s3, DirectS3) is request.param
        yield store
        asyncio.run(store.aclose())


MOTO_FAULTS = {
    "true_is_not_one": "moto compares Python's values, where True == 1",
    "a_path_through_something_else_is_rejected": "moto ignores a SET below a number or a list",
    "expressions_of_4096_bytes": "moto's parser calls itself for every element of a clause, and Python stops it",
}


@pytest.fixture(autouse=True)
def _expect_faults_of_moto(request: pytest.FixtureRequest) -> None:
    """DynamoDB does these right; the day that moto does, the mark must go."""
    if DYNAMODB is None and (fault := MOTO_FAULTS.get(check_id(request.node.callspec.params["check"]))):
        request.applymarker(pytest.mark.xfail(reason=fault, strict=True))


@pytest.fixture
def pk() -> str:
    return uuid.uuid4().hex


@pytest.mark.parametrize("check", TABLE_CHECKS, ids=check_id)
async def test_table(check: TableCheck, store: AwsStore, pk: str) -> None:
    await check(store.log, pk)


@pytest.mark.parametrize("check", TABLES_CHECKS, ids=check_id)
async def test_tables(check: TablesCheck, store: AwsStore, pk: str) -> None:
    await check(store, pk)


@pytest.mark.parametrize("check", OBJECT_STORE_CHECKS, ids=check_id)
async def test_object_store(check: ObjectStoreCheck, store: AwsStore, pk: str) -> None:
    await check(store.objects, pk + "/")
