"""Limits set by AWS or by Kafka's protocol, and the relations between them.

Numbers that an operator may choose are in settings.py. Each relation is asserted with its reason, so that a change that
breaks one fails at import.
"""

from __future__ import annotations

# AWS Lambda: payload of a synchronous invocation, both ways (Lambda quotas).
FUNCTION_PAYLOAD_BYTES_MAX = 6 * 1024 * 1024
# A binary body is base64 in the event (4 bytes for 3), beside some KB of headers and request context.
FUNCTION_EVENT_OVERHEAD_BYTES = 64 * 1024
FUNCTION_BINARY_BYTES_MAX = (FUNCTION_PAYLOAD_BYTES_MAX - FUNCTION_EVENT_OVERHEAD_BYTES) * 3 // 4
FUNCTION_TIMEOUT_S_MAX = 900
CALLS_AT_ONCE = 64  # of functions of triggers, in one process: each has a thread, a batch of 1 MiB, and its event

# DynamoDB (service quotas).
TABLE_ITEM_BYTES_MAX = 400 * 1024
TABLE_TRANSACTION_ITEMS_MAX = 100
CLOCK_AHEAD_MS_MAX = 3_600_000  # a time stored by another process that is further ahead is of a wrong clock
TRANSACT_GET_KEYS_MAX = 25  # DynamoDB takes 100; older emulators 25, and no reader needs more of one moment
TABLE_WRITE_UNIT_BYTES = 1024
TABLE_READ_UNIT_BYTES = 4096
TABLE_PARTITION_KEY_WRITE_UNITS_MAX = 1_000  # a second
TABLE_TRANSACTION_BYTES_MAX = 4 * 1024 * 1024
TABLE_PARTITION_KEY_BYTES_MAX = 2048
TABLE_SORT_KEY_BYTES_MAX = 1024
TABLE_ATTRIBUTE_NAME_BYTES_MAX = 64 * 1024 - 1
TABLE_NESTING_MAX = 32  # lists and maps within each other, and steps of a document path
TABLE_NUMBER_DIGITS_MAX = 38
TABLE_EXPRESSION_BYTES_MAX = 4096  # of each expression's text as it is sent
TABLE_EXPRESSION_OPERATORS_MAX = 300  # operators and functions of each expression
TABLE_SUBSTITUTIONS_BYTES_MAX = 2 * 1024 * 1024  # names and values that the placeholders of a request stand for

# S3 (user guide, "Object key names", "Uploading objects").
OBJECT_KEY_BYTES_MAX = 1024
OBJECT_PUT_BYTES_MAX = 5 * 1024**3

# SQS (quotas; 1 MiB since August 2025, where the queue allows it; ours keep the older default).
QUEUE_BATCH_BYTES_MAX = 256 * 1024

# Kafka's protocol.
TOPIC_NAME_LENGTH_MAX = 249
SEQUENCE_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1
BATCH_HEADER_BYTES = 61
PRODUCER_BATCHES_REMEMBERED = 5  # duplicates of the last five batches of a producer are known
PRODUCER_EPOCH_MAX = 2**15 - 2  # that a coordinator gives: the last short stays free for a fence above it

