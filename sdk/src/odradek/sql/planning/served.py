"""Options of a served table (odradek.model.table) from those of a table of a script."""

from __future__ import annotations

from typing import Any

from odradek.model.table import Format, WindowType
from odradek.sql.catalog import Column, Source

_OF_KAFKA = {"VARCHAR": Format.STRING, "INT": Format.INT, "BIGINT": Format.BIGINT, "DOUBLE": Format.DOUBLE}
_FORMATS = {
    "JSON": Format.JSON,
    "JSON_SR": Format.JSON,
    "AVRO": Format.AVRO,
    "DELIMITED": Format.STRING,
    "PROTOBUF": Format.BYTES,
    "PROTOBUF_NOSR": Format.BYTES,
    "RAW": Format.BYTES,
    "NONE": Format.BYTES,
}


def served_options(source: Source) -> dict[str, Any]:
    """The options with which `Admin.serve_table` serves a table."""
    window = WindowType(source.window).value if source.window else ""
    return {
        "key_format": _format(source.key_format, source.keys).value,
        "value_format": _format(source.value_format, source.values).value,
        "window": window,
        "window_size_ms": source.window_ms if window and window != WindowType.SESSION else 0,
    }


def _format(form: str, columns: tuple[Column, ...]) -> Format:
    if form == "KAFKA":
        return _OF_KAFKA.get(columns[0].type.name, Format.BYTES) if len(columns) == 1 else Format.BYTES
    return _FORMATS[form]
