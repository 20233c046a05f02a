"""What a condition means and what an action does: the one evaluator that memory and SQLite share.

DynamoDB evaluates the same conditions and actions itself (adapters/aws/expression.py only translates them); the
contract suite holds the two together. Everything here is pure: values in, values out, nothing shared with the caller.

A caller's bug is a ValueError, in every backend alike: a document path whose parent map is not there, a number added to
something else, a list appended to something else, two actions of one update on overlapping paths, a value of a type
that no backend stores, an attempt to write the key attributes `pk` and `sk`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from odradek.errors import ItemTooLarge
from odradek.format.item_size import item_size
from odradek.limits import TABLE_ITEM_BYTES_MAX, TABLE_TRANSACTION_ITEMS_MAX
from odradek.ports.table import (
    Absent,
    Action,
    Add,
    AllOf,
    AnyOf,
    Append,
    Check,
    Compare,
    Condition,
    Contains,
    Delete,
    Exists,
    Item,
    Key,
    Not,
    Operation,
    Path,
    Put,
    Remove,
    RemoveFirst,
    Set,
    Update,
    Value,
)

KEY_ATTRIBUTES: Final = ("pk", "sk")
NUMBER_LIMIT: Final = 10**38  # DynamoDB keeps 38 significant digits
REMOVE_FIRST_MAX: Final = 300  # so that the expression stays within DynamoDB's 4 KB
PK_BYTES_MAX: Final = 2048  # DynamoDB's limits of key attributes
SK_BYTES_MAX: Final = 1024

T = TypeVar("T")
_MISSING: Final = object()
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# --- conditions ---------------------------------------------------------------------------------------------------


def holds(condition: Condition | None, key: Key, item: Item | None) -> bool:
    """Whether the condition is true of the item (None: there is none); no condition is true."""
    match condition:
        case None:
            return True
        case Exists(path):
            return _find(path, key, item) is not _MISSING
        case Absent(path):
            return _find(path, key, item) is _MISSING
        case Compare(path, op, value):
            found = _find(path, key, item)
            return type(found) is type(value) and _ORDER[op](found, value)
        case Contains(path, value):
            found = _find(path, key, item)
            # True == 1 in Python and nowhere else, so the types are compared too.
            return isinstance(found, list) and any(type(each) is type(value) and each == value for each in found)
        case Not(inner):
            return not holds(inner, key, item)
        case AllOf(conditions):
            return all(holds(each, key, item) for each in conditions)
        case AnyOf(conditions):
            return any(holds(each, key, item) for each in conditions)


def _find(path: Path, key: Key, item: Item | None) -> Any:
    if item is None:
        return _MISSING
    if path[0] in KEY_ATTRIBUTES:
        return getattr(key, path[0]) if len(path) == 1 else _MISSING
    found: Any = item
    for step in path:
        if not isinstance(found, dict) or step not in found:
            return _MISSING
        found = found[step]
    return found


# --- actions ------------------------------------------------------------------------------------------------------


def updated(update: Update, item: Item | None) -> Item:
    """The item after the update, a new object; the old one is not touched. The condition is not looked at.

    Raises ValueError for a path whose parent is not there or a value of another type, ItemTooLarge past 400 KB.
    """
    new: Item = copied(item) if item is not None else {}
    for action in update.actions:
        _apply(action, new)
    check_item_size(update.key, new)
    return new


def _apply(action: Action, item: Item) -> None:
    parent, name = _parent(action.path, item), action.path[-1]
    match action:
        case Set(_, value):
            parent[name] = copied(value)
        case Add(path, amount):
            number = parent.get(name, 0)
            if type(number) is not int:
                raise ValueError(f"cannot add to {_shown(path)}: it holds a {type(number).__name__}, not a number")
            parent[name] = checked(number + amount, path)
        case Append(path, values):
            parent[name] = _list_at(path, parent) + [copied(value) for value in values]
        case RemoveFirst(path, count):
            if count:
                parent[name] = _list_at(path, parent)[count:]
        case Remove():
            parent.pop(name, None)


def _parent(path: Path, item: Item) -> dict[str, Value]:
    parent: Any = item
    for step in path[:-1]:
        parent = parent.get(step) if isinstance(parent, dict) else None
    if not isinstance(parent, dict):
        raise ValueError(f"cannot write {_shown(path)}: there is no map at {_shown(path[:-1])}")
    return parent


def _list_at(path: Path, parent: dict[str, Value]) -> list[Value]:
    found = parent.get(path[-1])
    if not isinstance(found, list):
        raise ValueError(f"there is no list at {_shown(path)}")
    return found


def check_item_size(key: Key, item: Item) -> int:
    """The item's size in bytes. Raises ItemTooLarge past 400 KB."""
    size = item_size(key.pk, key.sk, item)
    if size > TABLE_ITEM_BYTES_MAX:
        raise ItemTooLarge(size)
    return size


# --- validation: bugs of the caller, found before anything is sent ------------------------------------------------


