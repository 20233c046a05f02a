"""A head that the partitions of a topic share (docs/decisions/0030, docs/formats/shared_head.md).

Key: that of the head of the first of them. Names are short since each append pays for the item's size:

    v   format version 1
    n   next offsets                   l   log starts                  m   merged offsets
    es  start offsets of the leader epoch, a copy of `n`               all four: place -> number, 0 where there is none
    t   tail: elements, oldest first; each holds the batches of one append (engine/partition/packed_entries.py)
    q   elements that have left the tail for pages
    c   elements that have left the pages for index rows
    ce  elements up to which a spill is moving pages to rows; absent: none does
    rm  running maximum: the largest timestamp of everything that left the tail, of any of the partitions, ms
    sf, wf, li, le    spill floor, sweep floor, leader id, leader epoch, as in a head of one partition
    by  bytes appended to all of them
    p   producers: id -> place -> stamp: epoch * 2^31 + next sequence; and <place>f -> stamp of the first batch of the
        epoch here, where its sequence is not 0. All that is known of a producer, or nothing: then its row has it
    u   producer id -> commit time of its newest batch that left the tail, ms
    pv  how many times a producer left `p` for a row (producer_rows.py)
    pe  elements up to which producers leave with what they have in the tail, since more write than `p` has room for
    w   mark, as in a head of one partition: somebody waits for the next append to any of them
    g   fence of a topic that has grown, as in a head of one partition

`PartitionHead` is the view of one partition. Its tail base follows from its next offset and the counts of its entries
in the tail, so an append writes nothing else of a partition.

A *page* takes the oldest elements of the tail, key `c#<elements before it>` beside the head. Pages are written
create-only before the head forgets their elements. A spill writes index rows of all partitions that refer to them
(extents.py), and maintenance deletes them once all of these have been merged.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.partition.head import (
    NO_FLOOR,
    NO_TIMESTAMP,
    VERSION,
    PartitionHead,
    ProducerState,
    decode_head,
)
from odradek.engine.partition.packed_entries import decode_packed_entries
from odradek.errors import FormatError
from odradek.format.item_keys import HEAD_SK, partition_pk
from odradek.format.item_size import item_size, value_size
from odradek.format.tail_entry import encode_tail_entry
from odradek.limits import PARTITIONS_PER_HEAD_MAX, SEQUENCE_MAX
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Absent, AnyOf, Compare, Condition, Item, KeptItem, Key, Path, Value

PAGE_VERSION = 1
PAGE_PREFIX = "c#"

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SEQUENCES = SEQUENCE_MAX + 1
_FIRST = "f"
_INTEGERS, _BYTES = frozenset({int}), frozenset({bytes})
_LEFT_BYTES = 8  # of a producer's `u`, without its name

Stamps = Mapping[str, int]
"""What a shared head has of one producer, or its row."""

assert len(_DIGITS) >= PARTITIONS_PER_HEAD_MAX, "a place is one character"


def page_sk(first: int) -> str:
    """The `sk` of the page whose first element has this number."""
    return f"{PAGE_PREFIX}{first:020d}"


def page_key(head_id: PartitionId, first: int) -> Key:
    """The key of a page."""
    return Key(partition_pk(head_id), page_sk(first))


def place_name(place: int) -> str:
    """A partition's name in the maps of a shared head."""
    return _DIGITS[place]


def first_name(place: str) -> str:
    """The name of a place's first stamp in a producer's map."""
    return place + _FIRST


@lru_cache(maxsize=4096)
def id_name_of(producer_id: int) -> str:
    """A producer id, which is not negative, in base 36."""
    digits = ""
    while producer_id or not digits:
        producer_id, digit = divmod(producer_id, 36)
        digits = _DIGITS[digit] + digits
    return digits


def stamp_of(epoch: int, sequence: int) -> int:
    """A producer's epoch and next sequence as one number: a later epoch is larger."""
    return epoch * _SEQUENCES + sequence


def state_of(stamps: Stamps, place: str, left_ms: int = 0) -> ProducerState | None:
    """A producer's state in the partition at a place; None: it has not written to it."""
    stamp = stamps.get(place)
    if stamp is None:
        return None
    epoch, sequence = divmod(stamp, _SEQUENCES)
    first_epoch, first_sequence = divmod(stamps.get(first_name(place), 0), _SEQUENCES)
    return ProducerState(
        epoch, sequence, spilled_ms=left_ms, first_sequence=first_sequence if first_epoch == epoch else 0
    )


