"""Records of a topic: browse, one record, two compared, and the streams that search, follow and export."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from odradek.console.events import Event
from odradek.console.forms import Fields, place_of, query_of
from odradek.console.pages.base import page, render, state_of, streamed
from odradek.console.rendering import url
from odradek.console.state import ConsoleState
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.places import Place, parse_place
from odradek.operations.records.browse import LIMIT_MAX, browse, raw_value, read_one
from odradek.operations.records.export import KINDS, ROWS_MAX, export
from odradek.operations.records.filters import Filter
from odradek.operations.records.formats import FORMATS
from odradek.operations.records.search import Progress, search
from odradek.operations.records.tail import tail
from odradek.operations.records.view import Formats, RecordView
from odradek.operations.schemas import difference

_PARTITIONS_MAX = 1_000
_SHOWN_CHARACTERS = 200_000  # of a value in a page; the rest is in the download
_MEDIA = {"csv": "text/csv; charset=utf-8", "json": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
_SUFFIX = {"csv": "csv", "json": "jsonl", "parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class View:
    """What a URL says about the records to show: sharing the URL shares the view."""

    topic: str
    partitions: tuple[int, ...]
    order: str  # newest | oldest
    start: str  # earliest, an offset, -N, @TIME, or ""
    cursor: str
    limit: int
    wanted: Filter
    formats: Formats

    @property
    def place(self) -> Place | None:
        """Where to begin. Raises KafkaError(INVALID_CONFIG)."""
        return parse_place(self.start, "from") if self.start else None

    def link(self, path: str = "", **changes: Any) -> str:
        """Return the URL of this view with changes."""
        values: dict[str, Any] = {
            "partition": ",".join(map(str, self.partitions)),
            "order": "" if self.order == "newest" else self.order,
            "from": self.start,
            "cursor": self.cursor,
            "limit": "" if self.limit == 50 else self.limit,
            "q": self.wanted.text,
            "key": self.wanted.key,
            "header": self.wanted.header,
            "where": self.wanted.where,
            "keys": "" if self.formats.key == "auto" else self.formats.key,
            "values": "" if self.formats.value == "auto" else self.formats.value,
        } | changes
        return url(f"/topics/{self.topic}/records{path}", **values)


def view_of(request: Request) -> View:
    """Read a view. Raises KafkaError(INVALID_CONFIG)."""
    query = query_of(request)
    formats = Formats(query.choice("keys", FORMATS, "auto"), query.choice("values", FORMATS, "auto"))
    return View(
        request.path_params["name"],
        _numbers(query),
        query.choice("order", ("newest", "oldest"), "newest"),
        query.text("from"),
        query.text("cursor"),
        query.number("limit", 50, 1, LIMIT_MAX),
        Filter(query.text("q"), query.text("key"), query.text("header"), query.text("where")),
        formats,
    )


def _numbers(query: Fields) -> tuple[int, ...]:
    texts = [part for text in query.all("partition") for part in text.replace(",", " ").split()]
    if len(texts) > _PARTITIONS_MAX or not all(text.isdecimal() and len(text) < 10 for text in texts):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "partition must be numbers, such as 0,2")
    return tuple(sorted({int(text) for text in texts}))


@page
async def records(request: Request) -> Response:
    """The page of a view: without a filter the records themselves, with one the frame of a search."""
    state, view = state_of(request), view_of(request)
    place = view.place
    found = None
    if not view.wanted and not query_of(request).flag("live"):
        newest_first = view.order == "newest"
        found = await browse(
            state.cluster,
            view.topic,
            partitions=view.partitions,
            place=place,
            cursor=view.cursor,
            newest_first=newest_first,
            limit=view.limit,
            decoder=await state.decoder(),
            formats=view.formats,
        )
    else:
        view.wanted.records()  # an invalid expression is shown here, not in the stream
    count = (await state.cluster.admin.describe_topics([view.topic]))[view.topic].partition_count
    return render(
        request,
        "records.html",
        view=view,
        page=found,
        partition_count=count,
        formats=FORMATS,
        live=query_of(request).flag("live"),
        kinds=KINDS,
        rows_max=ROWS_MAX,
    )


@page
async def record(request: Request) -> Response:
    """One record, whole."""
    state, query = state_of(request), query_of(request)
    formats = Formats(query.choice("keys", FORMATS, "auto"), query.choice("values", FORMATS, "auto"))
    name, partition, offset = _place(request)
    found = await read_one(state.cluster, name, partition, offset, await state.decoder(), formats)
    if found is None:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{name}-{partition} has no record at offset {offset}: "
                         "it was compacted away, or is the mark of a transaction")  # fmt: skip
    return render(
        request,
        "record.html",
        record=found,
        formats=FORMATS,
        chosen=formats,
        shown=_SHOWN_CHARACTERS,
        other=query.text("with"),
    )


def _place(request: Request) -> tuple[str, int, int]:
    params = request.path_params
    return params["name"], params["partition"], params["offset"]


@page
async def raw(request: Request) -> Response:
    """The bytes of a key or a value, as a download."""
    name, partition, offset = _place(request)
    part = "key" if query_of(request).text("part") == "key" else "value"
    data = await raw_value(state_of(request).cluster, name, partition, offset, key=part == "key")
    headers = {"Content-Disposition": f'attachment; filename="{name}-{partition}-{offset}-{part}.bin"'}
    return Response(data or b"", media_type="application/octet-stream", headers=headers)


@page
async def compare(request: Request) -> Response:
    """Two records of a topic, side by side, with what differs."""
    state, query, name = state_of(request), query_of(request), request.path_params["name"]
    places = [_partition_and_offset(query.text(each), each) for each in ("a", "b")]
    decoder = await state.decoder()
    both = [await read_one(state.cluster, name, *place, decoder, Formats()) for place in places]
    missing = [place for place, found in zip(places, both, strict=True) if found is None]
    if missing:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{name}-{missing[0][0]} has no record at {missing[0][1]}")
    left, right = [each for each in both if each is not None]
    return render(
        request,
        "compare.html",
        name=name,
        left=left,
        right=right,
        parts=[
            ("Key", difference(left.key.pretty, right.key.pretty), left.key),
            (
                "Value",
                difference(left.value.pretty[:_SHOWN_CHARACTERS], right.value.pretty[:_SHOWN_CHARACTERS]),
                left.value,
            ),
            ("Headers", difference(_headers(left), _headers(right)), None),
        ],
    )


def _headers(record: RecordView) -> str:
    return "\n".join(f"{each.name}: {each.value.text}" for each in record.headers)


def _partition_and_offset(text: str, name: str) -> tuple[int, int]:
    place = place_of(text)
    if place is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be partition:offset, not {text[:40]!r}")
    return place


# --- streams ----------------------------------------------------------------------------------------------------------


@page
async def search_events(request: Request) -> Response:
    """Matching records as they are found: events `rows` (HTML), `progress`, `problem`, `end`."""
    state, view = state_of(request), view_of(request)
    return streamed(request, _searched(state, view, view.place))


async def _searched(state: ConsoleState, view: View, place: Place | None) -> AsyncGenerator[Event]:
    searching = search(
        state.cluster,
        view.topic,
        view.wanted,
        partitions=view.partitions,
        place=place,
        newest_first=view.order == "newest",
        limit=view.limit,
        decoder=await state.decoder(),
        formats=view.formats,
    )
    async with aclosing(searching) as found:
        async for each in found:
            if isinstance(each, Progress):
                progress = {"scanned": each.scanned, "total": each.total, "matched": each.matched}
                yield "progress", {**progress, "finished": each.is_finished}
            else:
                yield "rows", _rows(state, each)


def _rows(state: ConsoleState, found: Sequence[RecordView]) -> str:
    return state.templates.render("record_rows.html", records=found)


@page
async def tail_events(request: Request) -> Response:
    """Records as they arrive: events `rows` (HTML, oldest first) and `progress`."""
    state, view = state_of(request), view_of(request)
    return streamed(request, _followed(state, view))


async def _followed(state: ConsoleState, view: View) -> AsyncGenerator[Event]:
    seen = matched = 0
    yield "progress", {"seen": 0, "matched": 0, "skipped": 0}
    arriving = tail(
        state.cluster,
        view.topic,
        view.wanted,
        partitions=view.partitions,
        decoder=await state.decoder(),
        formats=view.formats,
    )
    async with aclosing(arriving):
        async for each in arriving:
            seen += each.seen
            matched += len(each.records) + each.skipped
            if each.records:
                yield "rows", _rows(state, each.records)
            yield "progress", {"seen": seen, "matched": matched, "skipped": each.skipped}


@page
async def download(request: Request) -> Response:
    """The matching records as a file."""
    state, view, query = state_of(request), view_of(request), query_of(request)
    kind = query.text("as") or "json"
    chunks = export(
        state.cluster,
        view.topic,
        kind,
        view.wanted,
        partitions=view.partitions,
        place=view.place,
        rows_max=query.number("rows", ROWS_MAX, 1, ROWS_MAX),
        decoder=await state.decoder(),
        formats=view.formats,
    )
    first = await anext(chunks, b"")  # an error before the first byte is a page, not a broken file
    name = f"{view.topic}.{_SUFFIX.get(kind, 'bin')}"
    return StreamingResponse(
        _with_first(first, chunks),
        media_type=_MEDIA[kind],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _with_first(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for chunk in rest:
            yield chunk