# Ours.
TCP_FRAME_BYTES_MAX = 100 * 1024 * 1024  # socket.request.max.bytes of Apache Kafka
MESSAGE_BYTES_MAX = FUNCTION_BINARY_BYTES_MAX - 128 * 1024  # the largest batch that fits a request with its frame
PARTITIONS_PER_TOPIC_MAX = 10_000
TOPICS_PER_REQUEST_MAX = 1_000
HEADERS_PER_RECORD_MAX = 10_000
# The years 1 to 9999: others overflow where a reader counts in us, or has a calendar.
TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX = -62_135_596_800_000, 253_402_300_799_999
DECOMPRESSED_BATCH_BYTES_MAX = 256 * 1024 * 1024  # a decompression bomb is refused by this
TRIGGER_BATCH_BYTES_MAX = 64 * 1024 * 1024  # likewise for triggers, whose function has 512 MiB and needs it twice
REQUEST_BATCHES_PER_PARTITION_MAX = 1_000  # clients send one; each is an entry of the head's tail until it is spilled
ACLS_MAX = 5_000  # rules of a cluster: every process keeps them all
SCHEMA_BYTES_MAX = 256 * 1024  # text of a schema in the registry
SUBJECT_NAME_BYTES_MAX = 512
SUBJECT_VERSIONS_MAX = 2_000  # soft-deleted ones included
SCHEMA_REFERENCES_MAX = 50  # direct ones
OFFSET_METADATA_BYTES_MAX = 12 * 1024  # that an operator may allow; Kafka's default is 4,096
WAL_ITEM_BYTES_MAX = 384 * 1024  # of a request that is stored as one item, at most
ABORTED_SEQUENCES_MAX = 8_000  # partitions whose aborted writes a transactional id remembers within one epoch
ID_BYTES_MAX = 900  # of group, member, instance and transactional ids
GROUP_WATCH_BYTES = 32  # of a member's watch of another, beside that one's id
GROUP_WATCHES_BYTES_MAX = 32 * 1024  # of a member's watches: without long ids room for several hundred
GROUP_PATTERNS_MAX = 32  # different topic patterns of a group's members: each is matched against every topic
GROUP_TARGET_BYTES_MAX = 300 * 1024  # of a group's target, packed
STREAMS_SOURCES_PER_SUBTOPOLOGY_MAX = 64  # the leases of a task are granted in one step
STREAMS_TAGS_BYTES_MAX = 8 * 1024  # names and values of a streams member's client tags
# Of head_bytes_max. The rest of an item is for what a head takes before a spill shortens it: the 1,000 batches of one
# request, and its 500 producers. A larger head also costs each append a write unit per KiB.
HEAD_BYTES_MAX = TABLE_ITEM_BYTES_MAX // 4
SPILL_ENTRIES_MAX = 250  # entries that one index row takes from a head
SPILL_PRODUCERS_MAX = 40  # producers that the update notes or evicts with which the most entries leave the head
SPILL_FEW_ENTRIES = 100  # with no more entries, or with none, an update has room for the next
SPILL_SETTLED_MAX = 70
SPILL_EVICTIONS_MAX = 6 * SPILL_SETTLED_MAX  # producers that a spill evicts where they crowd a head
PRODUCERS_IN_HEAD_MAX = 500
PARTITIONS_PER_HEAD_MAX = 32  # one update appends a batch of an idempotent producer to each of them
TRANSACTION_BATCHES_PER_HEAD_MAX = 4_000  # of all partitions that share a head
PAGED_APPENDS_MAX = 4_096  # what readers below a shared head's tail read at most, about a megabyte
PAGE_BYTES_MAX = 200 * 1024  # of the entries that one page takes from a shared head
LEASES_PER_ITEM_MAX = 16  # of a group: a commit of all of them is one update, and its conditions one expression
TRANSACTION_PLACES_MAX = TABLE_TRANSACTION_ITEMS_MAX - 1  # partitions and offsets of a transaction; one item is its row
TRANSACTION_BATCHES_PER_PARTITION_MAX = 1_000
TRANSACTION_BATCHES_MAX = 20_000
SHARE_RECORD_LOCKS_MAX = 10_000  # records in flight of a share-partition, at most
SHARE_SESSION_PARTITIONS_MAX = 10 * TOPICS_PER_REQUEST_MAX
SHARE_HOLDERS_MAX = 100  # members that hold records of one share-partition at the same time
NUMBERED_GROUP_PARTITIONS = 90  # of a topic: a numbered batch of more than TRANSACTION_PLACES_MAX goes group by group

