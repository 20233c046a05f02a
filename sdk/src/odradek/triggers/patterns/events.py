"""Events as patterns see them: each value below its path, with the elements of arrays in which it lies.

    {"items": [{"sku": "A", "qty": 1}, {"sku": "B", "qty": 9}]}
    items.sku    A in element 0    B in element 1
    items.qty    1 in element 0    9 in element 1

Values that match together are in the same element of each array that they share. Numbers keep their spelling.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Chain = tuple[tuple[int, int], ...]
"""Arrays, outermost first, and the element of each in which a value lies."""
Fields = dict[str, list[tuple[str, Chain]]]


class Literal(str):
    """The text of a number, of true, false or null: no text of JSON."""

    __slots__ = ()


class Object(list[tuple[str, Any]]):
    """The members of an object; a name may be there twice."""


_LITERALS = {True: Literal("true"), False: Literal("false"), None: Literal("null")}


def parse(text: str) -> Any:
    """Return JSON as `fields_of` takes it. Raises ValueError, RecursionError."""
    return json.loads(text, object_pairs_hook=Object, parse_int=Literal, parse_float=Literal, parse_constant=Literal)


def fields_of(event: Iterable[tuple[str, Any]], names: Collection[str]) -> Fields:
    """Return the values of an event by path, names joined by dots; members with other names are left out.

    Raises RecursionError.
    """
    fields: Fields = {}
    arrays = iter(range(2**62))

    def add_members(members: Iterable[tuple[str, Any]], prefix: str, chain: Chain) -> None:
        for name, value in members:
            if name in names:
                add(value, f"{prefix}{name}", chain)

    def add(value: Any, path: str, chain: Chain) -> None:
        if isinstance(value, Object):
            add_members(value, f"{path}.", chain)
        elif isinstance(value, list):
            array = next(arrays)
            for index, element in enumerate(value):
                add(element, path, (*chain, (array, index)) if isinstance(element, list) else chain)
        else:
            fields.setdefault(path, []).append((value if isinstance(value, str) else _LITERALS[value], chain))

    add_members(event, "", ())
    return fields


@dataclass(slots=True)
class _Node:
    """Chains with one beginning."""

    ends: bool = False
    arrays: dict[int, dict[int, _Node]] = field(default_factory=dict)


def lie_together(candidates: Iterable[Collection[Chain]]) -> bool:
    """Return True if one of each of these chains can be chosen so that no two name different elements of one array."""
    chains_of = list(candidates)
    arrays_of = [{array for chain in chains for array, _ in chain} for chains in chains_of]
    counts = Counter(array for arrays in arrays_of for array in arrays)
    shared = {array for array, count in counts.items() if count > 1}
    chosen: set[Chain] = {()}
    for chains, arrays in zip(chains_of, arrays_of, strict=True):
        node = _Node()
        for chain in {tuple(element for element in chain if element[0] in shared) for chain in chains}:
            _add(node, chain)
        counts.subtract(arrays)
        ahead = {array for array, count in counts.items() if count > 0}
        chosen = {
            tuple(sorted(element for element in {*elements, *more} if element[0] in ahead))
            for elements in chosen
            for more in _consistent(node, dict(elements))
        }
        if not chosen:
            return False
    return True


def _add(node: _Node, chain: Chain) -> None:
    for array, index in chain:
        node = node.arrays.setdefault(array, {}).setdefault(index, _Node())
    node.ends = True


def _consistent(node: _Node, chosen: Mapping[int, int]) -> Iterator[Chain]:
    """Yield the chains that agree with the chosen elements; below one that ends no longer one, which says more."""
    if node.ends:
        yield ()
        return
    for array, elements in node.arrays.items():
        index = chosen.get(array)
        wanted = elements if index is None else {index} & elements.keys()
        for position in wanted:
            for further in _consistent(elements[position], chosen):
                yield ((array, position), *further)
