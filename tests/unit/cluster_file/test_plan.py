"""Plans: what a file changes, in which order, and what it leaves alone."""

from __future__ import annotations

from odradek.model.quota import QuotaEntity
from odradek.operations.cluster_file import statements
from odradek.operations.cluster_file.contents import ClusterFile, SchemaEntry, SqlEntry, TopicEntry, UserEntry
from odradek.operations.cluster_file.plan import Action, Plan, make_plan
from odradek.operations.cluster_file.reading import read
from odradek.operations.connectors import HIDDEN


def lines(plan: Plan) -> list[str]:
    """Return the changes as `action name: field before after ...`."""
    return [
        f"{change.action} {change.name}"
        + "".join(f" | {each.field} {each.before} {each.after}" for each in change.differences)
        for change in plan.changes
    ]


def test_a_service_that_is_as_the_file_says_is_not_changed() -> None:
    wanted = read("topics: {a: {partitions: 2, configs: {retention.ms: 1}}, b: }\nacls: []\n")
    present = ClusterFile(topics={"a": TopicEntry(2, {"retention.ms": "1"}), "b": TopicEntry(7)}, acls=frozenset())
    assert make_plan(wanted, present, prune=True) == Plan((), (), ())


def test_a_topic_is_created_grown_and_configured() -> None:
    wanted = read("topics: {new: {partitions: 2}, old: {partitions: 6, configs: {retention.ms: 2, segment.ms: 9}}}")
    present = ClusterFile(topics={"old": TopicEntry(3, {"retention.ms": "1", "cleanup.policy": "compact"})})
    plan = make_plan(wanted, present)
    assert lines(plan) == [
        "create topic new | partitions None 2",
        "change topic old | partitions 3 6 | retention.ms 1 2 | segment.ms None 9",
    ]
    assert plan.beyond == ("topic old: cleanup.policy compact",)
    assert lines(make_plan(wanted, present, prune=True))[1].endswith(" | cleanup.policy compact None")


def test_partitions_are_never_taken_away() -> None:
    plan = make_plan(read("topics: {a: {partitions: 2}}"), ClusterFile(topics={"a": TopicEntry(3)}))
    assert plan.changes == ()
    assert "has 3 partitions, and they cannot become 2" in plan.problems[0]


def test_what_the_file_does_not_have_stays_unless_it_is_pruned() -> None:
    wanted = read("topics: {}\nusers: {}\nquotas: []\n")
    present = ClusterFile(
        topics={"a": TopicEntry(1)}, users={"u": UserEntry()}, quotas={QuotaEntity("u"): {"producer_byte_rate": 1.0}}
    )
    kept = make_plan(wanted, present)
    assert (kept.changes, kept.beyond) == ((), ("topic a", "user u", "quotas of user u"))
    assert lines(make_plan(wanted, present, prune=True)) == [
        "delete quotas of user u", "delete user u", "delete topic a",
    ]  # fmt: skip


def test_acls_come_last_and_deletions_after_them() -> None:
    wanted = read("acls: [{principal: 'User:a', allow: [write, read], topic: t}]\ntopics: {t: }")
    present = ClusterFile(topics={"old": TopicEntry(1)}, acls=frozenset())
    assert lines(make_plan(wanted, present, prune=True)) == [
        "create topic t",
        "create acl: allow User:a read on topic t",
        "create acl: allow User:a write on topic t",
        "delete topic old",
    ]


def test_a_user_is_created_once() -> None:
    wanted = read("users: {a: {password_env: A}, b: , c: }")
    plan = make_plan(wanted, ClusterFile(users={"b": UserEntry()}))
    assert lines(plan) == ["create user a", "create user c"]
    assert plan.problems == ("user c does not exist and needs a password: password_env or password_file",)


def test_quotas_are_compared_by_value() -> None:
    wanted = read("quotas: [{user: default, producer_byte_rate: 10, consumer_byte_rate: 5}]")
    present = ClusterFile(quotas={QuotaEntity(""): {"producer_byte_rate": 10.0, "request_percentage": 50.0}})
    plan = make_plan(wanted, present)
    assert lines(plan) == ["change quotas of user default | consumer_byte_rate None 5"]
    assert plan.beyond == ("quotas of user default: request_percentage 50",)


