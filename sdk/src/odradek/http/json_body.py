"""JSON of a request: parsed in bounded time and depth, and only what can be stored and answered again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

DEPTH_MAX = 100


class NotJson(ValueError):
    """The text is no JSON that is taken; the message says why."""


def parse_json(text: bytes | str, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Return a document.

    Raises:
        NotJson: also for what is nested more than DEPTH_MAX deep, for NaN and infinities, for whole numbers of
            thousands of digits, and for halves of surrogate pairs, which UTF-8 cannot encode.
    """
    try:
        document = json.loads(text, parse_float=parse_float, parse_constant=_refuse)
        json.dumps(document, allow_nan=False, ensure_ascii=False, default=str).encode()
    except RecursionError:
        raise NotJson(f"it is nested more than {DEPTH_MAX} deep") from None
    except UnicodeEncodeError:
        raise NotJson("it has half of a surrogate pair, which UTF-8 cannot encode") from None
    except NotJson:
        raise
    except ValueError as error:
        reason = "a number is too large" if "digits" in str(error) or "Out of range" in str(error) else str(error)
        raise NotJson(reason) from None
    if _depth(document) > DEPTH_MAX:
        raise NotJson(f"it is nested more than {DEPTH_MAX} deep")
    return document


def _refuse(name: str) -> NoReturn:
    raise NotJson(f"{name} is no JSON")


def _depth(document: Any) -> int:
    """Return how deep a document is nested, at most a little more than DEPTH_MAX."""
    level, depth = [document], 0
    while level and depth <= DEPTH_MAX:
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                below.extend(node.values())
            elif isinstance(node, list):
                below.extend(node)
        level, depth = below, depth + 1
    return depth - 1