def producer_bytes(id_name: str, stamps: Stamps) -> int:
    """What a producer takes of a shared head, of its item's size."""
    return 2 * (len(id_name) + 1) + value_size(stamps) + _LEFT_BYTES


@dataclass(frozen=True, slots=True)
class Page:
    """Elements that left the tail of a shared head.

    Attributes:
        first: elements before it.
        spill_floor_ms, running_max_timestamp_ms: the head's after these left it.
    """

    first: int
    elements: tuple[bytes, ...]
    spill_floor_ms: int
    running_max_timestamp_ms: int

    @property
    def end(self) -> int:
        return self.first + len(self.elements)


def encode_page(page: Page) -> Item:
    """The page's item, without its key."""
    return {
        "v": PAGE_VERSION,
        "e": list(page.elements),
        "sf": page.spill_floor_ms,
        "rm": page.running_max_timestamp_ms,
    }


def decode_page(sk: str, item: Item) -> Page:
    """The page from its item. Raises FormatError for an unknown version or a damaged item."""
    check_version(item, PAGE_VERSION, "a page of a shared head")
    first = int(sk.removeprefix(PAGE_PREFIX))
    return Page(first, _elements(item, "e"), attribute(item, "sf", int), attribute(item, "rm", int))


@dataclass(frozen=True)
class SharedHead:
    """A shared head as the engine sees it; the maps have places, or producers' ids, as their keys."""

    next_offsets: Mapping[str, int] = field(default_factory=dict)
    log_starts: Mapping[str, int] = field(default_factory=dict)
    merged_offsets: Mapping[str, int] = field(default_factory=dict)
    epoch_starts: Mapping[str, int] = field(default_factory=dict)
    tail: tuple[bytes, ...] = ()
    paged: int = 0
    indexed: int = 0
    indexing: int | None = None
    running_max_timestamp_ms: int = NO_TIMESTAMP
    spill_floor_ms: int = 0
    sweep_floor: bytes = NO_FLOOR
    leader_id: int = FLEET_BROKER_ID
    leader_epoch: int = 0
    appended_bytes: int = 0
    stamps: Mapping[str, Stamps] = field(default_factory=dict)
    left_ms: Mapping[str, int] = field(default_factory=dict)
    evictions: int = 0
    crowded_until: int = 0
    mark: int | None = None
    fence: int = 0

    @cached_property
    def size_bytes(self) -> int:
        """The item's size by DynamoDB's rules, but for its `pk`, which takes as much in every head."""
        return item_size("", HEAD_SK, encode_shared_head(self))

    @property
    def tail_bytes(self) -> int:
        """What the tail takes of it."""
        return value_size(list(self.tail))

    @cached_property
    def producer_bytes(self) -> int:
        """What producers take of it."""
        return sum(producer_bytes(name, stamps) for name, stamps in self.stamps.items())

    @property
    def element_count(self) -> int:
        """The elements that were ever appended."""
        return self.paged + len(self.tail)

    @property
    def has_pages(self) -> bool:
        return self.indexed < self.paged

    @property
    def epoch_start(self) -> Mapping[str, int]:
        """Where the leader epoch began in each partition (leader_epochs.py)."""
        return self.epoch_starts

    def view(self, partition: PartitionId, pages: Sequence[Page] = ()) -> PartitionHead:
        """The head of one partition.

        Args:
            pages: all of them from `indexed` on, for a view whose tail begins where the index rows end; else the view's
                tail is the head's own, and what is before it is in pages or rows.
        """
        if pages:
            return self._view(partition.place, pages)
        if partition.place not in self._views:
            self._views[partition.place] = self._view(partition.place, ())
        return self._views[partition.place]

    @cached_property
    def _producer_ids(self) -> _ProducerIds:
        return _ProducerIds(self.stamps)

    @cached_property
    def _views(self) -> dict[int, PartitionHead]:
        return {}

    def _view(self, place: int, pages: Sequence[Page]) -> PartitionHead:
        name = place_name(place)
        tail: list[bytes] = []
        count = 0
        for element in (*(each for page in pages for each in page.elements), *self.tail):
            entries, offsets = _by_place(element).get(place, ((), 0))
            tail += entries
            count += offsets
        next_offset = self.next_offsets.get(name, 0)
        return PartitionHead(
            next_offset=next_offset,
            log_start_offset=self.log_starts.get(name, 0),
            tail_base_offset=next_offset - count,
            merged_offset=self.merged_offsets.get(name, 0),
            running_max_timestamp_ms=self.running_max_timestamp_ms,
            tail=tuple(tail),
            spill_floor_ms=self.spill_floor_ms,
            sweep_floor=self.sweep_floor,
            leader_id=self.leader_id,
            leader_epoch=self.leader_epoch,
            epoch_start=self.epoch_starts.get(name, 0),
            appended_bytes=self.appended_bytes,
            producers=PlacesProducers(self, name),
            evictions=self.evictions,
            mark=self.mark,
            fence=self.fence,
            is_whole=bool(pages) or not self.has_pages,
            elsewhere=self._producer_ids,
            paged=self.paged,
            element_count=self.element_count,
        )