def check_operation(operation: Operation) -> None:
    """Raise ValueError where an operation could not be stored by some backend."""
    check_key(operation.key)
    if operation.condition is not None:
        _check_condition(operation.condition)
    match operation:
        case Update(_, actions):
            _check_actions(actions)
        case Put(_, item):
            if not isinstance(item, dict):
                raise ValueError("an item is a dict of attributes")
            for name, value in item.items():
                _check_name(name)
                checked(value, (name,))
            if not item.keys().isdisjoint(KEY_ATTRIBUTES):
                raise ValueError("pk and sk are the key's names; an item's attributes need others")
        case Delete() | Check():
            pass


def check_transaction(keys: Sequence[object]) -> None:
    """Raise ValueError for more than 100 operations, none, or two on one key."""
    if not 0 < len(keys) <= TABLE_TRANSACTION_ITEMS_MAX:
        raise ValueError(f"a transaction has 1 to {TABLE_TRANSACTION_ITEMS_MAX} operations, not {len(keys)}")
    if len(set(keys)) < len(keys):
        raise ValueError("two operations of one transaction address the same item")


def check_key(key: Key) -> None:
    """Raise ValueError unless both parts are non-empty text within DynamoDB's limits."""
    for part, limit in ((key[0], PK_BYTES_MAX), (key[1], SK_BYTES_MAX)):
        if not isinstance(part, str) or not 0 < len(_encoded(part)) <= limit:
            raise ValueError(f"a key's part is a string of 1 to {limit} bytes, not {part!r:.60}")


def check_query(pk: str, sk_from: str, sk_to: str | None, limit: int | None) -> None:
    """Raise ValueError for a partition key or a bound that is no key, or a negative limit."""
    for sk in (sk_from, sk_to):
        check_key(Key(pk, sk or "-"))
    if limit is not None and limit < 0:
        raise ValueError(f"a limit is not negative: {limit}")


def checked(value: Any, path: Path) -> Any:
    """The value itself. Raises ValueError where it or something in it is not storable."""
    kind = type(value)
    if kind is str:
        _encoded(value)
    elif kind is int:
        if not -NUMBER_LIMIT < value < NUMBER_LIMIT:
            raise ValueError(f"{_shown(path)}: a number has at most 38 digits")
    elif kind is list:
        for each in value:
            checked(each, path)
    elif kind is dict:
        for name, each in value.items():
            _check_name(name)
            checked(each, (*path, name))
    elif kind is not bytes and kind is not bool:
        raise ValueError(f"{_shown(path)}: a table stores str, int, bytes, bool, list and dict, not {kind.__name__}")
    return value


def copied(value: T) -> T:
    """A deep copy of a stored value (or of None)."""
    return cast(T, _copied(value))


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {name: _copied(each) for name, each in value.items()}
    if kind is list:
        return [_copied(each) for each in value]
    return value


def _check_condition(condition: Condition) -> None:
    match condition:
        case Exists(path) | Absent(path):
            _check_path(path)
        case Compare(path, op, value):
            _check_path(path)
            if op not in _ORDER:
                raise ValueError(f"{op!r} is no comparison")
            if type(value) not in (str, int, bytes) and not (type(value) is bool and op in ("=", "<>")):
                raise ValueError(f"{_shown(path)} {op}: cannot compare with a {type(value).__name__}")
            checked(value, path)
        case Contains(path, value):
            _check_path(path)
            if type(value) not in (str, int, bytes):
                raise ValueError(f"{_shown(path)}: cannot look for a {type(value).__name__}")
            checked(value, path)
        case Not(inner):
            _check_condition(inner)
        case AllOf(conditions) | AnyOf(conditions):
            if not conditions:
                raise ValueError("AllOf and AnyOf need at least one condition")
            for each in conditions:
                _check_condition(each)


def _check_actions(actions: Sequence[Action]) -> None:
    paths: list[Path] = []
    for action in actions:
        path = action.path
        _check_path(path)
        if path[0] in KEY_ATTRIBUTES:
            raise ValueError(f"{path[0]} is a part of the key and cannot be written")
        for other in paths:
            shorter = min(len(path), len(other))
            if path[:shorter] == other[:shorter]:
                raise ValueError(f"two actions of one update overlap: {_shown(path)} and {_shown(other)}")
        paths.append(path)
        match action:
            case Set(_, value):
                checked(value, path)
            case Add(_, amount):
                if type(amount) is not int:
                    raise ValueError(f"{_shown(path)}: the amount to add is an int")
                checked(amount, path)
            case Append(_, values):
                for value in values:
                    checked(value, path)
            case RemoveFirst(_, count):
                if not 0 <= count <= REMOVE_FIRST_MAX:
                    raise ValueError(f"{_shown(path)}: 0 to {REMOVE_FIRST_MAX} elements can be removed, not {count}")
            case Remove():
                pass


def _check_path(path: Path) -> None:
    if type(path) is not tuple or not path:
        raise ValueError(f"a path is a tuple of names, not {path!r:.60}")
    for name in path:
        _check_name(name)


def _check_name(name: object) -> None:
    if type(name) is not str or not name:
        raise ValueError(f"an attribute's name is a non-empty string, not {name!r:.60}")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("text with lone surrogates cannot be stored") from None


def _shown(path: Path) -> str:
    return ".".join(path) or "the item"
