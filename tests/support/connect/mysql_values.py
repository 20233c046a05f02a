"""Values of every type of MySQL and MariaDB, and what change capture writes for them: Debezium's documented form.

{type: [(SQL literal, value in the record), ...]}
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

Cases = dict[str, list[tuple[str, Any]]]
_DAY = 86_400_000_000
_CZECH, _CYRILLIC, _GREEK = "žluť", "Привет", "Αθήνα"

NUMBERS: Cases = {
    "TINYINT": [("-128", -128), ("127", 127), ("0", 0)],
    "TINYINT UNSIGNED": [("255", 255), ("0", 0)],
    "TINYINT(1)": [("2", 2), ("1", 1)],
    "SMALLINT": [("-32768", -32768), ("32767", 32767)],
    "SMALLINT UNSIGNED": [("65535", 65535)],
    "MEDIUMINT": [("-8388608", -8388608), ("8388607", 8388607)],
    "MEDIUMINT UNSIGNED": [("16777215", 16777215)],
    "INT": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)],
    "INT UNSIGNED": [("4294967295", 2**32 - 1)],
    "INT(5) ZEROFILL": [("42", 42)],
    "BIGINT": [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)],
    "BIGINT UNSIGNED": [("9223372036854775807", 2**63 - 1), ("0", 0)],
    "DECIMAL(10,2)": [("12.5", Decimal("12.50")), ("-0.01", Decimal("-0.01")), ("0", Decimal("0.00")),
                      ("-99999999.99", Decimal("-99999999.99"))],
    "DECIMAL(65,30)": [("-12345678901234567890123456789012345.123456789012345678901234567891",
                        Decimal("-12345678901234567890123456789012345.123456789012345678901234567891")),
                       ("0.000000000000000000000000000001", Decimal("1E-30"))],
    "DECIMAL(20,0)": [("-18446744073709551616", Decimal(-(2**64)))],
    "DECIMAL(9,9)": [("-0.123456789", Decimal("-0.123456789")), ("0.000000001", Decimal("0.000000001"))],
    "FLOAT": [("16777216", 16777216.0), ("1234567.8", 1234567.75), ("0.1", 0.10000000149011612),
              ("3.4028234e38", 3.4028234663852886e38), ("-1e-40", -9.99994610111476e-41), ("0", 0.0)],
    "FLOAT(10,2)": [("12345.67", 12345.669921875)],
    "DOUBLE": [("0.1", 0.1), ("1.7976931348623157e308", 1.7976931348623157e308), ("-5e-324", -5e-324)],
    "YEAR": [("'0000'", 0), ("1901", 1901), ("2155", 2155)],
    "BIT(1)": [("b'1'", True), ("b'0'", False)],
    "BIT(10)": [("b'1000000001'", b"\x01\x02"), ("b'0'", b"\x00\x00")],
    "BIT(64)": [("0xFFFFFFFFFFFFFFFE", b"\xfe" + b"\xff" * 7)],
}  # fmt: skip

MOMENTS: Cases = {
    "DATE": [("'0000-00-00'", None), ("'2024-00-15'", None), ("'2024-02-00'", None), ("'1969-12-31'", -1),
             ("'9999-12-31'", 2932896), ("'1000-01-01'", -354285), ("'0001-01-01'", -719162)],
    "DATE NOT NULL": [("'0000-00-00'", 0), ("'2024-02-29'", 19782)],
    "DATETIME": [("'0000-00-00 00:00:00'", None), ("'1969-12-31 23:59:59'", -1000),
                 ("'9999-12-31 23:59:59'", 253402300799000), ("'2024-00-15 01:02:03'", None)],
    "DATETIME NOT NULL": [("'0000-00-00 00:00:00'", 0)],
    "DATETIME(1)": [("'2024-01-02 03:04:05.6'", 1704164645600)],
    "DATETIME(3)": [("'2024-01-02 03:04:05.678'", 1704164645678), ("'1969-12-31 23:59:59.999'", -1)],
    "DATETIME(6)": [("'2024-01-02 03:04:05.000001'", 1704164645000001),
                    ("'1000-01-01 00:00:00.5'", -354285 * _DAY + 500_000)],
    "TIME": [("'-838:59:59'", -3020399000000), ("'838:59:59'", 3020399000000), ("'00:00:00'", 0),
             ("'24:00:00'", _DAY)],
    "TIME(1)": [("'-00:00:00.5'", -500_000), ("'12:30:00.5'", 45000500000)],
    "TIME(3)": [("'-12:30:00.5'", -45000500000), ("'-00:00:01.001'", -1_001_000), ("'-01:00:00'", -3600000000)],
    "TIME(6)": [("'-00:00:00.000001'", -1), ("'23:59:59.999999'", 86399999999),
                ("'-838:59:58.000001'", -3020398000001)],
    "TIMESTAMP NULL": [("'2024-01-02 03:04:05'", "2024-01-02T03:04:05Z"), ("'0000-00-00 00:00:00'", None),
                       ("'1970-01-01 00:00:01'", "1970-01-01T00:00:01Z"),
                       ("'2038-01-19 03:14:07'", "2038-01-19T03:14:07Z")],
    "TIMESTAMP NOT NULL DEFAULT '2000-01-01'": [("'0000-00-00 00:00:00'", "1970-01-01T00:00:00Z")],
    "TIMESTAMP(3) NULL": [("'2024-01-02 03:04:05.120'", "2024-01-02T03:04:05.12Z"),
                          ("'2024-01-02 03:04:05'", "2024-01-02T03:04:05Z")],
    "TIMESTAMP(6) NULL": [("'2024-01-02 03:04:05.00001'", "2024-01-02T03:04:05.00001Z")],
}  # fmt: skip

_ALPHABETS = {
    "latin1": ["é€", "“q” – €", "\x81"], "latin2": [_CZECH], "latin5": ["ğüş"], "latin7": ["ąčę"], "ascii": ["a~"],
    "cp1250": [_CZECH], "cp1251": [_CYRILLIC], "cp1256": ["سلام"], "cp1257": ["ąčę"], "cp850": ["éß"],
    "cp852": [_CZECH],
    "cp866": [_CYRILLIC], "koi8r": [_CYRILLIC], "koi8u": ["їжак"], "greek": [_GREEK], "hebrew": ["שלום"],
    "tis620": ["ภาษา"], "macroman": ["é†"], "macce": [_CZECH], "keybcs2": [_CZECH], "dec8": ["éß"], "hp8": ["éß"],
    "swe7": ["åäö"], "armscii8": ["Բարեւ"], "geostd8": ["ქართ"], "ucs2": [_CZECH, ""], "utf16": [_CZECH, "😀"],
    "utf16le": [_CZECH, "😀"], "utf32": [_CZECH, "😀"], "utf8mb3": [_CZECH], "utf8mb4": ["😀", "a\\0b", " a "],
    "gbk": ["中文"], "gb2312": ["中文"], "big5": ["中文"], "sjis": ["日本ﾃ"], "cp932": ["日本ﾃ", "～①"],
    "ujis": ["日本"], "eucjpms": ["日本①"], "euckr": ["한국어"],
}  # fmt: skip
TEXTS: Cases = {
    f"VARCHAR(20) CHARACTER SET {charset}": [(f"'{text}'", text.replace("\\0", "\0")) for text in texts]
    for charset, texts in _ALPHABETS.items()
}
TEXTS |= {
    "CHAR(6)": [("'ab  '", "ab"), ("''", "")],
    "CHAR(6) CHARACTER SET ucs2": [("'é  '", "é")],
    "VARCHAR(300)": [("'a''b\\\\'", "a'b\\"), ("REPEAT('é', 300)", "é" * 300)],
    "TEXT CHARACTER SET utf16": [("'žluť'", "žluť")],
    "LONGTEXT CHARACTER SET latin1": [("REPEAT('é', 300)", "é" * 300)],
    "ENUM('it''s','b,c','back\\\\slash','ž') CHARACTER SET utf8mb4": [
        ("'it''s'", "it's"), ("'b,c'", "b,c"), ("'back\\\\slash'", "back\\slash"), ("'ž'", "ž"), ("'none'", "")],
    "ENUM('Я','é') CHARACTER SET cp1251 COLLATE cp1251_general_ci": [("'Я'", "Я")],
    "ENUM('ž','b') CHARACTER SET ucs2": [("'ž'", "ž")],
    "SET('x','y''s','ž') CHARACTER SET latin2": [("'x,ž'", "x,ž"), ("''", ""), ("'y''s'", "y's")],
    "SET('x','y') NOT NULL": [("''", ""), ("'y,x'", "x,y")],
}  # fmt: skip
BINARIES: Cases = {
    "BINARY(4)": [("x'4100'", b"A\0\0\0"), ("x'00000000'", bytes(4)), ("x'41204120'", b"A A ")],
    "BINARY(16)": [("x'0d3a7f109b2c4e118f00123456789000'", bytes.fromhex("0d3a7f109b2c4e118f00123456789000"))],
    "VARBINARY(16)": [("x'1100'", b"\x11\0"), ("''", b"")],
    "VARBINARY(300)": [("x'1100'", b"\x11\0")],
    "BLOB": [("''", b""), ("x'ff00'", b"\xff\0")],
    "LONGBLOB": [("REPEAT(x'00', 70000)", bytes(70000))],
    "POINT": [("POINT(1,-2.5)", {"x": 1.0, "y": -2.5, "wkb": bytes.fromhex(
        "0101000000000000000000f03f00000000000004c0"), "srid": None})],
    "LINESTRING": [("LINESTRING(POINT(0,0),POINT(1,1))", {
        "wkb": bytes.fromhex("01020000000200000000000000000000000000000000000000000000000000f03f000000000000f03f"),
        "srid": None})],
}  # fmt: skip

_UUIDS = ("0d3a7f10-9b2c-4e11-8f00-1234567890ab", "00000000-0000-0000-0000-000000000000",
          "a0eebc99-9c0b-1ef8-bb6d-6bb9bd380000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
          "018f2b3c-9c0b-7ef8-bb6d-6bb9bd380a00", "12345678-1234-1234-1234-123456789abc")  # fmt: skip
_ADDRESSES = ("::", "::1", "fe80::1", "2001:db8::", "::ffff:192.0.2.1", "::192.0.2.1", "1:0:0:2::3",
              "1::2:3:4:5:6:7", "1:2:3:4:5:6:7:8", "::1:0:0:0", "0:0:1::")  # fmt: skip
OF_MARIADB: Cases = {
    "UUID": [(f"'{text}'", text) for text in _UUIDS],
    "INET4": [("'198.51.100.3'", "198.51.100.3"), ("'0.0.0.0'", "0.0.0.0"), ("'203.0.113.0'", "203.0.113.0")],
    "INET6": [(f"'{text}'", text) for text in _ADDRESSES],
    "JSON": [("'{\"a\": 1.10, \"b\": \"é\"}'", '{"a": 1.10, "b": "é"}')],
    "VARCHAR(900) COMPRESSED CHARACTER SET utf8mb4": [("REPEAT('ž😀', 300)", "ž😀" * 300), ("'é'", "é"), ("''", "")],
    "VARBINARY(900) COMPRESSED": [("REPEAT(x'00ff', 300)", b"\0\xff" * 300), ("x'4100'", b"A\0")],
    "TEXT COMPRESSED CHARACTER SET latin2": [("REPEAT('žluť', 300)", "žluť" * 300), ("'ž'", "ž")],
    "LONGBLOB COMPRESSED": [("REPEAT(x'00', 70000)", bytes(70000)), ("''", b"")],
}  # fmt: skip
OF_MYSQL: Cases = {
    "JSON": [("'{\"a\": 1.5, \"b\": \"é\", \"c\": [null, true, 1e100]}'",
              '{"a": 1.5, "b": "é", "c": [null, true, 1e100]}')],
}  # fmt: skip

KEYS = ("INT UNSIGNED", "BIGINT", "DECIMAL(10,2)", "DECIMAL(65,30)", "DATE NOT NULL", "DATETIME(3)", "TIME(3)",
        "TIMESTAMP(3) NULL", "YEAR", "BINARY(4)", "BINARY(16)", "VARBINARY(16)", "CHAR(6)",
        "VARCHAR(20) CHARACTER SET latin1", "VARCHAR(20) CHARACTER SET utf16", "VARCHAR(20) CHARACTER SET sjis",
        "UUID", "INET4", "INET6")  # fmt: skip
"""Types whose values are keys too."""


def cases(kind: str) -> Cases:
    """Return the values of one kind of server: mariadb or mysql."""
    own = OF_MARIADB if kind == "mariadb" else OF_MYSQL
    return {**NUMBERS, **MOMENTS, **TEXTS, **BINARIES, **own}


def rows(cases: Cases) -> list[list[tuple[str, Any]]]:
    """Return rows that have each value of each type, and null where the type allows it."""
    listed = [values if "NOT NULL" in kind else [*values, ("NULL", None)] for kind, values in cases.items()]
    return [[values[min(place, len(values) - 1)] for values in listed] for place in range(max(map(len, listed)))]