def test_a_schema_is_compared_as_json_and_never_registered_as_an_older_version() -> None:
    wanted = read("""schemas: {s: {schema: '{"type":   "string"}'}}""")
    same = ClusterFile(schemas={"s": SchemaEntry('{"type":"string"}')})
    assert make_plan(wanted, same).changes == ()
    newer = ClusterFile(schemas={"s": SchemaEntry('"int"', older=('{"type":"string"}',))})
    plan = make_plan(wanted, newer)
    assert plan.changes == ()
    assert "as an older version" in plan.problems[0]
    level = ClusterFile(schemas={"s": SchemaEntry('{"type":"string"}', compatibility="FULL")})
    assert make_plan(wanted, level).beyond == ("subject s: compatibility FULL",)
    assert lines(make_plan(wanted, level, prune=True)) == ["change subject s | compatibility FULL None"]


def test_a_connector_is_replaced_as_a_whole_and_its_secrets_are_not_shown() -> None:
    text = "connectors: {connect: {c: {connector.class: X, db.password: new, tasks.max: 2}}}"
    old = {"connector.class": "X", "db.password": "old", "name": "c", "batch": "1"}
    plan = make_plan(read(text), ClusterFile(connectors={"connect": {"c": old}}))
    assert lines(plan) == [f"change connector c | db.password {HIDDEN} {HIDDEN} | tasks.max None 2 | batch 1 (removed)"]
    exported = text.replace("new, tasks.max: 2", f"'{HIDDEN}', batch: 1")
    assert make_plan(read(exported), ClusterFile(connectors={"connect": {"c": old}})).changes == ()
    assert "needs a value for db.password" in make_plan(read(exported), ClusterFile(connectors={})).problems[0]


SOURCE = "CREATE STREAM s (id VARCHAR KEY, a INT) WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON');"
TABLE = "CREATE TABLE n AS SELECT id, COUNT(*) AS c FROM s GROUP BY id;"
INSERT = "INSERT INTO t SELECT id, a FROM s;"


def test_statements_that_say_the_same_are_the_same() -> None:
    sql = read(f'sql: {{server: http://x, statements: "{SOURCE.replace("CREATE", "create or replace")} {TABLE}"}}')
    present = SqlEntry("http://x", (SOURCE, TABLE.replace(" AS SELECT", "  AS\nSELECT")))
    assert make_plan(sql, ClusterFile(sql=present), prune=True).changes == ()


def test_statements_are_run_in_the_order_of_what_they_use_and_dropped_in_reverse() -> None:
    target = SOURCE.replace(" s ", " t ").replace("'s'", "'t'")
    contents = ClusterFile(sql=SqlEntry("http://x", (INSERT, TABLE, target, SOURCE)))
    empty = ClusterFile(sql=SqlEntry("http://x", ()))
    assert lines(make_plan(contents, empty)) == [
        "create stream S", "create table N", "create stream T", "create insert into T",
    ]  # fmt: skip
    assert lines(make_plan(empty, contents, prune=True)) == [
        "delete insert into T", "delete stream T", "delete table N", "delete stream S",
    ]  # fmt: skip


def test_a_changed_statement_replaces_what_it_defines() -> None:
    wanted = ClusterFile(sql=SqlEntry("http://x", (TABLE.replace("COUNT(*)", "SUM(a)"),)))
    plan = make_plan(wanted, ClusterFile(sql=SqlEntry("http://x", (SOURCE, TABLE))))
    assert [(each.action, each.name) for each in plan.changes] == [(Action.CHANGE, "table N")]
    assert plan.beyond == ("stream S",)
    assert statements.replacing("create table if not exists n AS") == "create table if not exists n AS".replace(
        "create table if not exists", "CREATE OR REPLACE table"
    )


def test_topics_of_streams_and_tables_are_not_pruned() -> None:
    wanted = ClusterFile(topics={}, sql=SqlEntry("http://x", (TABLE,)))
    present = ClusterFile(
        topics={"N": TopicEntry(1), "other": TopicEntry(1)},
        sql=SqlEntry("http://x", (TABLE,), topics=frozenset({"N"})),
    )
    assert lines(make_plan(wanted, present, prune=True)) == ["delete topic other"]