class PlacesProducers(Mapping[int, ProducerState]):
    """The producers of one place in a shared head.

    They are read one by one: a fetch asks for none of them, an append for its own, and a head may have a thousand.
    """

    __slots__ = ("_head", "_place")

    def __init__(self, head: SharedHead, place: str) -> None:
        self._head = head
        self._place = place

    def __getitem__(self, producer_id: int) -> ProducerState:
        if producer_id < 0:
            raise KeyError(producer_id)
        head, id_name = self._head, id_name_of(producer_id)
        state = state_of(head.stamps.get(id_name, {}), self._place, head.left_ms.get(id_name, 0))
        if state is None:
            raise KeyError(producer_id)
        return state

    def __iter__(self) -> Iterator[int]:
        return (int(name, 36) for name, stamps in self._head.stamps.items() if self._place in stamps)

    def __len__(self) -> int:
        return sum(self._place in stamps for stamps in self._head.stamps.values())

    def __repr__(self) -> str:
        return repr(dict(self))


class _ProducerIds(Container[int]):
    """The ids of all producers of a shared head."""

    __slots__ = ("_stamps",)

    def __init__(self, stamps: Mapping[str, Stamps]) -> None:
        self._stamps = stamps

    def __contains__(self, producer_id: object) -> bool:
        return isinstance(producer_id, int) and producer_id >= 0 and id_name_of(producer_id) in self._stamps


HeadImage = PartitionHead | SharedHead
"""What a head's item says: of one partition, or of those that share it."""


def view_of(image: HeadImage, partition: PartitionId) -> PartitionHead:
    """The partition's head."""
    return image if isinstance(image, PartitionHead) else image.view(partition)


def ends_of(image: HeadImage, partition: PartitionId) -> tuple[int, int]:
    """Where the partition's log starts, and its next offset: without a view, which goes through the tail."""
    if isinstance(image, PartitionHead):
        return image.log_start_offset, image.next_offset
    name = place_name(partition.place)
    return image.log_starts.get(name, 0), image.next_offsets.get(name, 0)


def decode_image(head_id: PartitionId, item: Item) -> HeadImage:
    """A head from its item, once for an item that its store keeps.

    Raises FormatError for an unknown version or a damaged item.
    """
    if type(item) is not KeptItem:
        return decode_shared_head(item) if head_id.shares_head else decode_head(item)
    image: HeadImage | None = item.image
    if image is None:
        if head_id.shares_head:
            image = decode_shared_head(item)
            vars(image)["size_bytes"] = item.size_bytes - len(partition_pk(head_id))
        else:
            image = decode_head(item)
        item.image = image
    return image


def encode_shared_head(head: SharedHead) -> Item:
    """The head's item, without its key."""
    item: Item = {
        "v": VERSION,
        "n": dict(head.next_offsets),
        "l": dict(head.log_starts),
        "m": dict(head.merged_offsets),
        "es": dict(head.epoch_starts),
        "t": list(head.tail),
        "q": head.paged,
        "c": head.indexed,
        "rm": head.running_max_timestamp_ms,
        "sf": head.spill_floor_ms,
        "wf": head.sweep_floor,
        "li": head.leader_id,
        "le": head.leader_epoch,
        "by": head.appended_bytes,
        "p": {name: dict(stamps) for name, stamps in head.stamps.items()},
        "u": dict(head.left_ms),
        "pv": head.evictions,
    }
    if head.indexing is not None:
        item["ce"] = head.indexing
    if head.crowded_until:
        item["pe"] = head.crowded_until
    if head.mark is not None:
        item["w"] = head.mark
    if head.fence:
        item["g"] = head.fence
    return item


