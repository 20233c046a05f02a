"""Keys of items in the three tables (docs/formats/item_keys.md): one pure function per key.

Log table. A partition's items share one `pk`, so a fetch below the tail is one Query:

    pk                                  sk                            value
    <topic id>#<partition>              head                          the partition's head      (partition/head.py)
    <topic id>#<partition>              c#<elements, 20 digits>       page of a shared head  (partition/shared_head.py)
    <topic id>#<partition>              x#<elements, 20 digits>       extent of a shared head    (partition/extents.py)
    <topic id>#<partition>              i#<base offset, 20 digits>    index row                 (partition/index_row.py)
    <topic id>#<partition>              p#<producer id>               evicted producer          (partition/head.py)
    <topic id>#<partition>              lease                         maintenance lease (partition/maintenance_lease.py)
    <topic id>#<partition>              e#<epoch, 10 digits>          a former leader epoch (partition/leader_epochs.py)
    <topic id>#<partition>              clean                         progress of compaction (compaction/state.py)
    w#<yyyymmddhh>#<shard, 2 hex>       <object id, 32 hex>           small WAL item: {"d": bytes}
    txn#<transactional id>              <number, 20 digits>#...       pending items of a transaction
                                                                                      (transactions/items.py)

WAL items are spread over 64 shards per hour (bits of the id's random part), since one DynamoDB partition key accepts
1,000 write units per second. A sweep makes 64 Queries for an hour and needs no scan.

Catalog table:

    topics          <name>          a topic               (catalog/topics.py)
    topic-ids       <topic id>      {"name": name}
    deleted-topics  <topic id>      a topic whose heads, rows and objects have yet to be removed
    growths         <topic id>#<count>   marks of a growth (catalog/growth.py)
    counters        producer-id     {"next": the next free producer id}
    txn-ids         <trans. id>     a transactional id    (transactions/items.py)
    batches         <key>           the last batch that a writer committed
    brokers         <broker id>     a gateway's registration  (leaders/brokers.py)
    users           <name>          a user's salted keys    (access/users.py)
    acls            <digest, hex>   an ACL                  (access/acls.py)
    group-configs   <group id>      a group's configuration   (groups/configs.py)
    registry           counter | config        the next schema id; the registry's own configuration
    registry-configs   <subject>    a subject's configuration
    registry-subjects  <subject>    a subject's versions
    registry-schemas   <id, 10 digits>   a schema
    registry-guids     <hex>        {"id": id of the schema with that canonical form}   (all: registry/rows.py)
    tables          <topic id>      a table topic's Iceberg table, and what is refused  (iceberg/state.py)
    triggers        <name>          a trigger               (triggers/definition.py)
    served-tables   <name>          a served table          (served/definition.py)
    dropped-tables  <generation>    rows of a served table that have yet to be removed
    sweep           floor           the sweep's floor and progress   (catalog/sweep_floor.py)

Rows table, of served tables (served/keys.py, served/positions.py):

    <generation>            <partition, 6 digits>       how far the table follows a partition
    <generation>#<shard>    <key><window><partition>    a row
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from odradek.format.object_id import object_id_ms
from odradek.model.topic_partition import PartitionId

HEAD_SK = "head"
LEASE_SK = "lease"
CLEAN_SK = "clean"
INDEX_PREFIX = "i#"
INDEX_END = "i$"  # the first key after every index row
PRODUCER_PREFIX = "p#"
PRODUCER_END = "p$"
EPOCH_PREFIX = "e#"
EPOCH_END = "e$"
WAL_SHARDS = 64

TOPICS_PK = "topics"
TOPIC_IDS_PK = "topic-ids"
DELETED_TOPICS_PK = "deleted-topics"
GROWTHS_PK = "growths"
COUNTERS_PK = "counters"
PRODUCER_ID_SK = "producer-id"
TRANSACTIONAL_IDS_PK = "txn-ids"
BATCHES_PK = "batches"
TRANSACTION_PREFIX = "txn#"
BROKERS_PK = "brokers"
USERS_PK = "users"
LOGINS_PK = "logins"
LOGIN_SALTS_SK = "salts"
ACLS_PK = "acls"
QUOTAS_PK = "quotas"
GROUP_CONFIGS_PK = "group-configs"
CLASSIC_SESSION_PREFIX = "gs#"
SHARE_PARTITION_PREFIX = "s#"
SHARE_PARTITION_END = "s$"  # the first key after every share-partition
SHARE_SESSION_PREFIX = "t#"
SHARE_SESSION_END = "t$"
REGISTRY_PK = "registry"
REGISTRY_COUNTER_SK = "counter"
REGISTRY_CONFIG_SK = "config"
REGISTRY_CONFIGS_PK = "registry-configs"
REGISTRY_SUBJECTS_PK = "registry-subjects"
REGISTRY_SCHEMAS_PK = "registry-schemas"
REGISTRY_GUIDS_PK = "registry-guids"
TABLES_PK = "tables"
TRIGGERS_PK = "triggers"
SERVED_TABLES_PK = "served-tables"
DROPPED_TABLES_PK = "dropped-tables"
SWEEP_PK = "sweep"
SWEEP_FLOOR_SK = "floor"


def partition_pk(partition: PartitionId) -> str:
    """Return the `pk` of all items of a partition."""
    return f"{partition.topic_id}#{partition.partition}"


def growth_sk(topic_id: UUID, partition_count: int) -> str:
    """Return the `sk` of the marks of a topic's growth to that number of partitions."""
    return f"{topic_id}#{partition_count:05d}"


