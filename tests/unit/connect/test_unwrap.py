"""Debezium's ExtractNewRecordState, with and without schemas."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.connect import plugins
from odradek.connect.data import INT32, STRING, Struct, plain, struct
from odradek.connect.data.schema import OPTIONAL_INT64, OPTIONAL_STRING
from odradek.connect.errors import ConfigError
from odradek.connect.record import ConnectRecord, Header

_ROW = struct({"id": INT32, "name": OPTIONAL_STRING, "place": OPTIONAL_STRING}, name="s.t.Value", optional=True)
_SOURCE = struct({"table": STRING, "lsn": OPTIONAL_INT64}, name="Source")
_ENVELOPE = struct(
    {"before": _ROW, "after": _ROW, "source": _SOURCE, "op": STRING, "ts_ms": OPTIONAL_INT64}, name="s.t.Envelope"
)
_KEY = struct({"id": INT32}, name="s.t.Key")
OLD, NEW = {"id": 1, "name": "old", "place": "x"}, {"id": 1, "name": "new", "place": None}


def change(op: str, before: Any, after: Any, *, schemas: bool = True, **more: Any) -> ConnectRecord:
    key: Any = {"id": 1}
    value: Any = {"before": before, "after": after, "source": {"table": "t", "lsn": 7}, "op": op, "ts_ms": 5}
    if not schemas:
        return ConnectRecord(topic="in", key=key, value=value, **more)
    rows = {name: None if value[name] is None else Struct(_ROW, value[name]) for name in ("before", "after")}
    made = Struct(_ENVELOPE, {**value, **rows, "source": Struct(_SOURCE, value["source"])})
    return ConnectRecord(topic="in", key=Struct(_KEY, key), key_schema=_KEY, value=made, value_schema=_ENVELOPE, **more)


def unwrapped(record: ConnectRecord, **configs: str) -> ConnectRecord | None:
    found: Any = plugins.find("transforms", "io.debezium.transforms.ExtractNewRecordState").load()()
    found.configure({name.replace("_", "."): value for name, value in configs.items()})
    result: ConnectRecord | None = found.apply(record)
    if result is not None and result.value_schema is not None:
        assert result.value.schema == result.value_schema
        result.value.validate()
    return result


def value(record: ConnectRecord | None) -> Any:
    assert record is not None
    return plain(record.value)


TOMBSTONE = ConnectRecord(topic="in", key={"id": 1})


@pytest.mark.parametrize("schemas", [True, False])
def test_rows_deletes_and_tombstones_in_every_mode(schemas: bool) -> None:
    for op in "cru":
        assert value(unwrapped(change(op, None, NEW, schemas=schemas))) == NEW
    delete = change("d", OLD, None, schemas=schemas)
    rewritten = {**OLD, "__deleted": "true"}
    expected: dict[str, tuple[Any, Any]] = {
        "drop": (None, None),
        "tombstone": (TOMBSTONE.value, None),
        "delete-to-tombstone": (TOMBSTONE.value, None),
        "rewrite": (rewritten, None),
        "rewrite-with-tombstone": (rewritten, TOMBSTONE),
    }
    for mode, (of_delete, of_tombstone) in expected.items():
        found = unwrapped(delete, delete_tombstone_handling_mode=mode)
        assert (found is None) == (mode == "drop"), mode
        if found is not None:
            assert value(found) == of_delete, mode
            assert found.key == delete.key
        assert unwrapped(TOMBSTONE, delete_tombstone_handling_mode=mode) == of_tombstone, mode
    update = change("u", None, NEW, schemas=schemas)
    assert value(unwrapped(update, delete_tombstone_handling_mode="rewrite")) == {**NEW, "__deleted": "false"}
    assert unwrapped(change("t", None, None, schemas=schemas)) is None


def test_the_older_names_of_the_modes() -> None:
    delete = change("d", OLD, None)
    assert unwrapped(delete, delete_handling_mode="drop") is None
    assert unwrapped(TOMBSTONE, drop_tombstones="false") == TOMBSTONE
    assert value(unwrapped(delete, delete_handling_mode="none")) is None
    assert unwrapped(TOMBSTONE, delete_handling_mode="none") is None
    assert value(unwrapped(delete, delete_handling_mode="rewrite"))["__deleted"] == "true"


@pytest.mark.parametrize("schemas", [True, False])
def test_fields_and_headers_of_the_envelope_are_added(schemas: bool) -> None:
    record = unwrapped(
        change("u", OLD, NEW, schemas=schemas),
        add_fields="op,table,source.lsn,ts_ms:at,transaction.id", add_headers="op,source.lsn", add_headers_prefix="h_",
    )  # fmt: skip
    assert value(record) == {**NEW, "__op": "u", "__table": "t", "__source_lsn": 7, "__at": 5, "__transaction_id": None}
    assert record is not None
    assert [(each.key, each.value) for each in record.headers] == [("h_op", "u"), ("h_source_lsn", 7)]


def test_routing_and_fields_that_a_header_names() -> None:
    assert unwrapped(change("u", OLD, NEW), route_by_field="name").topic == "new"  # type: ignore[union-attr]
    assert unwrapped(change("d", OLD, None), route_by_field="name").topic == "old"  # type: ignore[union-attr]
    named = (Header("gone", ["id", "place"]),)
    record = change("u", OLD, NEW, headers=named)
    kept = unwrapped(record, drop_fields_header_name="gone")
    assert value(kept) == {"id": 1, "name": "new"}  # id is required, so that its absence would break the schema
    options = {"drop_fields_header_name": "gone", "drop_fields_keep_schema_compatible": "false"}
    dropped = unwrapped(record, **options, drop_fields_from_key="true")
    assert value(dropped) == {"name": "new"}
    assert dropped is not None
    assert plain(dropped.key) == {}


def test_what_is_no_change_passes_and_mistakes_are_named() -> None:
    for other in (ConnectRecord(topic="in", value={"a": 1}), ConnectRecord(topic="in", value="text")):
        assert unwrapped(other) == other
    with pytest.raises(ConfigError, match="must be one of"):
        unwrapped(TOMBSTONE, delete_tombstone_handling_mode="keep")
    with pytest.raises(ConfigError, match=r"field or block\.field"):
        unwrapped(TOMBSTONE, add_fields="source.")
