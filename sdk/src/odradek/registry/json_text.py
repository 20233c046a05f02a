"""JSON texts of schemas: only what RFC 8259 allows and UTF-8 can encode, so that it can be stored and sent. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from odradek.registry.errors import SchemaInvalid

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def load_json(text: str) -> Any:
    """Parse a document. Raises SchemaInvalid, also for NaN, numbers beyond a double, and halves of surrogate pairs."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant, parse_float=_number)
        if _ESCAPED_SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise SchemaInvalid("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise SchemaInvalid("it contains half of a surrogate pair, which UTF-8 cannot encode") from None
    except SchemaInvalid:
        raise
    except ValueError as error:
        raise SchemaInvalid(f"it is not JSON: {error}") from None
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise SchemaInvalid(f"it is not JSON: {name} is not allowed")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise SchemaInvalid(f"the number {text[:40]} is too large")
    return number