def index_sk(base_offset: int) -> str:
    """Return the `sk` of the index row that starts at this offset."""
    return f"{INDEX_PREFIX}{base_offset:020d}"


def index_base_offset(sk: str) -> int:
    """Return the base offset in the `sk` of an index row."""
    return int(sk[len(INDEX_PREFIX) :])


def producer_sk(producer_id: int) -> str:
    """Return the `sk` of an evicted producer's row."""
    return f"{PRODUCER_PREFIX}{producer_id}"


def epoch_sk(leader_epoch: int) -> str:
    """Return the `sk` of the row with the start offset of a former leader epoch."""
    return f"{EPOCH_PREFIX}{leader_epoch:010d}"


def epoch_of(sk: str) -> int:
    """Return the leader epoch in the `sk` of such a row."""
    return int(sk[len(EPOCH_PREFIX) :])


def wal_item_key(object_id: bytes) -> tuple[str, str]:
    """Return the (`pk`, `sk`) of a small WAL item, which follow from its id."""
    hour = datetime.fromtimestamp(object_id_ms(object_id) / 1000, UTC)
    return wal_item_pk(hour, object_id[6] % WAL_SHARDS), object_id.hex()


def wal_item_pk(hour: datetime, shard: int) -> str:
    """Return the `pk` of one shard of an hour (UTC) of WAL items."""
    return f"w#{hour:%Y%m%d%H}#{shard:02x}"


def topic_id_sk(topic_id: UUID) -> str:
    """Return the `sk` of a topic id's row."""
    return str(topic_id)


def transaction_pk(transactional_id: str) -> str:
    """Return the `pk` of all pending items of a transactional id."""
    return f"{TRANSACTION_PREFIX}{transactional_id}"


def transaction_sk(number: int, suffix: str) -> str:
    """Return the `sk` of a pending item of the transaction with that number."""
    return f"{number:020d}#{suffix}"


def transaction_end_sk(number: int) -> str:
    """Return the first `sk` after all pending items of that transaction and earlier ones."""
    return f"{number:020d}$"


def group_pk(group_id: str) -> str:
    """Return the `pk` of all items of a group."""
    return f"g#{group_id}"


def classic_session_sk(member_id: str) -> str:
    """Return the `sk` of a classic member's session, which sorts next to the group."""
    return f"{CLASSIC_SESSION_PREFIX}{member_id}"


def share_session_sk(member_id: str) -> str:
    """Return the `sk` of a share session."""
    return f"{SHARE_SESSION_PREFIX}{member_id}"
