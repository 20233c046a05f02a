"""Values of types of PostgreSQL, and what change capture writes for them: Debezium's documented form.

{type: [(SQL literal, value in the record), ...]}
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from odradek.model import decimals

from tests.support.connect.mysql_values import Cases

_WEI = 2**256 - 1


def free(text: str) -> dict[str, Any]:
    """Return a number in the form that has its own scale."""
    number = Decimal(text)
    scale = max(-int(number.as_tuple().exponent), 0)
    return {"scale": scale, "value": decimals.to_bytes(decimals.to_unscaled(number, scale))}


def array_of(literals: str) -> str:
    return f"'{{{literals}}}'"


NAN = Decimal("NaN")
CASES: Cases = {
    "smallint": [("-32768", -32768), ("32767", 32767)],
    "integer": [("-2147483648", -(2**31)), ("0", 0)],
    "bigint": [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)],
    "boolean": [("true", True), ("false", False)],
    "real": [("'NaN'", float("nan")), ("'Infinity'", float("inf")), ("0.1", 0.1), ("16777216", 16777216.0),
             ("-1e-40", -1e-40)],
    "double precision": [("'NaN'", float("nan")), ("'-Infinity'", float("-inf")), ("5e-324", 5e-324),
                         ("1.7976931348623157e308", 1.7976931348623157e308)],
    "numeric": [(str(_WEI), free(str(_WEI))), ("1.50", free("1.50")), ("-0.00071", free("-0.00071")), ("0", free("0")),
                ("12345678901234567890123456789012345678.0123456789",
                 free("12345678901234567890123456789012345678.0123456789")), ("'NaN'", None), ("'Infinity'", None)],
    "numeric(38,10)": [("1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
                       ("'NaN'", None), ("0", Decimal("0E-10"))],
    "numeric(5,-2)": [("-1234500", Decimal(-1234500))],
    "money": [("'-12.34'", Decimal("-12.34"))],
    "text": [("''", ""), (r"E'a\tb\n'", "a\tb\n"), ("'😀'", "😀")],
    "varchar(20)": [("'ab  '", "ab  ")],
    "char(5)": [("'ab'", "ab   ")],
    '"char"': [("'x'", "x")],
    "name": [("'a name'", "a name")],
    "bytea": [(r"'\x4100'", b"A\0"), ("''", b"")],
    "uuid": [("'00000000-0000-0000-0000-000000000000'", "00000000-0000-0000-0000-000000000000")],
    "date": [("'1969-12-31'", -1), ("'infinity'", 2**31 - 1), ("'-infinity'", -(2**31)), ("'10000-01-01'", 2932897),
             ("'0044-03-15 BC'", -735160)],
    "time": [("'24:00:00'", 86_400_000_000), ("'23:59:59.999999'", 86_399_999_999)],
    "time(3)": [("'01:02:03.456'", 3_723_456)],
    "timetz": [("'23:59:59.999999-15:59'", "15:58:59.999999Z")],
    "timestamp": [("'infinity'", 9223372036825200000), ("'-infinity'", -9223372036832400000),
                  ("'1969-12-31 23:59:59.999999'", -1), ("'10000-01-01'", 253402300800000000),
                  ("'0044-03-15 12:00 BC'", -63517780800000000)],
    "timestamp(3)": [("'1969-12-31 23:59:59.999'", -1), ("'infinity'", 9223372036825200)],
    "timestamptz": [("'2024-02-29 12:34:56.5+02'", "2024-02-29T10:34:56.500000Z"), ("'infinity'", "infinity"),
                    ("'10000-01-01 00:00+00'", "+10000-01-01T00:00:00.000000Z"),
                    ("'0044-03-15 12:00+00 BC'", "-0043-03-15T12:00:00.000000Z")],
    "timestamptz(3)": [("'2024-02-29 12:34:56.5+00'", "2024-02-29T12:34:56.500Z")],
    "interval": [("'1 mon'", 2_629_800_000_000), ("'-1 day -00:00:00.5'", -86_400_500_000), ("'0'", 0)],
    "json": [("'{\"a\": 1.10}'", '{"a": 1.10}')],
    "jsonb": [("'{\"n\": 12345678901234567890.123456789}'", '{"n": 12345678901234567890.123456789}'),
              ("'null'", "null"), ("'\"text\"'", '"text"')],
    "bit(1)": [("B'1'", True)],
    "bit(10)": [("B'1010101010'", b"\xaa\x02")],
    "bit varying(20)": [("B''", b""), ("B'101'", b"\x05")],
    "mood": [("'it''s'", "it's"), ("'a,b'", "a,b")],
    "positive": [("5", 5)],
    "hstore": [("'a=>1, b=>NULL, \"q\\\"\"=>\"x, y\"'", '{"a":"1","b":null,"q\\"":"x, y"}'), ("''", "{}")],
    "tsvector": [("'a fat cat'", "'a' 'cat' 'fat'")],
    "ltree": [("'a.b'", "a.b")],
    "citext": [("'Ab'", "Ab")],
    "int4range": [("'[1,5)'", "[1,5)"), ("'empty'", "empty")],
    "inet": [("'192.0.2.1/24'", "192.0.2.1/24")],
    "int[]": [("'{1,NULL,3}'", [1, None, 3]), ("'{}'", []), ("'[5:6]={1,2}'", [1, 2]), ("'{{1,2},{3,4}}'", None)],
    "text[]": [("ARRAY['NULL', NULL, 'a,b', E'q\"\\\\', '']", ["NULL", None, "a,b", 'q"\\', ""])],
    "numeric(10,2)[]": [("'{1.5,2}'", [Decimal("1.50"), Decimal("2.00")]), ("'{1.5,NaN}'", None)],
    "numeric[]": [("'{1.5,NULL}'", [free("1.5"), None])],
    "interval[]": [("'{1 day,NULL}'", [86_400_000_000, None])],
    "int4range[]": [("'{\"[1,5)\"}'", ["[1,5)"])],
    "inet[]": [("'{192.0.2.1/8}'", ["192.0.2.1/8"])],
}  # fmt: skip

KEYS = ("smallint", "bigint", "boolean", "real", "double precision", "numeric", "numeric(38,10)", "text", "varchar(20)",
        "char(5)", "bytea", "uuid", "date", "time", "timestamp", "timestamp(3)", "timestamptz", "mood", "positive",
        "citext", "ltree", "inet", "int[]", "text[]", "bit(10)", "int4range")  # fmt: skip
"""Types whose values are keys too."""

LARGE = {  # types of values that are stored outside of the row, and how such a value is made
    "smallint[]": "array(SELECT (random() * 3e4)::smallint FROM generate_series(1, 3000))",
    "int[]": "array(SELECT (random() * 2e9)::int FROM generate_series(1, 900))",
    "bigint[]": "array(SELECT (random() * 9e18)::bigint FROM generate_series(1, 900))",
    "real[]": "array(SELECT random() FROM generate_series(1, 1500))",
    "float8[]": "array(SELECT random() FROM generate_series(1, 900))",
    "boolean[]": "array(SELECT random() < 0.5 FROM generate_series(1, 12000))",
    "numeric(10,2)[]": "array(SELECT (random() * 1e6)::numeric(10,2) FROM generate_series(1, 900))",
    "numeric[]": "array(SELECT (random() * 1e6)::numeric(10,2)::numeric FROM generate_series(1, 900))",
    "date[]": "array(SELECT date '2000-01-01' + (random() * 9000)::int FROM generate_series(1, 900))",
    "timestamp[]": "array(SELECT date_trunc('ms', timestamp '2000-01-01' + random() * interval '9000 days') "
                   "FROM generate_series(1, 900))",
    "timestamptz[]": "array(SELECT timestamptz '2000-01-01' + random() * interval '9000 days' "
                     "FROM generate_series(1, 900))",
    "uuid[]": "array(SELECT gen_random_uuid() FROM generate_series(1, 300))",
    "text[]": "array(SELECT md5(random()::text) FROM generate_series(1, 300))",
    "bytea": "decode(string_agg, 'hex')",
    "text": "string_agg",
    "jsonb": "to_jsonb(string_agg)",
    "numeric": "(SELECT string_agg(((random() * 8)::int + 1)::text, '')::numeric FROM generate_series(1, 12000))",
    "bit varying": "(SELECT string_agg((random() < 0.5)::int::text, '')::varbit FROM generate_series(1, 12000))",
}  # fmt: skip
LARGE_ROW = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 150)) source"


def sets(columns: int) -> list[list[tuple[str, Any]]]:
    """Return rows that have each value of each type, and null."""
    listed = [[*values, ("NULL", None)] for values in CASES.values()]
    assert len(listed) == columns
    return [[values[min(place, len(values) - 1)] for values in listed] for place in range(max(map(len, listed)))]
