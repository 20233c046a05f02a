"""JSON as a schema may hold it: what RFC 8259 has and UTF-8 can write, so that it can be stored and sent. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from odradek.registry.errors import SchemaInvalid

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def load_json(text: str) -> Any:
    """The document. Raises SchemaInvalid: for NaN, numbers that no double holds, and halves of surrogate pairs too."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant, parse_float=_number)
        if _ESCAPED_SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise SchemaInvalid("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise SchemaInvalid("it has half of a surrogate pair, which UTF-8 cannot write") from None
    except SchemaInvalid:
        raise
    except ValueError as error:
        raise SchemaInvalid(f"it is not JSON: {error}") from None
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise SchemaInvalid(f"it is not JSON: {name} is no number")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise SchemaInvalid(f"the number {text[:40]} is too large")
    return number
