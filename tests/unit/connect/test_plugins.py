"""Plugins by name, definitions of configurations, and what is said when an extra is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from odradek.connect import plugins
from odradek.connect.config import ConfigDef, Kind, between, one_of
from odradek.connect.errors import BadRequest, ConfigError
from odradek.connect.plugin import SinkConnector
from odradek.connect.record import SinkRecord
from odradek.connect.transforms.chain import make_chain
from odradek.connect.validate import check
from odradek.extras import MissingExtra

from tests.support.counted import at_least


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSourceConnector",
        "FileStreamSource",
        "odradek.connect.connectors.files.source.FileSourceConnector",
        "odradek.connect.connectors.files.source:FileSourceConnector",
    ],
)
def test_a_connector_has_the_names_that_people_know(name: str) -> None:
    assert plugins.connector(name).__name__ == "FileSourceConnector"


def test_every_plugin_of_the_wheel_can_be_loaded_and_says_what_it_is() -> None:
    for category in plugins.PLUGINS:
        for name in at_least(1, plugins.names(category)):
            kind = plugins.find(category, name).load()
            assert (kind.__doc__ or "").strip(), name
            assert kind().config_def is kind.config_def


def test_a_plugin_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("odradek.connect.connectors.jdbc")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingExtra, match=r"pip install 'odradek\[connect-jdbc\]'"):
        plugins.connector("JdbcSink")
    listed = [each["class"] for each in plugins.listing(connectors_only=True)]
    assert "io.confluent.connect.jdbc.JdbcSinkConnector" not in listed
    with pytest.raises(BadRequest, match="connect-jdbc"):
        check({"name": "x", "connector.class": "JdbcSink", "topics": "t"})


@pytest.mark.parametrize("name", ["nothing:Here", "odradek.connect.record:Header", "no.such.module:Class"])
def test_a_path_that_leads_to_no_plugin_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be loaded|is not a Connector|has no class"):
        plugins.connector(name)


DEFINED = (
    ConfigDef()
    .define("a", Kind.INT, documentation="A number.", allowed=between(1, 9))
    .define("b", Kind.LIST, ["x"], "A list.")
    .define("c", Kind.PASSWORD, None, "A secret.")
    .define("d", Kind.STRING, "one", "A word.", allowed=one_of("one", "two"), also=("old.d",))
    .define("e", Kind.BOOLEAN, True, "A flag.")
)


def test_values_are_parsed_with_their_defaults() -> None:
    assert DEFINED.parse({"a": "5", "b": "p, q", "old.d": "two", "e": "FALSE", "other": "ignored"}) == {
        "a": 5, "b": ["p", "q"], "c": None, "d": "two", "e": False,
    }  # fmt: skip


def test_every_problem_is_told_and_no_secret() -> None:
    with pytest.raises(ConfigError) as refused:
        DEFINED.parse({"a": "10", "d": "three", "e": "maybe"})
    text = str(refused.value)
    for problem in ("a must be 1 to 9, not '10'", "d must be one of one, two, not 'three'", "e must be true or false"):
        assert problem in text
    shown: Any = DEFINED.validate({"a": "x", "c": "hunter2"})["c"].as_json(1)
    assert "hunter2" not in str(shown)


def test_topics_of_a_sink_are_checked() -> None:
    sink = {"name": "x", "connector.class": "FileSink", "path": "p"}
    assert issubclass(check({**sink, "topics": "t"}), SinkConnector)
    for wrong in (
        {}, {"topics": "t", "topics.regex": "t"}, {"topics.regex": "("},
        {"topics": "t", "errors.deadletterqueue.topic.name": "t"}, {"topics": "t", "key.converter": "Nothing"},
        {"topics": "t", "consumer.override.bootstrap.servers": "elsewhere"},
    ):  # fmt: skip
        with pytest.raises(BadRequest):
            check({**sink, **wrong})


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package is installed, which offers a transform."""

    def offered(*, group: str) -> list[EntryPoint]:
        found = EntryPoint("Shout", "tests.support.connect.plugins:Shout", "odradek.connect.transforms")
        return [found] if group == found.group else []

    monkeypatch.setattr(plugins, "entry_points", offered)
    plugins._named.cache_clear()
    yield
    plugins._named.cache_clear()


@pytest.mark.usefixtures("entry_points")
def test_a_transform_of_another_package_is_found_by_its_entry_point() -> None:
    assert "Shout" in plugins.names("transforms")
    for name in ("Shout", "tests.support.connect.plugins.Shout", "tests.support.connect.plugins:Shout"):
        [stage] = make_chain({"transforms": "own", "transforms.own.type": name, "transforms.own.mark": "?"})
        changed = stage.apply(SinkRecord(topic="t", partition=0, offset=0, value="what"))
        assert changed is not None
        assert changed.value == "WHAT?"
    with pytest.raises(ConfigError, match="did you mean Shout"):
        plugins.find("transforms", "Shoot")
