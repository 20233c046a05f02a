#!/usr/bin/env bash
# Filters that should find NaN lose its rows in Parquet files that pyarrow wrote, although the same filters find them
# in memory.
#
# Versions: pyarrow 26.0.1 (writer and reader), duckdb 2.0.1, polars 2.1.0, pyiceberg 0.12.0; Python 3.11.
# Behaviour: pyarrow leaves NaN out of the minimum and maximum of a column chunk, as the Parquet format asks. A reader
#   may then not prune by these bounds where NaN satisfies the filter.
#   - DuckDB prunes all the same: `isnan(v)` and `v > 5` find nothing in the file, and one row in memory (DuckDB orders
#     NaN above every number).
#   - pyarrow's dataset takes a chunk whose minimum is its maximum for constant: `is_nan(v)` and `v != 1` find nothing.
#   - PyIceberg reads through that dataset: `v is nan` finds nothing in a table that PyIceberg itself wrote.
#   - Polars finds the rows.
# Consequence: a writer that cannot choose its readers writes no bounds for a column chunk that holds NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0 'pyiceberg[sql-sqlite]==0.12.0'
cd "$folder"
cat > probe.py <<'PY'
import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

nan = float("nan")
mixed, constant = pa.table({"v": [1.0, 2.0, nan]}), pa.table({"v": [1.0, 1.0, nan]})
pq.write_table(mixed, "mixed.parquet")
pq.write_table(constant, "constant.parquet")
bounds = pq.read_metadata("mixed.parquet").row_group(0).column(0).statistics
print("bounds", bounds.min, bounds.max)

for condition in ("isnan(v)", "v > 5"):
    counts = [
        duckdb.sql(f"SELECT count(*) FROM {source} WHERE {condition}").fetchall()[0][0]
        for source in ("mixed", "'mixed.parquet'")
    ]
    print("duckdb", condition, "memory", counts[0], "file", counts[1])

v = pc.field("v")
for label, condition in (("is_nan(v)", pc.is_nan(v)), ("v != 1", v != 1)):
    memory = constant.filter(condition).num_rows
    print("pyarrow", label, "memory", memory, "file", ds.dataset("constant.parquet").to_table(filter=condition).num_rows)

catalog = SqlCatalog("c", uri="sqlite:///catalog.db", warehouse="file://.")
catalog.create_namespace("n")
table = catalog.create_table("n.t", schema=constant.schema)
table.append(constant)
print("pyiceberg v is nan", table.scan(row_filter="v is nan").to_arrow().num_rows)

print("polars is_nan", polars.scan_parquet("constant.parquet").filter(polars.col("v").is_nan()).collect().height)
PY
cat > expected <<'SEEN'
bounds 1.0 2.0
duckdb isnan(v) memory 1 file 0
duckdb v > 5 memory 1 file 0
pyarrow is_nan(v) memory 1 file 0
pyarrow v != 1 memory 1 file 0
pyiceberg v is nan 0
polars is_nan 1
SEEN
"$folder/venv/bin/python" probe.py | tee seen
diff expected seen && echo "as described"
