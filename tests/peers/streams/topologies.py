"""The topologies that are compared, as statements of stream SQL, and their inputs; Topologies.java has the same names.

Topics: streams a and b, tables t and u. A value is a text and a number. Each variant of an input is a partition of its
own here, with keys and texts of its own, and a driver of its own in Java: so one run of a statement answers all. A
record has its variant and place as the header `from`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.conformance.sql.streamed import Sent

SOURCES = """
    CREATE STREAM a (k VARCHAR KEY, g VARCHAR, n INT) WITH (KAFKA_TOPIC = 'a', VALUE_FORMAT = 'DELIMITED');
    CREATE STREAM b (k VARCHAR KEY, h VARCHAR, m INT) WITH (KAFKA_TOPIC = 'b', VALUE_FORMAT = 'DELIMITED');
    CREATE TABLE t (k VARCHAR PRIMARY KEY, g VARCHAR, n INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'DELIMITED');
    CREATE TABLE u (k VARCHAR PRIMARY KEY, h VARCHAR, m INT) WITH (KAFKA_TOPIC = 'u', VALUE_FORMAT = 'DELIMITED');
    SET 'ksql.persistence.default.format.value' = 'DELIMITED';
"""
VERSIONS = SOURCES.replace("(KAFKA_TOPIC = 'u', ", "(KAFKA_TOPIC = 'u', HISTORY_RETENTION = '1 DAYS', ")

# Inputs by variant: topic, key, value and seconds of each record, in the order in which they arrive; - is null.

ONE_STREAM: Mapping[str, str] = {
    "in order": "a k x,1 1; a k y,2 4; a l x,3 12; a k x-y,4 17",
    "out of order": "a k x,1 12; a k y,2 3; a k x,3 9; a l y,2 21; a k x,1 14.5; a k y,7 25",
    "late": "a k x,1 30; a k x,2 1; a k y,3 15; a k x,4 26; a k z,5 60; a k y,6 45; a l x,7 20",
    "null": "a k x,1 1; a - x,2 2; a k - 3; a k y,3 12; a l - 30",
    "rekeyed": "a k x,1 5; a l x,2 6; a k y,3 2; a l y,1 18; a m x,5 16; a k x,2 31",
    "merged": "a k x,1 10; a k y,2 30; a k z,3 20; a k x,4 45; a k y,1 37; a k w,2 8; a k v,1 61",
}
TWO_STREAMS: Mapping[str, str] = {
    "in order": "a k x,1 1; b k r,1 3; a l y,2 5; b m s,2 12; a k x,3 14; b k t,3 40",
    "alone": "a k x,1 0; a l y,2 14; a m x,2 15.5; b o r,1 16; b k s,2 32; a o w,3 50",
    "out of order": "a k x,1 20; b k r,1 12; a k y,2 9; b k s,2 31; a l y,3 24; b l t,3 18",
    "late": "a k x,1 10; b m r,1 30; b k s,2 12; a n y,2 60; b k t,3 14; a m w,3 31",
    "null": "a k - 1; b k r,1 2; a - x,2 3; b k - 4; a k y,3 5",
    "rekeyed": "a k x,1 5; b l x,2 7; a l y,3 2; b k y,1 18; a m x,5 16",
}
STREAM_AND_TABLE: Mapping[str, str] = {
    "in order": "u k r,1 1; a k x,1 2; u k s,2 3; a k y,2 4; a l x,3 5",
    "before": "a k x,1 1; u k r,1 2; a k y,2 3; u l s,1 4; a l k,2 5",
    "out of order": "u k r,1 5; u k s,2 2; a k x,1 6; a k y,2 3; a k y,3 1",
    "deleted": "u k r,1 1; a k x,1 2; u k - 3; a k y,2 4; u k s,2 5; a k x,2 6",
    "deleted before": "u k r,1 5; u k - 2; a k x,1 6; a k y,2 3",
    "null": "u k r,1 1; a k - 2; a - x,2 3; a k k,3 4",
    "rekeyed": "u x r,1 1; u k s,2 2; a k x,1 3; a l k,2 4; a k w,3 5",
}
ONE_TABLE: Mapping[str, str] = {
    "in order": "t k x,1 1; t l x,2 2; t k x,3 3; t m y,4 4",
    "moved": "t k x,1 1; t l x,2 2; t k y,3 3; t l y,2 4; t k x,2 5",
    "deleted": "t k x,2 1; t l x,2 2; t k - 3; t l - 4; t k x,5 5",
    "deleted before": "t k x,2 5; t k - 2; t l - 3; t l y,3 1",
    "out of order": "t k x,2 9; t k y,3 4; t l y,2 6; t l x,1 2",
    "where": "t k x,1 1; t k x,2 2; t k y,1 3; t l y,1 4; t l - 5",
}
TWO_TABLES: Mapping[str, str] = {
    "in order": "t k x,1 1; u k r,1 2; u l s,2 3; t l y,2 4; u k w,3 5",
    "deleted": "t k x,1 1; u k r,1 2; u k - 3; u k s,2 4; t k - 5; u k - 6",
    "deleted before": "t k x,2 3; u k r,1 5; u k - 2; t k - 1",
    "out of order": "t k x,2 9; u k r,1 4; t k y,3 2; u k s,2 6",
    "moved": "u x r,1 1; u y s,2 2; t k x,2 3; t l x,3 4; t k y,2 5; u x - 6; t l w,2 7",
    "rekeyed before": "t k x,2 5; u x r,1 2; u y s,2 9; t k y,1 4; t k - 3",
}

_TIMES = "WITHIN 10 SECONDS"
_A_TABLE = "CREATE TABLE r AS SELECT"
_A_STREAM = "CREATE STREAM r AS SELECT"
_COUNT = f"{_A_TABLE} k, COUNT(*) AS c FROM a"
_LIST = f"{_A_TABLE} k, ARRAY_JOIN(COLLECT_LIST(g), '|') AS c FROM a"
_SESSION = "WINDOW SESSION (10 SECONDS, GRACE PERIOD 5 SECONDS)"


def _tumbling(grace: str) -> str:
    return f"WINDOW TUMBLING (SIZE 10 SECONDS{grace})"


def _hopping(grace: str) -> str:
    return f"WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS{grace})"


_NO_GRACE, _GRACE = ", GRACE PERIOD 0 SECONDS", ", GRACE PERIOD 5 SECONDS"


def _joins(name: str, within: str, on: str = "a.k = b.k", key: str = "k") -> Iterator[tuple[str, str]]:
    for kind in ("INNER", "LEFT", "RIGHT", "FULL"):
        shown = {"FULL": "ROWKEY AS id", "RIGHT": f"b.{'h' if key == 'g' else 'k'} AS id"}.get(kind, f"a.{key} AS id")
        texts = ", ".join(
            f"AS_VALUE({each}) AS v{number}" if shown.startswith(each) else f"{each} AS v{number}"
            for number, each in enumerate(("a.g", "b.h"))
        )
        yield f"{kind.lower()} {name}", f"{_A_STREAM} {shown}, {texts} FROM a {kind} JOIN b {within} ON {on};"


OVER_A_STREAM: Mapping[str, str] = {
    "filter": f"{_A_STREAM} * FROM a WHERE n > 1;",
    "projection": f"{_A_STREAM} k, n + 1 AS n, UCASE(g) AS g FROM a;",
    "partition by": f"{_A_STREAM} g, n FROM a PARTITION BY g;",
    "partition by null": f"{_A_STREAM} g, n FROM a PARTITION BY NULL;",
    "explode": f"{_A_STREAM} k, EXPLODE(SPLIT(g, '-')) AS part FROM a;",
    "count": f"{_COUNT} GROUP BY k;",
    "count by text": f"{_A_TABLE} g, COUNT(*) AS c FROM a GROUP BY g;",
    "count by two": "CREATE TABLE r WITH (KEY_FORMAT = 'DELIMITED') AS "
    "SELECT k, g, COUNT(*) AS c FROM a GROUP BY k, g;",
    "count where": f"{_COUNT} WHERE n > 1 GROUP BY k;",
    "count having": f"{_COUNT} GROUP BY k HAVING COUNT(*) > 1;",
    "sum having": f"{_A_TABLE} k, SUM(n) AS c FROM a GROUP BY k HAVING SUM(n) < 4;",
    "sum": f"{_A_TABLE} k, SUM(n) AS c FROM a GROUP BY k;",
    "bounds": f"{_A_TABLE} k, MIN(n) AS least, MAX(n) AS most FROM a GROUP BY k;",
    "list": f"{_LIST} GROUP BY k;",
    "latest": f"{_A_TABLE} k, LATEST_BY_OFFSET(g) AS c FROM a GROUP BY k;",
    "earliest": f"{_A_TABLE} k, EARLIEST_BY_OFFSET(g) AS c FROM a GROUP BY k;",
    "tumbling count": f"{_COUNT} {_tumbling(_NO_GRACE)} GROUP BY k;",
    "tumbling count, grace": f"{_COUNT} {_tumbling(_GRACE)} GROUP BY k;",
    "tumbling count, a day": f"{_COUNT} {_tumbling('')} GROUP BY k;",
    "tumbling list, grace": f"{_LIST} {_tumbling(_GRACE)} GROUP BY k;",
    "tumbling sum where": f"{_A_TABLE} k, SUM(n) AS c FROM a {_tumbling(_GRACE)} WHERE n > 1 GROUP BY k;",
    "tumbling count by text": f"{_A_TABLE} g, COUNT(*) AS c FROM a {_tumbling(_GRACE)} GROUP BY g;",
    "tumbling count having": f"{_COUNT} {_tumbling(_GRACE)} GROUP BY k HAVING COUNT(*) > 1;",
    "hopping count": f"{_COUNT} {_hopping(_NO_GRACE)} GROUP BY k;",
    "hopping count, grace": f"{_COUNT} {_hopping(_GRACE)} GROUP BY k;",
    "hopping list, grace": f"{_LIST} {_hopping(_GRACE)} GROUP BY k;",
    "session count": f"{_COUNT} WINDOW SESSION (10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY k;",
    "session count, grace": f"{_COUNT} {_SESSION} GROUP BY k;",
    "session list, grace": f"{_LIST} {_SESSION} GROUP BY k;",
    "tumbling count final, grace": f"{_COUNT} {_tumbling(_GRACE)} GROUP BY k EMIT FINAL;",
    "tumbling list final, grace": f"{_LIST} {_tumbling(_GRACE)} GROUP BY k EMIT FINAL;",
    "tumbling count suppressed": f"{_COUNT} {_tumbling(_GRACE)} GROUP BY k EMIT FINAL;",
    "hopping count final, grace": f"{_COUNT} {_hopping(_GRACE)} GROUP BY k EMIT FINAL;",
    "session count final, grace": f"{_COUNT} {_SESSION} GROUP BY k EMIT FINAL;",
}
OVER_TWO_STREAMS: Mapping[str, str] = {
    "insert into": f"{_A_STREAM} * FROM a WHERE n > 1; INSERT INTO r SELECT k, h AS g, m AS n FROM b WHERE m > 1;",
    **dict(_joins("join", _TIMES)),
    **dict(_joins("join, before and after", "WITHIN (3 SECONDS, 10 SECONDS)")),
    **dict(_joins("join with grace", f"{_TIMES} GRACE PERIOD 5 SECONDS")),
    **dict(_joins("join with no grace", f"{_TIMES} GRACE PERIOD 0 SECONDS")),
    **dict(_joins("join with grace, before and after", "WITHIN (3 SECONDS, 10 SECONDS) GRACE PERIOD 5 SECONDS")),
    **dict(_joins("join by text", f"{_TIMES} GRACE PERIOD 5 SECONDS", "a.g = b.h", "g")),
    "join and count": f"{_A_TABLE} a.k AS k, COUNT(*) AS c FROM a JOIN b {_TIMES} GRACE PERIOD 5 SECONDS ON a.k = b.k "
    "GROUP BY a.k;",
}
OVER_A_STREAM_AND_A_TABLE: Mapping[str, str] = {
    "stream join table": f"{_A_STREAM} a.k AS id, g, h FROM a JOIN u ON a.k = u.k;",
    "stream left join table": f"{_A_STREAM} a.k AS id, g, h FROM a LEFT JOIN u ON a.k = u.k;",
    "stream join table, rekeyed": f"{_A_STREAM} a.g AS id, AS_VALUE(a.g) AS g, h FROM a JOIN u ON a.g = u.k;",
    "stream left join table, rekeyed": f"{_A_STREAM} a.g AS id, AS_VALUE(a.g) AS g, h FROM a LEFT JOIN u ON a.g = u.k;",
    "stream join versions": f"{_A_STREAM} a.k AS id, g, h FROM a JOIN u ON a.k = u.k;",
    "stream left join versions": f"{_A_STREAM} a.k AS id, g, h FROM a LEFT JOIN u ON a.k = u.k;",
    "stream join two tables": f"{_A_STREAM} a.k AS id, a.g AS g1, t.g AS g2, h FROM a JOIN t ON a.k = t.k "
    "LEFT JOIN u ON a.k = u.k;",
    "stream join table, filtered": f"{_A_STREAM} a.k AS id, g, h FROM a JOIN u ON a.k = u.k WHERE n > 1;",
    "table join and count": f"{_A_TABLE} a.k AS k, COUNT(*) AS c FROM a JOIN u ON a.k = u.k GROUP BY a.k;",
}
OVER_A_TABLE: Mapping[str, str] = {
    "table": f"{_A_TABLE} k, UCASE(g) AS g, n FROM t;",
    "table where": f"{_A_TABLE} * FROM t WHERE n > 1;",
    "table of a table": f"CREATE TABLE s AS SELECT * FROM t WHERE n > 1; {_A_TABLE} k, g FROM s;",
    "table count": f"{_A_TABLE} g, COUNT(*) AS c FROM t GROUP BY g;",
    "table sum": f"{_A_TABLE} g, SUM(n) AS c FROM t GROUP BY g;",
    "table count where": f"{_A_TABLE} g, COUNT(*) AS c FROM t WHERE n > 1 GROUP BY g;",
    "table count having": f"{_A_TABLE} g, COUNT(*) AS c FROM t GROUP BY g HAVING COUNT(*) > 1;",
}
OVER_TWO_TABLES: Mapping[str, str] = {
    "tables inner": f"{_A_TABLE} t.k AS id, g, h FROM t JOIN u ON t.k = u.k;",
    "tables left": f"{_A_TABLE} t.k AS id, g, h FROM t LEFT JOIN u ON t.k = u.k;",
    "tables right": f"{_A_TABLE} u.k AS id, g, h FROM t RIGHT JOIN u ON t.k = u.k;",
    "tables full": f"{_A_TABLE} ROWKEY AS id, g, h FROM t FULL JOIN u ON t.k = u.k;",
    "tables where": f"{_A_TABLE} t.k AS id, g, h FROM t LEFT JOIN u ON t.k = u.k WHERE n > 1;",
    "tables inner by a foreign key": f"{_A_TABLE} t.k AS id, g, h FROM t JOIN u ON t.g = u.k;",
    "tables left by a foreign key": f"{_A_TABLE} t.k AS id, g, h FROM t LEFT JOIN u ON t.g = u.k;",
}
FAMILIES = (
    (OVER_A_STREAM, ONE_STREAM), (OVER_TWO_STREAMS, TWO_STREAMS), (OVER_A_STREAM_AND_A_TABLE, STREAM_AND_TABLE),
    (OVER_A_TABLE, ONE_TABLE), (OVER_TWO_TABLES, TWO_TABLES),
)  # fmt: skip
_LAST = {
    id(ONE_STREAM): "; a z z,0 100000",
    id(TWO_STREAMS): "; a z z,0 100000; b z2 z2,0 100000",
}  # closes all windows
TOPOLOGIES: Mapping[str, str] = {name: sql for statements, _ in FAMILIES for name, sql in statements.items()}


def script(name: str) -> str:
    """Return the script of a topology."""
    return (VERSIONS if "versions" in name else SOURCES) + TOPOLOGIES[name]


def variants(name: str, inputs: Mapping[str, str] | None = None) -> list[list[Sent]]:
    """Return the inputs of a topology. Keys and texts begin with the number of their variant.

    Args:
        inputs: others than those of its family, by name.
    """
    [own] = [each for statements, each in FAMILIES if name in statements]
    last = _LAST.get(id(own), "")
    found = []
    for number, (variant, text) in enumerate((inputs or own).items()):
        records = []
        for place, record in enumerate((text + last).split("; ")):
            topic, key, value, seconds = record.split(" ")
            time_ms = round(float(seconds) * 1000)
            records.append(Sent(topic, _of(number, key), _of(number, value), time_ms, f"{variant} {place}"))
        found.append(records)
    return found


def in_one_batch(records: Sequence[Sent]) -> list[Sent]:
    """Return records in the order that they have in one micro-batch: a table that a stream joins is read before the
    stream, and of two streams, as in Kafka Streams, always the older one of their next records."""
    if all(each.topic in "tu" for each in records):
        return list(records)
    left = {topic: [each for each in records if each.topic == topic] for topic in "ab"}
    found = [each for each in records if each.topic in "tu"]
    while any(left.values()):
        topic = min((each for each in left if left[each]), key=lambda each: left[each][0].time_ms)
        found.append(left[topic].pop(0))
    return found


def _of(number: int, text: str) -> str | None:
    return None if text == "-" else f"{number}{text}"
