#!/usr/bin/env bash
# The statistics of a Parquet column cannot be read once it holds a timestamp after the year 9999 in UTC, and PyIceberg,
# which reads them to commit, cannot append such a row.
#
# Versions: pyarrow 26.0.1, pyiceberg 0.12.0; Python 3.11.
# Behaviour: 9999-12-31T23:30 in New York is valid there and 10000-01-01T04:30 in UTC, which a timestamp of 64 bits holds
#   for another 280,000 years. pyarrow writes and reads the column; `statistics.max` raises OverflowError ("date value
#   out of range"), since it makes a datetime. `statistics.max_raw` gives the number. PyIceberg's append raises the same
#   error, although its own bounds are numbers.
# Consequence: whoever reads Parquet statistics of rows that others wrote takes the raw values.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 'pyiceberg[sql-sqlite]==0.12.0'
cd "$folder"
cat > probe.py <<'PY'
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

microseconds = 253_402_317_000_000_000
rows = pa.table({"at": pa.array([microseconds], pa.timestamp("us", "UTC"))})
pq.write_table(rows, "rows.parquet")
print("read back", pq.read_table("rows.parquet")["at"].cast(pa.int64()).to_pylist() == [microseconds])
statistics = pq.read_metadata("rows.parquet").row_group(0).column(0).statistics
try:
    print("max", statistics.max)
except OverflowError as error:
    print("max", type(error).__name__, error)
print("max_raw", statistics.max_raw)
catalog = SqlCatalog("c", uri="sqlite:///catalog.db", warehouse="file://.")
catalog.create_namespace("n")
table = catalog.create_table("n.t", schema=rows.schema)
try:
    table.append(rows)
    print("append", table.scan().to_arrow().num_rows)
except OverflowError as error:
    print("append", type(error).__name__, error)
PY
cat > expected <<'SEEN'
read back True
max OverflowError date value out of range
max_raw 253402317000000000
append OverflowError date value out of range
SEEN
"$folder/venv/bin/python" probe.py | tee seen
diff expected seen && echo "as described"
