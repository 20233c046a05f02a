#!/usr/bin/env bash
# PyIceberg writes, and reads, a null list of structs as an empty list.
#
# Versions: pyiceberg 0.12.0 with pyarrow 26.0.1; Python 3.11.
# Behaviour: a table with a column list<struct<a: int>> gets the rows null, [] and [{a: 1}] by `append`. Its data file
#   has [], [] and [{a: 1}]: the null is lost. A file of pyarrow's that has the null, added by `add_files`, reads as []
#   in a scan. A list of numbers keeps its null both ways.
# Consequence: a writer that must keep such nulls makes the data file itself; a reader cannot tell null from [] there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 'pyiceberg[sql-sqlite]==0.12.0'
cd "$folder"
cat > probe.py <<'PY'
import os

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

catalog = SqlCatalog("c", uri="sqlite:///catalog.db", warehouse="file://.")
catalog.create_namespace("n")
structs = pa.list_(pa.struct([("a", pa.int32())]))
rows = pa.table({"s": pa.array([None, [], [{"a": 1}]], structs), "n": pa.array([None, [], [1]], pa.list_(pa.int32()))})
appended, added = (catalog.create_table(f"n.{name}", schema=rows.schema) for name in ("appended", "added"))
appended.append(rows)
pq.write_table(rows, "rows.parquet")
added.add_files([os.path.abspath("rows.parquet")])
for name, table in (("appended", appended), ("added", added)):
    [task] = table.scan().plan_files()
    file = pq.read_table(task.file.file_path.removeprefix("file://"))
    for place, found in (("file", file), ("scan", table.scan().to_arrow())):
        print(name, place, "structs", found["s"].to_pylist(), "numbers", found["n"].to_pylist())
PY
cat > expected <<'SEEN'
appended file structs [[], [], [{'a': 1}]] numbers [None, [], [1]]
appended scan structs [[], [], [{'a': 1}]] numbers [None, [], [1]]
added file structs [None, [], [{'a': 1}]] numbers [None, [], [1]]
added scan structs [[], [], [{'a': 1}]] numbers [None, [], [1]]
SEEN
"$folder/venv/bin/python" probe.py | tee seen
diff expected seen && echo "as described"
