"""Items of transactions: what is written is read back, and damage is a FormatError."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.engine.transactions.decisions import chains
from odradek.engine.transactions.items import (
    PendingBatches,
    PendingOffset,
    TransactionRow,
    TransactionState,
    batches_key,
    decode_pending,
    decode_row,
    encode_batches,
    encode_offset,
    encode_row,
    offset_key,
    pending_range,
)
from odradek.errors import FormatError
from odradek.format.tail_entry import TailEntry
from odradek.limits import SEQUENCE_MAX
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId
from odradek.ports.table import Row

ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=30)
int64 = st.integers(0, 2**63 - 1)
partitions = st.builds(PartitionId, st.uuids(), st.integers(0, 9_999))
groups = st.lists(ids, unique=True, max_size=3)


@st.composite
def rows(draw: st.DrawFn) -> TransactionRow:
    names = tuple(draw(groups))
    leases = st.lists(st.tuples(st.sampled_from(names), partitions), unique=True, max_size=5) if names else st.just([])
    last = draw(st.one_of(st.just((-1, -1)), st.tuples(int64, st.integers(0, 2**15 - 1))))
    return TransactionRow(
        draw(ids),
        producer_id=draw(int64),
        producer_epoch=draw(st.integers(0, 2**15 - 1)),
        timeout_ms=draw(st.integers(1, 2**31 - 1)),
        state=draw(st.sampled_from(TransactionState)),
        number=draw(int64),
        start_ms=draw(st.integers(-1, 2**40)),
        updated_ms=draw(int64),
        version=draw(int64),
        last_producer_id=last[0],
        last_epoch=last[1],
        committed_number=draw(st.integers(-1, 2**40)),
        partitions=tuple(draw(st.lists(partitions, unique=True, max_size=5))),
        groups=names,
        leases=tuple(draw(leases)),
        aborted_sequences=draw(st.dictionaries(partitions, st.integers(0, SEQUENCE_MAX), max_size=5)),
    )


@given(rows())
def test_a_row_is_read_as_it_was_written(row: TransactionRow) -> None:
    assert decode_row(row.transactional_id, encode_row(row)) == row


@given(rows(), st.data())
def test_a_damaged_row_is_a_format_error_or_another_row(row: TransactionRow, data: st.DataObject) -> None:
    item = encode_row(row)
    name = data.draw(st.sampled_from(sorted(item)))
    item[name] = data.draw(st.one_of(st.binary(max_size=50), st.text(max_size=5), st.integers(), st.booleans()))
    try:
        decode_row(row.transactional_id, item)
    except FormatError:
        return


@given(ids, st.integers(0, 10**19), ids, partitions, st.integers(0, SEQUENCE_MAX), int64, st.integers(-1, 2**63 - 1))
def test_pending_items_are_found_in_their_transaction_alone(
    transactional_id: str,
    number: int,
    group_id: str,
    partition: PartitionId,
    sequence: int,
    offset: int,
    committed: int,
) -> None:
    batches = PendingBatches(partition, (TailEntry(bytes(16), 0, 100, 2, 5, 7, 1, sequence),), committed)
    pending = PendingOffset(group_id, partition, "topic", OffsetAndMetadata(offset, 3, "m"), "member", 4, 5)
    keys = [batches_key(transactional_id, number, batches), offset_key(transactional_id, number, group_id, partition)]
    items = [encode_batches(batches), encode_offset(pending)]
    decoded = decode_pending([Row(key, item) for key, item in zip(keys, items, strict=True)])
    assert decoded == ([batches], [pending])
    for other, is_in in ((number, True), (number + 1, False), (number - 1, False)):
        if other >= 0:
            pk, start, end = pending_range(transactional_id, other)
            assert all((key.pk == pk and start <= key.sk < end) is is_in for key in keys)


@given(st.integers(0, SEQUENCE_MAX), st.lists(st.integers(1, 1000), min_size=1, max_size=20), st.randoms())
def test_a_chain_is_put_in_order_across_the_wrap(start: int, counts: list[int], random: object) -> None:
    partition, expected, sequence = PartitionId(UUID(int=1), 0), [], start
    for count in counts:
        expected.append(TailEntry(bytes(16), 0, 100, count, 5, 7, 1, sequence))
        sequence = (sequence + count) % (SEQUENCE_MAX + 1)
    shuffled = [PendingBatches(partition, (entry,)) for entry in expected]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert chains(shuffled) == {partition: expected}


def test_a_release_that_knows_no_told_offsets_refuses_them() -> None:
    batches = PendingBatches(PartitionId(UUID(int=1), 0), (TailEntry(bytes(16), 0, 100, 2, 5, 7, 1, 0),))
    assert encode_batches(batches)["v"] == 1
    assert encode_batches(replace(batches, told_offset=0))["v"] == 2


def test_an_unknown_version_is_refused() -> None:
    row = TransactionRow("tx", 1, 0, 1000)
    with pytest.raises(FormatError):
        decode_row("tx", {**encode_row(replace(row)), "v": 2})
