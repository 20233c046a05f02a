#!/usr/bin/env bash
# pyarrow's readers of JSON and CSV take a number that float32 has no room for as infinity, without an error.
#
# Versions: pyarrow 26.0.1; Python 3.11.
# Behaviour: the text 1e39 read into a float32 column is inf, and -1e39 is -inf, by both readers; JSON itself has no
#   infinity. Into float64, 1e309 is refused by the JSON reader and inf by the CSV reader. A whole number too large for
#   its column is refused by both. A cast of 1e39 to float32 gives infinity as well.
# Consequence: who fills narrow columns from JSON compares the results with infinity, and the texts, or reads into
#   float64 first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
cd "$folder"
cat > probe.py <<'PY'
import io

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.json as json


def of_json(text, kind):
    options = json.ParseOptions(explicit_schema=pa.schema([("v", kind)]))
    return json.read_json(io.BytesIO(b'{"v": %s}\n' % text), parse_options=options)["v"].to_pylist()


def of_csv(text, kind):
    options = csv.ConvertOptions(column_types={"v": kind})
    return csv.read_csv(io.BytesIO(b"v\n%s\n" % text), convert_options=options)["v"].to_pylist()


for text, kind in ((b"1e39", pa.float32()), (b"-1e39", pa.float32()), (b"1e309", pa.float64()), (b"300", pa.int8())):
    for name, read in (("json", of_json), ("csv", of_csv)):
        try:
            outcome = read(text, kind)
        except pa.ArrowInvalid:
            outcome = "refused"
        print(name, text.decode(), "into", kind, outcome)
print("cast", pa.array([1e39]).cast(pa.float32()).to_pylist())
PY
cat > expected <<'SEEN'
json 1e39 into float [inf]
csv 1e39 into float [inf]
json -1e39 into float [-inf]
csv -1e39 into float [-inf]
json 1e309 into double refused
csv 1e309 into double [inf]
json 300 into int8 refused
csv 300 into int8 refused
cast [inf]
SEEN
"$folder/venv/bin/python" probe.py | tee seen
diff expected seen && echo "as described"