def decode_shared_head(item: Item) -> SharedHead:
    """The head from its item. Raises FormatError for an unknown version or a damaged item."""
    check_version(item, VERSION, "a shared head")
    return SharedHead(
        next_offsets=_numbers(item, "n"),
        log_starts=_numbers(item, "l"),
        merged_offsets=_numbers(item, "m"),
        epoch_starts=_numbers(item, "es"),
        tail=_elements(item, "t"),
        paged=attribute(item, "q", int),
        indexed=attribute(item, "c", int),
        indexing=attribute(item, "ce", int) if "ce" in item else None,
        running_max_timestamp_ms=attribute(item, "rm", int),
        spill_floor_ms=attribute(item, "sf", int),
        sweep_floor=attribute(item, "wf", bytes),
        leader_id=attribute(item, "li", int),
        leader_epoch=attribute(item, "le", int),
        appended_bytes=attribute(item, "by", int),
        stamps=_stamps_by_id(item),
        left_ms=_numbers(item, "u"),
        evictions=attribute(item, "pv", int),
        crowded_until=attribute(item, "pe", int) if "pe" in item else 0,
        mark=attribute(item, "w", int) if "w" in item else None,
        fence=attribute(item, "g", int) if "g" in item else 0,
    )


@lru_cache(maxsize=2048)
def _by_place(element: bytes) -> dict[int, tuple[tuple[bytes, ...], int]]:
    """An element's tail entries, and how many offsets they take, by place."""
    found: dict[int, tuple[tuple[bytes, ...], int]] = {}
    for place, entry in decode_packed_entries(element):
        entries, offsets = found.get(place, ((), 0))
        found[place] = (*entries, encode_tail_entry(entry)), offsets + entry.offset_count
    return found


def counts_of(elements: Iterable[bytes]) -> dict[int, int]:
    """How many offsets the elements take, by place."""
    counts: dict[int, int] = {}
    for element in elements:
        for place, (_, offsets) in _by_place(element).items():
            counts[place] = counts.get(place, 0) + offsets
    return counts


def decode_stamps(item: Mapping[str, object], name: str) -> Stamps:
    """What an item has of one producer under a name. Raises FormatError."""
    return _numbers(item, name)


def decode_places(item: Mapping[str, object], name: str) -> Mapping[str, int]:
    """Numbers by place. Raises FormatError."""
    return _numbers(item, name)


def _stamps_by_id(item: Item) -> dict[str, Stamps]:
    found: dict[str, Value] = attribute(item, "p", dict)
    return {name: _numbers(found, name) for name in found}


def _numbers(item: Mapping[str, object], name: str) -> dict[str, int]:
    found: dict[str, Value] = attribute(item, name, dict)
    if not _INTEGERS.issuperset(map(type, found.values())) or "" in found:
        raise FormatError(f"the map {name!r} of a shared head does not consist of numbers")
    return found  # type: ignore[return-value]


def _elements(item: Item, name: str) -> tuple[bytes, ...]:
    found = attribute(item, name, list)
    if not _BYTES.issuperset(map(type, found)):
        raise FormatError(f"the list {name!r} does not consist of elements")
    return tuple(found)


# --- paths of both kinds of heads -------------------------------------------------------------------------------------


def next_offset_path(partition: PartitionId) -> Path:
    """Return where a head has the offset of the partition's next record."""
    return ("n", place_name(partition.place)) if partition.shares_head else ("no",)


def log_start_path(partition: PartitionId) -> Path:
    """Return where a head has the partition's first offset."""
    return ("l", place_name(partition.place)) if partition.shares_head else ("ls",)


def merged_offset_path(partition: PartitionId) -> Path:
    """Return where a head has the offset up to which the partition's rows have been merged."""
    return ("m", place_name(partition.place)) if partition.shares_head else ("mo",)


def is_below(path: Path, offset: int) -> Condition:
    """True if the number at the path is below this one; a shared head does not name a number that is 0."""
    below = Compare(path, "<", offset)
    return below if len(path) == 1 else AnyOf((Absent(path), below))


def is_at(path: Path, offset: int, *, may_be_absent: bool) -> Condition:
    """True if the number at the path is this one, or, where that may be, is not named and this one is 0."""
    is_at = Compare(path, "=", offset)
    return AnyOf((Absent(path), is_at)) if may_be_absent and offset == 0 else is_at
