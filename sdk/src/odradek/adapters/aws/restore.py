"""A deployment's tables as they were at an earlier second, and the objects that they refer to.

    tables     restored by DynamoDB's point-in-time recovery into new tables; then the deployment's own tables are made
               equal to these, item by item, where they differ. So nothing that names a table has to change: functions,
               roles, gateways, jobs, alarms, templates. Point-in-time recovery of the own tables goes on, so even a
               wrong restore can be undone by another one.
    objects    a bucket with versions keeps what is deleted: removing the delete marker brings it back. Without versions
               a deleted object is gone.

A table whose capacity is provisioned is read and written as fast as it takes it: what is throttled waits and is tried
again. Restored tables are on demand.

The caller sees to it that nobody writes meanwhile (deployment.py). Every step may be repeated: a restored table that
exists is used, an item that is equal is left, a marker that is gone is not looked for. The counter of producer ids is
not set back: an id that is in use would be given to a second producer, whose batches would look like repetitions.

Source: DynamoDB developer guide, "Point-in-time recovery"; S3 user guide, "Deleting object versions".
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from odradek.adapters.aws.calls import is_throttled
from odradek.backoff import bound_s
from odradek.errors import ErrorCode, KafkaError, StoreUnavailable
from odradek.format.item_keys import COUNTERS_PK, DROPPED_TABLES_PK, PRODUCER_ID_SK, SERVED_TABLES_PK

PREFIXES: Final = ("wal/", "topics/")  # the log's objects; jobs/ is the jobs' own
POLL_S: Final = 20.0
_GET_ITEMS: Final = 100  # of a BatchGetItem
_WRITE_ITEMS: Final = 25  # of a BatchWriteItem
_ATTEMPTS: Final = 10
FIRST_PAUSE_S: Final = 0.1  # DynamoDB took a part of a batch only
MAX_PAUSE_S: Final = 20.0

Item = dict[str, Any]  # as botocore has it: attribute values
Sleep = Callable[[float], None]
Tell = Callable[[str], None]


@dataclass(slots=True)
class TableChanges:
    """The number of changes that made a table equal to another."""

    put: int = 0
    deleted: int = 0


def restored_name(table_name: str, to: datetime) -> str:
    """The name of the table that one is restored into."""
    return f"{table_name[:220]}-at-{to:%Y%m%dT%H%M%SZ}"


def check_recoverable(dynamodb: Any, table_names: Sequence[str], to: datetime) -> None:
    """Raise KafkaError(INVALID_CONFIG) unless all tables can be restored to that second."""
    for name in table_names:
        backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        recovery = backups.get("PointInTimeRecoveryDescription", {})
        if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} has no point-in-time recovery: nothing to restore from")
        first, last = recovery["EarliestRestorableDateTime"], recovery["LatestRestorableDateTime"]
        if not first <= to <= last:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{name} can be restored to any second from {_iso(first)} to {_iso(last)}, not to {_iso(to)}",
            )


def restore_tables(
    dynamodb: Any, table_names: Sequence[str], to: datetime, *, sleep: Sleep, tell: Tell
) -> dict[str, str]:
    """Restore each table into a new one and wait until all are there: minutes to hours, by their size.

    Returns the names of the restored tables by those of their sources. Raises StoreUnavailable.
    """
    names = {name: restored_name(name, to) for name in table_names}
    for source, target in names.items():
        try:
            dynamodb.restore_table_to_point_in_time(
                SourceTableName=source,
                TargetTableName=target,
                RestoreDateTime=to,
                BillingModeOverride="PAY_PER_REQUEST",
            )
        except (
            dynamodb.exceptions.TableAlreadyExistsException,
            dynamodb.exceptions.ResourceInUseException,
        ):
            continue  # of an attempt before this one
    waiting = set(names.values())
    while waiting:
        for name in sorted(waiting):
            status = dynamodb.describe_table(TableName=name)["Table"]["TableStatus"]
            if status == "ACTIVE":
                waiting.discard(name)
            elif status != "CREATING":
                raise StoreUnavailable(f"the restored table {name} is {status}: delete it and begin again")
        if waiting:
            tell(f"DynamoDB is restoring {', '.join(sorted(waiting))}")
            sleep(POLL_S)
    return names


def drop_tables(dynamodb: Any, names: Sequence[str]) -> None:
    """Delete restored tables."""
    for name in names:
        dynamodb.delete_table(TableName=name)


# --- objects ----------------------------------------------------------------------------------------------------------


def has_versions(s3: Any, bucket: str) -> bool:
    """Return True if the bucket keeps deleted objects."""
    return bool(s3.get_bucket_versioning(Bucket=bucket).get("Status") == "Enabled")


def bring_back(s3: Any, bucket: str, to: datetime) -> int:
    """Undo every deletion of the log's objects since that second; returns how many. What nobody needs, the sweep and
    the next merge delete again.

    Raises StoreUnavailable where a marker cannot be removed.
    """
    count = 0
    for prefix in PREFIXES:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
            markers = [
                {"Key": marker["Key"], "VersionId": marker["VersionId"]}
                for marker in page.get("DeleteMarkers", ())
                if marker["IsLatest"] and marker["LastModified"] >= to
            ]
            if not markers:
                continue
            response = s3.delete_objects(Bucket=bucket, Delete={"Objects": markers, "Quiet": True})
            for error in response.get("Errors", ()):
                raise StoreUnavailable(f"{error['Key']} cannot be brought back: {error.get('Code')}")
            count += len(markers)
    return count


# --- items ------------------------------------------------------------------------------------------------------------


def make_equal(dynamodb: Any, table_name: str, restored: str, *, sleep: Sleep) -> TableChanges:
    """Make a table equal to a restored one; nobody else may write to it.

    Reads both as a whole, a page at a time, and writes what differs. Raises StoreUnavailable where DynamoDB does not
    take the writes; call it again then.
    """
    changes = TableChanges()
    for page in _scan(dynamodb, restored, sleep):
        current_items = _get(dynamodb, table_name, [_key(item) for item in page], sleep)
        different = [item for item in page if _differs(current_items.get(_identity(item)), item)]
        _write(dynamodb, table_name, [{"PutRequest": {"Item": item}} for item in different], sleep)
        changes.put += len(different)
    for page in _scan(dynamodb, table_name, sleep, ProjectionExpression="pk, sk"):
        wanted = _get(dynamodb, restored, [_key(item) for item in page], sleep, ProjectionExpression="pk, sk")
        extra = [_key(item) for item in page if _identity(item) not in wanted and not _is_counter(item)]
        _write(dynamodb, table_name, [{"DeleteRequest": {"Key": key}} for key in extra], sleep)
        changes.deleted += len(extra)
    return changes


def renew_served_tables(dynamodb: Any, catalog_table: str, *, now_ms: int) -> int:
    """Give each served table a new generation of rows; return how many there are. Nobody else may write to the catalog.

    Their rows are not restored, and may be of records that the log had after the moment.
    """
    count = 0
    condition = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": SERVED_TABLES_PK}}}
    for page in dynamodb.get_paginator("query").paginate(TableName=catalog_table, ConsistentRead=True, **condition):
        for item in page["Items"]:
            old = item["g"]["S"]
            shards = str(json.loads(item["d"]["S"])["shards"])
            dropped = {"v": {"N": "1"}, "d": item["sk"], "s": {"N": shards}, "t": {"N": str(now_ms)}}
            dynamodb.put_item(
                TableName=catalog_table, Item={"pk": {"S": DROPPED_TABLES_PK}, "sk": {"S": old}, **dropped}
            )
            dynamodb.put_item(TableName=catalog_table, Item={**item, "g": {"S": secrets.token_hex(6)}})
            count += 1
    return count


def _differs(current: Item | None, wanted: Item) -> bool:
    if current is not None and _is_counter(wanted):
        return int(current["next"]["N"]) < int(wanted["next"]["N"])
    return current != wanted


def _is_counter(item: Mapping[str, Any]) -> bool:
    return _identity(item) == (COUNTERS_PK, PRODUCER_ID_SK)


def _key(item: Mapping[str, Any]) -> Item:
    return {"pk": item["pk"], "sk": item["sk"]}


def _identity(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def _scan(dynamodb: Any, table_name: str, sleep: Sleep, **parameters: Any) -> Iterator[list[Item]]:
    """The items of a table, in lists of what one BatchGetItem takes."""
    scan_parameters = {"TableName": table_name, "ConsistentRead": True, **parameters}
    while True:
        page = _patiently(dynamodb.scan, table_name, sleep, **scan_parameters)
        items = page["Items"]
        for start in range(0, len(items), _GET_ITEMS):
            yield items[start : start + _GET_ITEMS]
        if "LastEvaluatedKey" not in page:
            return
        scan_parameters["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def _get(
    dynamodb: Any, table_name: str, keys: Sequence[Item], sleep: Sleep, **parameters: Any
) -> dict[tuple[str, str], Item]:
    """The items with these keys, by their key."""
    items_by_key: dict[tuple[str, str], Item] = {}
    left: Sequence[Item] = keys
    attempt = 0
    while left and attempt < _ATTEMPTS:
        requested = {table_name: {"Keys": list(left), "ConsistentRead": True, **parameters}}
        response = _patiently(dynamodb.batch_get_item, table_name, sleep, RequestItems=requested)
        some = response["Responses"].get(table_name, ())
        items_by_key |= {_identity(item): item for item in some}
        left = response.get("UnprocessedKeys", {}).get(table_name, {}).get("Keys", ())
        if left and not some:  # throttled; with some of them, the answer had no room for more than 16 MB
            _pause(attempt, sleep)
            attempt += 1
    if not left:
        return items_by_key
    raise _given_up(table_name)


def _write(dynamodb: Any, table_name: str, requests: Sequence[Item], sleep: Sleep) -> None:
    for start in range(0, len(requests), _WRITE_ITEMS):
        left: Sequence[Item] = requests[start : start + _WRITE_ITEMS]
        for attempt in range(_ATTEMPTS):
            response = _patiently(dynamodb.batch_write_item, table_name, sleep, RequestItems={table_name: list(left)})
            left = response.get("UnprocessedItems", {}).get(table_name, ())
            if not left:
                break
            _pause(attempt, sleep)
        else:
            raise _given_up(table_name)


def _patiently(call: Callable[..., Any], table_name: str, sleep: Sleep, **parameters: Any) -> Any:
    """Call; where DynamoDB takes nothing of it, wait and call again. Raises StoreUnavailable."""
    for attempt in range(_ATTEMPTS):
        try:
            return call(**parameters)
        except ClientError as error:
            if not is_throttled(error):
                raise
        _pause(attempt, sleep)
    raise _given_up(table_name)


def _pause(attempt: int, sleep: Sleep) -> None:
    sleep(bound_s(attempt, first_s=FIRST_PAUSE_S, max_s=MAX_PAUSE_S))


def _given_up(table_name: str) -> StoreUnavailable:
    return StoreUnavailable(f"{table_name} is throttled: run the same command again in some minutes")


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
