"""Validation of operations before anything is sent or written, the same for every backend.

    ValueError       a bug of the caller: an attribute of another type, overlapping paths, nothing to change
    StoreRejected    DynamoDB's documented limits, which may depend on data: a key, an expression, a name, a number or
                     a value that is too long or too deep

DynamoDB refuses most of these itself, later and with other messages, and the other backends would accept them. Checked
here, for all backends alike, they show in the first unit test over memory. Source: DynamoDB developer guide,
"Constraints", "Expressions", "Condition and filter expressions, operators and functions".

An expression is measured by the text that the AWS adapter sends (ports/expression_text.py). Most are so short that an
upper bound, added up on the way, suffices and no text is built. The bound is chosen so that an expression within it has
no more operators than allowed either.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from odradek.errors import ItemTooLarge, StoreRejected
from odradek.format.item_size import item_size, value_size
from odradek.limits import (
    TABLE_ATTRIBUTE_NAME_BYTES_MAX,
    TABLE_EXPRESSION_BYTES_MAX,
    TABLE_EXPRESSION_OPERATORS_MAX,
    TABLE_ITEM_BYTES_MAX,
    TABLE_NESTING_MAX,
    TABLE_NUMBER_DIGITS_MAX,
    TABLE_PARTITION_KEY_BYTES_MAX,
    TABLE_SORT_KEY_BYTES_MAX,
    TABLE_SUBSTITUTIONS_BYTES_MAX,
    TABLE_TRANSACTION_BYTES_MAX,
    TABLE_TRANSACTION_ITEMS_MAX,
    TRANSACT_GET_KEYS_MAX,
)
from odradek.ports.condition_value import KEY_ATTRIBUTES
from odradek.ports.expression_text import Expressions, condition_operators, update_operators
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
    Copy,
    Delete,
    Exists,
    Key,
    Not,
    Operation,
    Path,
    Put,
    RemoveFirst,
    Set,
    Update,
)

COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")
_NUMBER_LIMIT: Final = 10**TABLE_NUMBER_DIGITS_MAX
_KEY_PARTS: Final = (("partition", TABLE_PARTITION_KEY_BYTES_MAX), ("sort", TABLE_SORT_KEY_BYTES_MAX))
# Upper bounds of an expression's text: a step of a path is at most `#1234.`; each clause names its path at most twice.
_STEP_BYTES: Final = 12
_CLAUSE_BYTES: Final = 56  # the rest of the longest clause, with its separator
_NOT_BYTES: Final = 14
_ELEMENT_BYTES: Final = 7  # `[123], `
_NAME_CHARACTERS_MAX: Final = TABLE_ATTRIBUTE_NAME_BYTES_MAX // 4  # up to here no encoding is too long
_COMPARED: Final = frozenset({str, int, bytes})
_PATHS_KEPT: Final = 2048  # that have been found right
_TARGETS_KEPT: Final = 40  # of an update; longer ones are rare
# Shorter ones are within the limit of substitutions, as many as a short expression has.
_LONG_BYTES: Final = 4096
_LONG_ELEMENTS: Final = 64


def check_operation(operation: Operation) -> None:
    """Raise ValueError, StoreRejected or ItemTooLarge for an operation that some backend could not accept."""
    check_key(operation.key)
    try:
        bytes_max = 0 if operation.condition is None else _check_condition(operation.condition)
        if isinstance(operation, Update):
            bytes_max = max(bytes_max, _check_actions(operation.actions))
    except TypeError as unhashable:
        raise ValueError(f"a path is a tuple of names: {unhashable}") from None
    match operation:
        case Put(_, item):
            if not isinstance(item, dict):
                raise ValueError("an item must be a dict of attributes")
            for name, value in item.items():
                _check_name(name)
                if type(value) is not bytes:
                    checked(value, (name,))
            if not item.keys().isdisjoint(KEY_ATTRIBUTES):
                raise ValueError("pk and sk are the names of the key: rename the item's attributes")
            if (size := put_size(operation)) > TABLE_ITEM_BYTES_MAX:
                raise ItemTooLarge(size)
        case Update() | Delete() | Check():
            pass
    if bytes_max > TABLE_EXPRESSION_BYTES_MAX:
        _check_text(operation)


def _check_text(operation: Operation) -> None:
    """Measure the expressions as they are sent, and the values of their placeholders."""
    expressions = Expressions()
    if isinstance(operation, Update):
        text = expressions.update(operation.actions)
        _check_expression("update", text, update_operators(operation.actions))
    if operation.condition is not None:
        text = expressions.condition(operation.condition)
        _check_expression("condition", text, condition_operators(operation.condition))
    substitutions = sum(len(placeholder) + len(name.encode()) for name, placeholder in expressions.names.items())
    substitutions += sum(len(placeholder) + value_size(value) for placeholder, value in expressions.values.items())
    if substitutions > TABLE_SUBSTITUTIONS_BYTES_MAX:
        raise StoreRejected(
            f"names and values of a request may have {TABLE_SUBSTITUTIONS_BYTES_MAX} bytes, not {substitutions}"
        )


def _check_expression(expression_name: str, text: str, operators: int) -> None:
    if len(text) > TABLE_EXPRESSION_BYTES_MAX:
        raise StoreRejected(
            f"an expression may have at most {TABLE_EXPRESSION_BYTES_MAX} bytes, this {expression_name} has "
            f"{len(text)}: {text:.99} ..."
        )
    if operators > TABLE_EXPRESSION_OPERATORS_MAX:
        raise StoreRejected(
            f"an expression may have at most {TABLE_EXPRESSION_OPERATORS_MAX} operators, this {expression_name} has "
            f"{operators}: {text:.99} ..."
        )


def check_transaction(addressed: Sequence[tuple[object, Operation]]) -> None:
    """Raise ValueError for no operations, more than 100, or two on one item; for each as `check_operation`.

    Args:
        addressed: each operation with its table.
    """
    if not 0 < len(addressed) <= TABLE_TRANSACTION_ITEMS_MAX:
        raise ValueError(f"a transaction has 1 to {TABLE_TRANSACTION_ITEMS_MAX} operations, not {len(addressed)}")
    if len({(table, operation.key) for table, operation in addressed}) < len(addressed):
        raise ValueError("two operations of one transaction address the same item")
    for _, operation in addressed:
        check_operation(operation)
    size = sum(put_size(operation) for _, operation in addressed)
    if size > TABLE_TRANSACTION_BYTES_MAX:
        raise ItemTooLarge(size)


def put_size(operation: Operation) -> int:
    """Return the bytes of the item that a Put writes, 0 for other operations, which depend on the stored item."""
    return item_size(operation.key[0], operation.key[1], operation.item) if isinstance(operation, Put) else 0


def check_transact_get(keys: Sequence[Key]) -> None:
    """Check a read of several items at one moment. Raises ValueError."""
    if not 1 <= len(keys) <= TRANSACT_GET_KEYS_MAX:
        raise ValueError(f"a transaction reads 1 to {TRANSACT_GET_KEYS_MAX} items, not {len(keys)}")
    for key in keys:
        check_key(key)
    if len(set(keys)) < len(keys):
        raise ValueError("a transaction cannot read an item twice")


def check_key(key: Key) -> None:
    """Raise ValueError for a part that is not text, StoreRejected for one that is empty or too long."""
    for part, (name, limit) in zip(key, _KEY_PARTS, strict=True):
        if not isinstance(part, str):
            raise ValueError(f"a {name} key is text, not {part!r:.60}")
        if part.isascii() and 0 < len(part) <= limit:
            continue
        if not 0 < len(_encoded(part)) <= limit:
            raise StoreRejected(f"a {name} key must have 1 to {limit} bytes, not {len(part.encode())}: {part!r:.60}")


def check_query(pk: str, sk_from: str, sk_to: str | None, limit: int | None) -> None:
    """Raise as `check_key` for an invalid partition key or bound, ValueError for a negative limit."""
    for sk in (sk_from, sk_to):
        check_key(Key(pk, sk or "-"))
    if limit is not None and limit < 0:
        raise ValueError(f"a limit cannot be negative: {limit}")


def checked(value: Any, path: Path, depth: int = 1) -> Any:
    """Return the value. Raises ValueError if it or a part of it cannot be stored, StoreRejected beyond a limit."""
    value_type = type(value)
    if value_type is str:
        _encoded(value)
    elif value_type is int:
        if not -_NUMBER_LIMIT < value < _NUMBER_LIMIT:
            raise StoreRejected(f"{shown(path)}: a number may have at most {TABLE_NUMBER_DIGITS_MAX} digits")
    elif value_type is list or value_type is dict:
        if depth >= TABLE_NESTING_MAX:
            raise StoreRejected(f"{shown(path)}: lists and maps may be nested at most {TABLE_NESTING_MAX} deep")
        if value_type is list:
            for element in value:
                checked(element, path, depth + 1)
        else:
            for name, element in value.items():
                _check_name(name)
                checked(element, (*path, name), depth + 1)
    elif value_type is not bytes and value_type is not bool:
        raise ValueError(
            f"{shown(path)}: a table stores str, int, bytes, bool, list and dict, not {value_type.__name__}"
        )
    return value


def _check_condition(condition: Condition) -> int:
    """An upper bound of its text's bytes."""
    # Asked in the order of their frequency, without `match`, which takes three times as long: every write comes here.
    if isinstance(condition, Compare):
        path, op, value = condition.path, condition.op, condition.value
        bytes_max = _check_path(path)
        if op not in COMPARISONS:
            raise ValueError(f"{op!r} is not a comparison")
        if type(value) not in _COMPARED and not (type(value) in (bool, dict) and op in ("=", "<>")):
            raise ValueError(f"{shown(path)} {op}: cannot compare with a {type(value).__name__}")
        return bytes_max + _CLAUSE_BYTES + _check_value(value, path, 1)
    if isinstance(condition, (AllOf, AnyOf)):
        conditions = condition.conditions
        if not conditions:
            raise ValueError("AllOf and AnyOf need at least one condition")
        return 2 + sum(map(_check_condition, conditions))
    if isinstance(condition, (Exists, Absent)):
        return _check_path(condition.path) + _CLAUSE_BYTES
    if isinstance(condition, Not):
        return _NOT_BYTES + _check_condition(condition.condition)
    bytes_max = _check_path(condition.path)
    if type(condition.value) not in _COMPARED:
        raise ValueError(f"{shown(condition.path)}: cannot search for a {type(condition.value).__name__}")
    return bytes_max + _CLAUSE_BYTES + _check_value(condition.value, condition.path, 1)


