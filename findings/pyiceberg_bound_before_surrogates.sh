#!/usr/bin/env bash
# PyIceberg cannot append a text whose sixteenth character is U+D7FF, the last one before the surrogates.
#
# Versions: pyiceberg 0.12.0 with pyarrow 26.0.1; Python 3.11.
# Behaviour: the upper bound of a text column is its first 16 characters with the last one raised by one. U+D7FF + 1 is
#   U+D800, a surrogate, which UTF-8 cannot encode: the append raises UnicodeEncodeError and nothing is committed. The
#   text itself is valid UTF-8; U+D7FB, a Hangul letter, in the same place is taken. U+10FFFF, which has no successor,
#   is handled.
# Consequence: a writer of Iceberg tables that commits through PyIceberg computes text bounds itself, or turns metrics
#   of the column to `counts`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 'pyiceberg[sql-sqlite]==0.12.0'
cd "$folder"
cat > probe.py <<'PY'
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

catalog = SqlCatalog("c", uri="sqlite:///catalog.db", warehouse="file://.")
catalog.create_namespace("n")
for number, character in enumerate(("\ud7fb", "\ud7ff", "\U0010ffff")):
    rows = pa.table({"text": ["a" * 15 + character + "b"]})
    table = catalog.create_table(f"n.t{number}", schema=rows.schema)
    try:
        table.append(rows)
        outcome = "appended"
    except UnicodeEncodeError as error:
        outcome = f"{type(error).__name__}: {error.reason}"
    print(f"U+{ord(character):04X}", outcome, table.scan().to_arrow().num_rows)
counted = pa.table({"text": ["a" * 15 + "\ud7ff" + "b"]})
properties = {"write.metadata.metrics.column.text": "counts"}
table = catalog.create_table("n.counted", schema=counted.schema, properties=properties)
table.append(counted)
print("metrics counts", table.scan().to_arrow().num_rows)
PY
cat > expected <<'SEEN'
U+D7FB appended 1
U+D7FF UnicodeEncodeError: surrogates not allowed 0
U+10FFFF appended 1
metrics counts 1
SEEN
"$folder/venv/bin/python" probe.py | tee seen
diff expected seen && echo "as described"
