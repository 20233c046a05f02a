"""Positions of groups in the picture of a partition's pieces."""

from __future__ import annotations

import pytest
from odradek.console.pages.topics import boxes, marks
from odradek.operations.storage import Piece, SegmentMap
from odradek.operations.topics import Position

MAP = SegmentMap(
    100,
    400,
    300,
    1_000,
    (
        Piece("segment", 100, 200, 600, 1, 0),
        Piece("segment", 200, 300, 300, 1, 0),
        Piece("tail", 300, 400, 100, 1, 0),
    ),
    is_cut=False,
)


def position(offset: int, group: str = "g") -> Position:
    return Position(group, "consumer", offset)


@pytest.mark.parametrize(
    ("offset", "x"),
    [(100, 0), (150, 30), (199, 59.4), (200, 60), (250, 75), (300, 90), (350, 95), (400, 100), (7, 0), (9_999, 100)],
)
def test_a_position_is_drawn_within_the_piece_of_its_offset(offset: int, x: float) -> None:
    """Before the log's start it is at its left edge, and beyond the end at its right one."""
    [mark] = marks(MAP, [position(offset)])
    assert mark.x == pytest.approx(x)


def test_positions_that_are_too_close_share_a_mark() -> None:
    drawn = marks(MAP, [position(100, "a"), position(101, "b"), position(300, "c"), position(400, "d")])
    assert [(mark.number, [each.group for each in mark.positions]) for mark in drawn] == [
        (1, ["a", "b"]),
        (2, ["c"]),
        (3, ["d"]),
    ]


def test_an_empty_partition_has_no_picture_and_its_groups_stand_at_the_start() -> None:
    empty = SegmentMap(0, 0, 0, 0, (), is_cut=False)
    assert boxes(empty) == []
    assert [mark.x for mark in marks(empty, [position(0)])] == [0]


def test_the_pieces_fill_the_picture() -> None:
    drawn = boxes(MAP)
    assert [(kind, x, width) for kind, x, width, _ in drawn] == [
        ("segment", 0, 60),
        ("segment", 60, 30),
        ("tail", 90, 10),
    ]