def _check_value(value: Any, path: Path, depth: int) -> int:
    """Return `_beyond` of the value. Raises as `checked`."""
    value_type = type(value)
    if value_type is int:
        if not -_NUMBER_LIMIT < value < _NUMBER_LIMIT:
            raise StoreRejected(f"{shown(path)}: a number may have at most {TABLE_NUMBER_DIGITS_MAX} digits")
        return 0
    if value_type is bytes:
        return TABLE_EXPRESSION_BYTES_MAX if len(value) > _LONG_BYTES else 0
    checked(value, path, depth)
    return _beyond(value)


def _beyond(value: object) -> int:
    """Return more bytes than any expression may have if the value is so large that placeholders must be measured."""
    if isinstance(value, (str, bytes)):
        return TABLE_EXPRESSION_BYTES_MAX if len(value) > _LONG_BYTES else 0
    return TABLE_EXPRESSION_BYTES_MAX if isinstance(value, (list, dict)) and len(value) > _LONG_ELEMENTS else 0


def _check_actions(actions: Sequence[Action]) -> int:
    """Return an upper bound of the bytes of their text."""
    if all(isinstance(action, RemoveFirst) and action.count == 0 for action in actions):
        raise ValueError("an update that changes nothing: read with get, test a condition with Check")
    paths = tuple([action.path for action in actions])
    bytes_max = _known_targets(paths) if len(paths) <= _TARGETS_KEPT else _targets(paths)
    for action in actions:
        path = action.path
        if isinstance(action, Set):
            bytes_max += _check_value(action.value, path, len(path))
        elif isinstance(action, Append):
            for value in action.values:
                bytes_max += _check_value(value, path, len(path) + 1)
        elif isinstance(action, Add):
            amount = action.amount
            if type(amount) is not int:
                raise ValueError(f"{shown(path)}: the amount to add must be an int")
            checked(amount, path)
        elif isinstance(action, Copy):
            from_path = action.from_path
            bytes_max += _check_path(from_path)
            if from_path[0] in KEY_ATTRIBUTES or from_path == path:
                raise ValueError(f"{shown(from_path)} cannot be copied to {shown(path)}")
        elif isinstance(action, RemoveFirst):
            count = action.count
            if count < 0:
                raise ValueError(f"{shown(path)}: the number of elements to remove cannot be negative: {count}")
            bytes_max += count * (_STEP_BYTES // 2 * len(path) + _ELEMENT_BYTES)
    return bytes_max


def _targets(paths: tuple[Path, ...]) -> int:
    """The paths that one update writes: an upper bound of what they add to its text."""
    written: set[Path] = set()
    beginnings: set[Path] = set()
    bytes_max = len(paths) * _CLAUSE_BYTES
    for path in paths:
        bytes_max += _check_path(path)
        if path[0] in KEY_ATTRIBUTES:
            raise ValueError(f"{path[0]} is a part of the key and cannot be written")
        begins = [path[:length] for length in range(1, len(path) + 1)]
        if path in beginnings or not written.isdisjoint(begins):
            raise ValueError(f"two actions of one update overlap at {shown(path)}")
        written.add(path)
        beginnings.update(begins)
    return bytes_max


_known_targets = lru_cache(maxsize=_PATHS_KEPT // 4)(_targets)  # the same few are met again and again


@lru_cache(maxsize=_PATHS_KEPT)
def _check_path(path: Path) -> int:
    """Return an upper bound of the bytes that the path adds to a text; for a very long name more than any text has."""
    if type(path) is not tuple or not path:
        raise ValueError(f"a path must be a tuple of names, not {path!r:.60}")
    if len(path) > TABLE_NESTING_MAX:
        raise StoreRejected(f"a path may have at most {TABLE_NESTING_MAX} steps, not {len(path)}: {shown(path):.60}")
    bytes_max = _STEP_BYTES * len(path)
    for name in path:
        _check_name(name)
        if len(name) > _LONG_BYTES:
            bytes_max += TABLE_EXPRESSION_BYTES_MAX
    return bytes_max


def _check_name(name: object) -> None:
    if type(name) is not str or not name:
        raise ValueError(f"an attribute's name must be a non-empty string, not {name!r:.60}")
    if len(name) > _NAME_CHARACTERS_MAX and len(_encoded(name)) > TABLE_ATTRIBUTE_NAME_BYTES_MAX:
        raise StoreRejected(
            f"an attribute's name may have at most {TABLE_ATTRIBUTE_NAME_BYTES_MAX} bytes: {name!r:.60}"
        )


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("text with lone surrogates cannot be stored") from None


def shown(path: Path) -> str:
    """Return the path in the form that error messages use."""
    return ".".join(path) or "the item"
