"""The plan of a script as a drawing: topics and queries, from left to right. Pure.

columns    a topic that no query writes stands first; a query stands behind all that it reads, its topic behind it
edges      from what is read to who reads, and from a query to the topic that it writes
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odradek.operations.sql.script import StatementRow

_WIDTH, _HEIGHT = 190, 46  # of a node
_ACROSS, _DOWN = 250, 70  # from one to the next
_MARGIN = 8
NODES_MAX = 200


@dataclass(frozen=True, slots=True)
class Node:
    """A topic or a query, with its place in the drawing."""

    kind: str  # topic | query
    name: str
    x: int
    y: int
    query_id: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """A line between two nodes, as a path of SVG."""

    path: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The drawing."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int
    node_width: int = _WIDTH
    node_height: int = _HEIGHT


def graph_of(statements: Iterable[StatementRow]) -> Graph | None:
    """Return the drawing of a script's queries; None if it has none, or too many."""
    queries = [each for each in statements if each.reads]
    if not queries:
        return None
    depth: dict[tuple[str, str], int] = {}
    ids: dict[tuple[str, str], str] = {}
    links: list[tuple[tuple[str, str], tuple[str, str]]] = []
    for number, each in enumerate(queries):
        query = ("query", each.name or f"{each.kind} in line {each.line}")
        if query in depth:  # two statements may have no name of their own
            query = ("query", f"{query[1]} ({number + 1})")
        ids[query] = each.query_id
        for topic in each.reads:
            depth.setdefault(("topic", topic), 0)
            links.append((("topic", topic), query))
        depth[query] = 1 + max(depth[("topic", topic)] for topic in each.reads)
        if each.writes:
            target = ("topic", each.writes)
            depth[target] = max(depth.get(target, 0), depth[query] + 1)
            links.append((query, target))
    if len(depth) > NODES_MAX:
        return None
    rows: dict[int, int] = {}
    places: dict[tuple[str, str], Node] = {}
    for node, column in sorted(depth.items(), key=lambda each: each[1]):
        row = rows.get(column, 0)
        rows[column] = row + 1
        places[node] = Node(node[0], node[1], _MARGIN + column * _ACROSS, _MARGIN + row * _DOWN, ids.get(node, ""))
    edges = tuple(Edge(_path(places[start], places[end])) for start, end in links)
    columns = 1 + max(depth.values())
    width = 2 * _MARGIN + (columns - 1) * _ACROSS + _WIDTH
    height = 2 * _MARGIN + (max(rows.values()) - 1) * _DOWN + _HEIGHT
    return Graph(tuple(places.values()), edges, width, height)


def _path(start: Node, end: Node) -> str:
    x1, y1, x2, y2 = start.x + _WIDTH, start.y + _HEIGHT // 2, end.x, end.y + _HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"