assert MESSAGE_BYTES_MAX > 1_048_588, "Kafka's default max.message.bytes must fit one function call"
assert FUNCTION_BINARY_BYTES_MAX * 4 // 3 + FUNCTION_EVENT_OVERHEAD_BYTES <= FUNCTION_PAYLOAD_BYTES_MAX, (
    "a full frame in base64 must fit the payload"
)
assert MESSAGE_BYTES_MAX < TCP_FRAME_BYTES_MAX, "what a function takes a gateway takes too"
assert PARTITIONS_PER_TOPIC_MAX * 64 < FUNCTION_BINARY_BYTES_MAX, "the metadata of the largest topic fits an answer"
assert TOPICS_PER_REQUEST_MAX * (TOPIC_NAME_LENGTH_MAX + 128) < FUNCTION_BINARY_BYTES_MAX, (
    "an answer about the most topics, of one partition each, fits"
)
assert REQUEST_BATCHES_PER_PARTITION_MAX * 64 < TABLE_ITEM_BYTES_MAX // 4, (
    "a head takes a request's tail entries beside those that are there"
)
assert SCHEMA_BYTES_MAX + 100 * (SUBJECT_NAME_BYTES_MAX + 8) < TABLE_ITEM_BYTES_MAX, (
    "a schema fits an item, with the names of the first hundred subjects that use it"
)
assert SUBJECT_VERSIONS_MAX * 96 < TABLE_ITEM_BYTES_MAX, "a subject's versions fit an item"
assert SCHEMA_REFERENCES_MAX + 4 < TABLE_TRANSACTION_ITEMS_MAX, "a schema is registered in one transaction"
assert SPILL_ENTRIES_MAX * 64 < TABLE_ITEM_BYTES_MAX, "an index row fits an item"
# An update's text: a name or value of up to 3 digits after `#` or `:`; `p.<id>.<attribute>` is 13 bytes with its dots.
_REMOVED_ELEMENT_BYTES = len("#0[249], ")
_NOTED_PRODUCER_BYTES = 2 * len("#12.#123.#14 = :123, ")
_EVICTED_PRODUCER_BYTES = 2 * len("#12.#123.#14 = :123 AND ")
_SPILL_FRAME_BYTES = 160  # the other actions, or the other conditions
assert (
    SPILL_ENTRIES_MAX * _REMOVED_ELEMENT_BYTES + SPILL_PRODUCERS_MAX * _NOTED_PRODUCER_BYTES + _SPILL_FRAME_BYTES
    <= TABLE_EXPRESSION_BYTES_MAX
), "the update with which a row's entries leave the head fits an expression, every producer noted"
assert (
    SPILL_FEW_ENTRIES * _REMOVED_ELEMENT_BYTES + SPILL_SETTLED_MAX * _NOTED_PRODUCER_BYTES + _SPILL_FRAME_BYTES
    <= TABLE_EXPRESSION_BYTES_MAX
), "an update with few entries fits an expression, every producer noted"
assert SPILL_SETTLED_MAX * _EVICTED_PRODUCER_BYTES + _SPILL_FRAME_BYTES <= TABLE_EXPRESSION_BYTES_MAX, (
    "an update that settles producers fits an expression, every one evicted"
)
assert LEASES_PER_ITEM_MAX * 12 <= TABLE_EXPRESSION_OPERATORS_MAX, "a commit is one update of an item"
assert SPILL_SETTLED_MAX * 4 + 16 <= TABLE_EXPRESSION_OPERATORS_MAX, (
    "an eviction is two comparisons and two ANDs of its condition"
)
assert SPILL_PRODUCERS_MAX <= SPILL_SETTLED_MAX, "an update that does less settles no fewer"
assert SPILL_EVICTIONS_MAX > SPILL_ENTRIES_MAX, "a crowded head loses more producers by a spill than a row brings in"
assert PRODUCERS_IN_HEAD_MAX * (40 + 18 * PRODUCER_BATCHES_REMEMBERED) < TABLE_ITEM_BYTES_MAX // 4, (
    "a head takes the producers beside its tail"
)
assert TRANSACTION_BATCHES_PER_PARTITION_MAX * 64 < TABLE_ITEM_BYTES_MAX // 4, (
    "a head takes a transaction's tail entries beside those that are there"
)
_PLACE_BYTES = 16 * 1024  # a head with its tail before the transaction, or a lease
assert TRANSACTION_BATCHES_MAX * 64 + TRANSACTION_PLACES_MAX * _PLACE_BYTES < TABLE_TRANSACTION_BYTES_MAX, (
    "all heads and leases of a transaction fit one TransactWriteItems, long tails included"
)
assert OFFSET_METADATA_BYTES_MAX + TOPIC_NAME_LENGTH_MAX + 2 * ID_BYTES_MAX + 256 < _PLACE_BYTES, "a lease is a place"
assert (
    TRANSACTION_PLACES_MAX * (20 + 22 + ID_BYTES_MAX + 3) + ABORTED_SEQUENCES_MAX * 24 + 2 * ID_BYTES_MAX
    < TABLE_ITEM_BYTES_MAX
), "the row of a transactional id fits an item: partitions, offsets, groups, and the sequences that it remembers"
assert ID_BYTES_MAX + 36 + 5 + 24 + 8 <= TABLE_SORT_KEY_BYTES_MAX, (
    "a pending offset's key holds a number, a group id, a topic id and a partition"
)
assert ID_BYTES_MAX + 4 <= TABLE_PARTITION_KEY_BYTES_MAX, "an id and a prefix are a partition key"
assert GROUP_TARGET_BYTES_MAX + 2 * ID_BYTES_MAX + 256 < TABLE_ITEM_BYTES_MAX, "a group with its target fits an item"
assert (
    TOPICS_PER_REQUEST_MAX * (TOPIC_NAME_LENGTH_MAX + 1)
    + GROUP_WATCHES_BYTES_MAX
    + 2 * TOPICS_PER_REQUEST_MAX * (16 + 20)
    + 6 * ID_BYTES_MAX
    < TABLE_ITEM_BYTES_MAX
), "a member fits an item with the most and longest names, whatever it watches, five runs of partitions a topic"
assert SHARE_SESSION_PARTITIONS_MAX * (16 + 8) < TABLE_ITEM_BYTES_MAX, (
    "a share session fits an item, each partition of a topic of its own"
)
assert WAL_ITEM_BYTES_MAX + 1024 < TABLE_ITEM_BYTES_MAX, "a request's bytes fit an item"
assert SHARE_RECORD_LOCKS_MAX * 24 + SHARE_HOLDERS_MAX * 1_000 < TABLE_ITEM_BYTES_MAX, (
    "the state of a share-partition fits an item, each record in a state of its own, holders' ids at their longest"
)
assert NUMBERED_GROUP_PARTITIONS <= TRANSACTION_PLACES_MAX, "a group is committed in one transaction"
