"""Which operations every backend takes: bugs of the caller, found before anything is sent or written.

DynamoDB refuses most of these itself, later and in other words. Checking them here, for every backend alike, makes a
bug show in the first unit test over memory. All raise ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from odradek.limits import TABLE_TRANSACTION_ITEMS_MAX, TRANSACT_GET_KEYS_MAX
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
    Copy,
    Delete,
    Exists,
    Key,
    Not,
    Operation,
    Path,
    Put,
    Remove,
    RemoveFirst,
    Set,
    Update,
)

KEY_ATTRIBUTES: Final = ("pk", "sk")
COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")
NUMBER_LIMIT: Final = 10**38  # DynamoDB keeps 38 significant digits
REMOVE_FIRST_MAX: Final = 300  # so that the expression stays within DynamoDB's 4 KB
PK_BYTES_MAX: Final = 2048  # DynamoDB's limits of key attributes
SK_BYTES_MAX: Final = 1024


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


def check_transaction(addressed: Sequence[tuple[object, Operation]]) -> None:
    """Raise ValueError for no operations or more than 100, two on one item, a bad operation.

    Args:
        addressed: each operation with its table.
    """
    if not 0 < len(addressed) <= TABLE_TRANSACTION_ITEMS_MAX:
        raise ValueError(f"a transaction has 1 to {TABLE_TRANSACTION_ITEMS_MAX} operations, not {len(addressed)}")
    if len({(table, operation.key) for table, operation in addressed}) < len(addressed):
        raise ValueError("two operations of one transaction address the same item")
    for _, operation in addressed:
        check_operation(operation)


def check_transact_get(keys: Sequence[Key]) -> None:
    """What a read of several items of one moment must satisfy. Raises ValueError."""
    if not 1 <= len(keys) <= TRANSACT_GET_KEYS_MAX:
        raise ValueError(f"a transaction reads 1 to {TRANSACT_GET_KEYS_MAX} items, not {len(keys)}")
    for key in keys:
        check_key(key)
    if len(set(keys)) < len(keys):
        raise ValueError("a transaction reads no item twice")


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
            raise ValueError(f"{shown(path)}: a number has at most 38 digits")
    elif kind is list:
        for each in value:
            checked(each, path)
    elif kind is dict:
        for name, each in value.items():
            _check_name(name)
            checked(each, (*path, name))
    elif kind is not bytes and kind is not bool:
        raise ValueError(f"{shown(path)}: a table stores str, int, bytes, bool, list and dict, not {kind.__name__}")
    return value


def _check_condition(condition: Condition) -> None:
    match condition:
        case Exists(path) | Absent(path):
            _check_path(path)
        case Compare(path, op, value):
            _check_path(path)
            if op not in COMPARISONS:
                raise ValueError(f"{op!r} is no comparison")
            if type(value) not in (str, int, bytes) and not (type(value) is bool and op in ("=", "<>")):
                raise ValueError(f"{shown(path)} {op}: cannot compare with a {type(value).__name__}")
            checked(value, path)
        case Contains(path, value):
            _check_path(path)
            if type(value) not in (str, int, bytes):
                raise ValueError(f"{shown(path)}: cannot look for a {type(value).__name__}")
            checked(value, path)
        case Not(inner):
            _check_condition(inner)
        case AllOf(conditions) | AnyOf(conditions):
            if not conditions:
                raise ValueError("AllOf and AnyOf need at least one condition")
            for each in conditions:
                _check_condition(each)


def _check_actions(actions: Sequence[Action]) -> None:
    if all(isinstance(action, RemoveFirst) and action.count == 0 for action in actions):
        raise ValueError("an update that changes nothing: read with get, test a condition with Check")
    paths: list[Path] = []
    for action in actions:
        path = action.path
        _check_path(path)
        if path[0] in KEY_ATTRIBUTES:
            raise ValueError(f"{path[0]} is a part of the key and cannot be written")
        for other in paths:
            shorter = min(len(path), len(other))
            if path[:shorter] == other[:shorter]:
                raise ValueError(f"two actions of one update overlap: {shown(path)} and {shown(other)}")
        paths.append(path)
        match action:
            case Set(_, value):
                checked(value, path)
            case Copy(_, from_path):
                _check_path(from_path)
                if from_path[0] in KEY_ATTRIBUTES or from_path == path:
                    raise ValueError(f"{shown(from_path)} cannot be copied to {shown(path)}")
            case Add(_, amount):
                if type(amount) is not int:
                    raise ValueError(f"{shown(path)}: the amount to add is an int")
                checked(amount, path)
            case Append(_, values):
                for value in values:
                    checked(value, path)
            case RemoveFirst(_, count):
                if not 0 <= count <= REMOVE_FIRST_MAX:
                    raise ValueError(f"{shown(path)}: 0 to {REMOVE_FIRST_MAX} elements can be removed, not {count}")
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


def shown(path: Path) -> str:
    """A path as an error message names it."""
    return ".".join(path) or "the item"
