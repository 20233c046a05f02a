"""Targets of fuzzing: each draws one input and feeds it to decoders. Only OdradekError may come out of them.

A target returns whether its input was accepted. Beyond "no other exception" it checks what acceptance promises: both
engines of columnar read the same, what was decoded can be encoded and walked, no codec exceeds its limit.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.columnar.decode import decode_to_arrow
from odradek.columnar.names import COLUMNS
from odradek.engine.partition.head import decode_head
from odradek.engine.partition.index_row import decode_index_row
from odradek.errors import FormatError, OdradekError
from odradek.format.compression import decompress
from odradek.format.crc import crc32c
from odradek.format.offset_index import decode_offset_index, encode_offset_index
from odradek.format.record_batch import decode_batch, decode_batches, iter_headers, validate_batches
from odradek.format.segment import find_timestamp, index_segment, select_batches, verify_segment
from odradek.format.tail_entry import decode_tail_entries, decode_tail_entry, encode_tail_entry
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
)

from tests.property.fuzz import corpus
from tests.property.fuzz.mutations import mutated, mutated_item

DECOMPRESSED_LIMIT = 64 * 1024
_CRC_AT, _CRC_START, _HEADER_BYTES = 17, 21, 61


@dataclass(frozen=True, slots=True)
class Target:
    """A family of decoders.

    Attributes:
        weight: its share of a run's inputs.
        run: draws an input and decodes it; True where it was accepted. Raises OdradekError where it was refused.
    """

    name: str
    weight: int
    run: Callable[[random.Random], bool]


def _batch(chance: random.Random) -> bytes:
    """A damaged batch; mostly its length and CRC are made right again, so that the damage gets past them."""
    seeds = corpus.batches()
    data = mutated(seeds[int(chance.random() * len(seeds))], seeds, chance)
    fate = chance.random()
    if fate < 0.2 or len(data) < _HEADER_BYTES:
        return data
    out = bytearray(data)
    if fate < 0.9:
        struct.pack_into(">i", out, 8, len(out) - 12)
        out[16] = 2
    struct.pack_into(">I", out, _CRC_AT, crc32c(memoryview(out)[_CRC_START:]))
    return bytes(out)


_BATCH_READERS: tuple[Callable[[bytes], Any], ...] = (
    lambda data: validate_batches(data, max_message_bytes=1 << 20),
    lambda data: decode_batch(data),
    lambda data: list(decode_batches(data, verify_crc=False)),
    lambda data: list(iter_headers(data)),
    lambda data: verify_segment(data, index_segment(data, base_offset=0)),
    lambda data: select_batches(data, 5, 1000),
    lambda data: find_timestamp(data, 5),
)


def batch_python(chance: random.Random) -> bool:
    """Batches through every reader of format/."""
    data = _batch(chance)
    refused = 0
    for read in _BATCH_READERS:
        try:
            read(data)
        except OdradekError:
            refused += 1
    return refused < len(_BATCH_READERS)


def batch_columnar(chance: random.Random) -> bool:
    """Batches through both engines of columnar: they read the same or refuse the same.

    But columns and rows that are not asked for are not read whole by numba's engine: damage there passes it unseen.
    """
    data = _batch(chance)
    options: dict[str, Any] = {
        "columns": COLUMNS if chance.random() < 0.5 else chance.sample(COLUMNS, 3),
        "verify_crc": chance.random() < 0.5,
    }
    if chance.random() < 0.3:
        options |= {"start_offset": 5, "end_offset": 30, "min_timestamp_ms": 1_700_000_000_000}
    answers: list[Any] = []
    for engine in ("numba", "python"):
        try:
            answers.append(decode_to_arrow(data, topic="t", partition=0, engine=engine, **options))
        except FormatError as error:
            answers.append(error.code)
    fast, plain = answers
    if isinstance(fast, int) or isinstance(plain, int):
        asks_for_all = {"key", "value", "headers"} <= set(options["columns"]) and "start_offset" not in options
        same = fast == plain or not (asks_for_all or isinstance(fast, int))
    else:
        same = fast.equals(plain)
    assert same, f"the engines disagree: {fast!r} and {plain!r}"
    return not isinstance(fast, int)


def compression(chance: random.Random) -> bool:
    """Compressed bytes, as any codec."""
    seeds = corpus.packed()
    codec, data = seeds[int(chance.random() * len(seeds))]
    data = mutated(data, [other for _, other in seeds], chance)
    if chance.random() < 0.1:
        codec = int(chance.random() * 8)  # type: ignore[assignment]
    content = decompress(codec, data, limit=DECOMPRESSED_LIMIT)
    assert len(content) <= DECOMPRESSED_LIMIT
    return True


def request_frame(chance: random.Random) -> bool:
    """Request frames, as a server reads them; what was read can be written."""
    seeds = corpus.requests()
    data = mutated(seeds[int(chance.random() * len(seeds))], seeds, chance)
    header = parse_request_header(data)
    request = decode_request(data, header)
    encode_request(request.message, correlation_id=header.correlation_id, client_id=header.client_id)
    if header.api_key == ApiKey.PRODUCE:
        for topic in request.message.topic_data:
            for partition in topic.partition_data:
                if partition.records is not None:
                    validate_batches(partition.records, max_message_bytes=1 << 20)
    return True


def response_frame(chance: random.Random) -> bool:
    """Response frames, as our clients read them."""
    seeds = corpus.responses()
    schema, data = seeds[int(chance.random() * len(seeds))]
    data = mutated(data, (seeds[int(chance.random() * len(seeds))][1],), chance)
    response = decode_response(data, schema, correlation_id=7)
    encode_response(response, correlation_id=7)
    return True


def tail_entry(chance: random.Random) -> bool:
    """Tail entries, one and many."""
    seeds = corpus.tail_entries()
    data = mutated(seeds[int(chance.random() * len(seeds))], seeds, chance)
    if chance.random() < 0.5:
        data = data[: len(data) // 60 * 60]
    entries = decode_tail_entries(data)
    assert b"".join(map(encode_tail_entry, entries)) == data
    if data:
        decode_tail_entry(data)
    return True


def head_item(chance: random.Random) -> bool:
    """Head items, and what the engine asks of a head."""
    head = decode_head(mutated_item(chance.choice(corpus.heads()), chance))
    list(head.entries())
    for producer_id in head.producers:
        head.recent_batches(producer_id)
    if head.tail:
        assert head.find(head.tail[-1]) is not None
    return True


def index_row(chance: random.Random) -> bool:
    """Index rows of both kinds."""
    decode_index_row(chance.randrange(100), mutated_item(chance.choice(corpus.index_rows()), chance))
    return True


def offset_index(chance: random.Random) -> bool:
    """Offset indexes, mostly under a right CRC, and the look-ups in those that are accepted."""
    seeds = corpus.offset_indexes()
    data = mutated(seeds[int(chance.random() * len(seeds))], seeds, chance)
    if chance.random() < 0.9 and len(data) > 4:
        data = data[:-4] + struct.pack(">I", crc32c(data[:-4]))
    index = decode_offset_index(data)
    for offset in (-1, 0, index.base_offset, index.end_offset - 1, index.end_offset, 2**63 - 1):
        start, end = index.locate_offset(offset)
        assert 0 <= start <= end <= index.size_bytes
    index.stretches()
    assert encode_offset_index(index) == data
    return True


TARGETS = (
    Target("batch, Python", 20, batch_python),
    Target("batch, columnar", 8, batch_columnar),
    Target("compression", 10, compression),
    Target("request frame", 24, request_frame),
    Target("response frame", 14, response_frame),
    Target("tail entry", 6, tail_entry),
    Target("head item", 6, head_item),
    Target("index row", 6, index_row),
    Target("offset index", 6, offset_index),
)
