"""The comments of dataclass fields, which document arguments and settings where they are defined.

A field's comment follows it on its last line, or is the comment lines directly above it:

    trigger: str = "2 seconds"  # how often to look for records
    # How often
    # to look for records
    trigger: str = "2 seconds"
"""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from typing import Any


def field_comments(dataclass_type: type[Any]) -> dict[str, str]:
    """Return the comments of a class's fields, those of its bases first; empty if the source cannot be read."""
    comments: dict[str, str] = {}
    for base in reversed(dataclass_type.__mro__[:-1]):
        try:
            comments |= comments_in(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError):
            continue
    return comments


def comments_in(source: str) -> dict[str, str]:
    """Return the comments of the annotated names in the source of a class."""
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    lines = source.splitlines()
    [body] = [node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    by_name = {}
    for node in body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        text = comments.get(node.end_lineno or node.lineno, "")
        above = node.lineno - 1
        while not text or above + 1 < node.lineno:
            if above not in comments or not lines[above - 1].lstrip().startswith("#"):
                break
            text, above = f"{comments[above]} {text}".strip(), above - 1
        if text:
            by_name[node.target.id] = text
    return by_name
