"""The evaluation of conditions and operations, which the memory and SQLite backends share.

DynamoDB evaluates the same conditions and actions itself (ports/expression_text.py translates them); the contract
suite checks that both agree. Everything here is pure and shares no values with the caller.

Operations must have passed validation.py. Errors that depend on the stored item are found here and raise StoreRejected:
a document path without its parent map, a number added or a list appended to another type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

from odradek.adapters.validation import checked, shown
from odradek.errors import ConditionFailed, ItemTooLarge, StoreRejected, TransactionCanceled
from odradek.format.item_size import attributes_size, item_size, value_size
from odradek.limits import TABLE_ITEM_BYTES_MAX, TABLE_TRANSACTION_BYTES_MAX
from odradek.ports.condition_value import holds
from odradek.ports.table import (
    Action,
    Add,
    Append,
    Check,
    Copy,
    Delete,
    Item,
    KeptItem,
    Key,
    LiveUpdate,
    Operation,
    Path,
    Put,
    Remove,
    RemoveFirst,
    Set,
    Undecided,
    Update,
    Value,
)

T = TypeVar("T")


class State(NamedTuple):
    """The stored item of a key. It is never changed in place: a write creates another state."""

    item: KeptItem | None  # None: there is none
    size_bytes: int  # as DynamoDB counts it, 0 where there is no item


NOTHING: Final = State(None, 0)


def state_of(key: Key, item: Item) -> State:
    """Return the state of a stored item. Raises ItemTooLarge above 400 KB."""
    return _sized(item, item_size(key[0], key[1], item))


def _changed(key: Key, item: Item, old: State) -> State:
    """Return the state of an item that has been made from an older one: only what is another object is measured."""
    before = old.item
    if before is None:
        return state_of(key, item)
    size = old.size_bytes
    for name, value in item.items():
        was = before.get(name)
        if value is not was:
            size += value_size(value) - value_size(was) if was is not None else attributes_size({name: value})
    if not before.keys() <= item.keys():
        size -= attributes_size({name: before[name] for name in before.keys() - item.keys()})
    return _sized(item, size)


def _sized(item: Item, size: int) -> State:
    if size > TABLE_ITEM_BYTES_MAX:
        raise ItemTooLarge(size)
    return State(KeptItem(item, size), size)


# --- operations ---------------------------------------------------------------------------------------------------


def after(operation: Operation, old: State) -> State:
    """Return the state after the operation.

    Raises ConditionFailed, ItemTooLarge, StoreRejected (a path without its parent, a value of another type).
    """
    if not holds(operation.condition, operation.key, old.item):
        raise ConditionFailed(old.item)
    return _applied(operation, old)


def after_live(update: LiveUpdate, old: State) -> State:
    """Return the state after an update that decides by itself; the same as `after`, and raises the same."""
    try:
        item = update.decide(old.item)
    except Undecided:
        return after(update, old)
    if item is None:
        raise ConditionFailed(old.item)
    return _changed(update.key, item, old)


def after_all(operations: Sequence[Operation], olds: Sequence[State]) -> list[State]:
    """Return the states after the operations of one transaction, each on a different item.

    Raises TransactionCanceled if a condition is false; otherwise as `after`.
    """
    failures = [
        None if holds(operation.condition, operation.key, old.item) else ConditionFailed(old.item)
        for operation, old in zip(operations, olds, strict=True)
    ]
    if any(failures):
        raise TransactionCanceled(failures)
    news = [_applied(operation, old) for operation, old in zip(operations, olds, strict=True)]
    size = sum(max(old.size_bytes, new.size_bytes) for old, new in zip(olds, news, strict=True))
    if size > TABLE_TRANSACTION_BYTES_MAX:
        raise ItemTooLarge(size)
    return news


def _applied(operation: Operation, old: State) -> State:
    match operation:
        case Update(key, actions):
            item: Item = dict(old.item or {})  # maps and lists below are copied where an action changes them
            for action in actions:
                _apply(action, item, old.item or {})
            return _changed(key, item, old)
        case Put(key, item):
            return state_of(key, copied(item))
        case Delete():
            return NOTHING
        case Check():
            return old


# --- actions ------------------------------------------------------------------------------------------------------


def _apply(action: Action, item: Item, old: Item) -> None:
    parent, name = _parent(action.path, item), action.path[-1]
    match action:
        case Set(_, value):
            parent[name] = copied(value)
        case Copy(_, from_path):
            parent[name] = copied(_value_at(from_path, old))
        case Add(path, amount):
            number = parent.get(name, 0)
            if type(number) is not int:
                raise StoreRejected(f"cannot add to {shown(path)}: it holds a {type(number).__name__}, not a number")
            parent[name] = checked(number + amount, path)
        case Append(path, values):
            parent[name] = _list_at(path, parent) + [copied(value) for value in values]
        case RemoveFirst(path, count):
            if count:
                parent[name] = _list_at(path, parent)[count:]
        case Remove():
            parent.pop(name, None)


def _parent(path: Path, item: Item) -> dict[str, Value]:
    """Return the map that holds the path's last step: a copy, which has replaced the original in `item`."""
    parent = item
    for step in path[:-1]:
        child = parent.get(step)
        if not isinstance(child, dict):
            raise StoreRejected(f"cannot write {shown(path)}: there is no map at {shown(path[:-1])}")
        copy = dict(child)
        parent[step] = copy
        parent = copy
    return parent


def _value_at(path: Path, item: Item) -> Value:
    current: Any = item
    for step in path:
        if not isinstance(current, dict) or step not in current:
            raise StoreRejected(f"cannot copy {shown(path)}: it does not exist")
        current = current[step]
    return cast(Value, current)


def _list_at(path: Path, parent: dict[str, Value]) -> list[Value]:
    elements = parent.get(path[-1])
    if not isinstance(elements, list):
        raise StoreRejected(f"there is no list at {shown(path)}")
    return elements


def copied(value: T) -> T:
    """Return a deep copy of a stored value (or of None)."""
    return cast(T, _copied(value))


def _copied(value: Any) -> Any:
    value_type = type(value)
    if value_type is dict or value_type is KeptItem:
        return {name: _copied(element) for name, element in value.items()}
    if value_type is list:
        return [_copied(element) for element in value]
    return value
